"""Arrays and metadata of an ONNX file, without the onnx package. Source of the field numbers: onnx/onnx.proto."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zoo.weights.protobuf import Malformed, fields, integers, messages, text

GRAPH, METADATA = 7, 14  # of a model
NODE, INITIALIZER = 1, 5  # of a graph
INPUT, OUTPUT, TYPE, ATTRIBUTE = 1, 2, 4, 5  # of a node
# Of a tensor.
DIMS, DATA_TYPE, FLOATS, INT32S, INT64S, NAME, RAW, DOUBLES, EXTERNAL = 1, 2, 4, 5, 7, 8, 9, 10, 13
DTYPES = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4", 13: "<u8",
}  # fmt: skip


def read_onnx(path: Path) -> dict[str, np.ndarray]:
    """Initialisers and Constant nodes by name, in the order in which the graph first uses them, unused ones last.

    Raises ValueError naming the file where it is no whole ONNX model.
    """
    try:
        graph = _graph(path)
        arrays = dict(_array(tensor) for tensor in messages(graph, INITIALIZER))
        used: dict[str, None] = {}
        for node in messages(graph, NODE):
            if text(node, TYPE) == "Constant":
                value = _constant(node)
                if value is not None:
                    arrays[text(node, OUTPUT)] = value
            used |= {bytes(name).decode("utf-8", errors="replace"): None for name in messages(node, INPUT)}
    except (Malformed, TypeError) as error:
        raise ValueError(f"{path}: not a whole ONNX file: {error}") from None
    order = [*(name for name in used if name in arrays), *(name for name in arrays if name not in used)]
    return {name: arrays[name] for name in order}


def onnx_metadata(path: Path) -> dict[str, str]:
    """The metadata that a model carries, such as a charset. Raises ValueError where it is no whole ONNX file."""
    try:
        return {text(entry, 1): text(entry, 2) for entry in messages(memoryview(path.read_bytes()), METADATA)}
    except Malformed as error:
        raise ValueError(f"{path}: not a whole ONNX file: {error}") from None


def _graph(path: Path) -> memoryview:
    graphs = list(messages(memoryview(path.read_bytes()), GRAPH))
    if len(graphs) != 1:
        raise Malformed("it holds no graph")
    return graphs[0]


def _constant(node: memoryview) -> np.ndarray | None:
    for attribute in messages(node, ATTRIBUTE):
        if text(attribute, 1) == "value":
            for tensor in messages(attribute, 5):
                return _array(tensor)[1]
    return None  # value_float, value_ints and the like hold no weights


def _array(tensor: memoryview) -> tuple[str, np.ndarray]:
    name, shape = text(tensor, NAME), integers(tensor, DIMS)
    kinds = integers(tensor, DATA_TYPE)
    if not kinds or kinds[-1] not in DTYPES:
        raise Malformed(f"{name}: data type {kinds[-1] if kinds else 'none'} is not read")
    if any(True for _ in messages(tensor, EXTERNAL)):
        raise Malformed(f"{name}: lies in another file; save the model with its weights inside")
    dtype = np.dtype(DTYPES[kinds[-1]])
    values = _values(tensor, dtype)
    if values.size != int(np.prod(shape, dtype=np.int64)):
        raise Malformed(f"{name}: {values.size} numbers for shape {shape}")
    return name, values.reshape(shape)


def _values(tensor: memoryview, dtype: np.dtype) -> np.ndarray:
    for raw in messages(tensor, RAW):
        if len(raw) % dtype.itemsize:
            raise Malformed("raw data of an odd length")
        return np.frombuffer(raw, dtype).copy()
    for number, kind in ((FLOATS, "<f4"), (DOUBLES, "<f8")):
        # Repeated numbers of fixed size come packed or one by one; both are their bytes in order.
        packed = b"".join(bytes(v) for field, _, v in fields(tensor) if field == number and isinstance(v, memoryview))
        if packed:
            return np.frombuffer(packed, kind).astype(dtype)
    if dtype == np.float16:  # held as the bits of whole numbers
        return np.array(integers(tensor, INT32S), np.uint16).view(np.float16)
    return np.array(integers(tensor, INT32S) or integers(tensor, INT64S), dtype)
