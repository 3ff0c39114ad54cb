"""Arrays and metadata of an ONNX file, without the onnx package. Source of the field numbers: onnx/onnx.proto."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from zoo.weights.protobuf import Malformed, integers, messages, read_bytes, text

GRAPH, OPSETS, METADATA = 7, 8, 14  # of a model
NODE, INITIALIZER = 1, 5  # of a graph
INPUT, OUTPUT, TYPE, ATTRIBUTE = 1, 2, 4, 5  # of a node
# Of a tensor.
DIMS, DATA_TYPE, FLOATS, INT32S, INT64S, NAME, RAW, DOUBLES, UINT64S, EXTERNAL = 1, 2, 4, 5, 7, 8, 9, 10, 11, 13
STRINGS = 8  # the data type of texts, which are no weights
# Of an attribute of a Constant node: what it is called and which field holds it.
NUMBERS = {"value_float": (2, "<f4"), "value_floats": (7, "<f4"), "value_int": (3, "<i8"), "value_ints": (8, "<i8")}
DTYPES = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8",
    12: "<u4", 13: "<u8",
}  # fmt: skip


def read_onnx(path: Path) -> dict[str, np.ndarray]:
    """Initialisers and Constant nodes by name, in the order in which the graph first uses them, unused ones last.

    Texts are left out. Raises ValueError naming the file where it is no whole ONNX model, or holds numbers of a kind
    that NumPy lacks or that lie in another file.
    """
    data = read_bytes(path)
    try:
        graph = _graph(memoryview(data))
        arrays = dict(_array(tensor) for tensor in messages(graph, INITIALIZER) if not _is_text(tensor))
        used: dict[str, None] = {}
        for node in messages(graph, NODE):
            if text(node, TYPE) == "Constant":
                value = _constant(node)
                if value is not None:
                    arrays[text(node, OUTPUT)] = value
            used |= {bytes(name).decode("utf-8", errors="replace"): None for name in messages(node, INPUT)}
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path}: not an ONNX file that is read whole: {error}") from None
    order = [*(name for name in used if name in arrays), *(name for name in arrays if name not in used)]
    return {name: arrays[name] for name in order}


def onnx_metadata(path: Path) -> dict[str, str]:
    """The metadata that a model carries, such as a charset. Raises ValueError where it is no whole ONNX file."""
    data = memoryview(read_bytes(path))
    try:
        _graph(data)
        return {text(entry, 1): text(entry, 2) for entry in messages(data, METADATA)}
    except Malformed as error:
        raise ValueError(f"{path}: not a whole ONNX file: {error}") from None


def _graph(data: memoryview) -> memoryview:
    graphs = list(messages(data, GRAPH))
    # Every model says which operators it is written in, after its graph: without, the end is missing.
    if len(graphs) != 1 or not any(True for _ in messages(data, OPSETS)):
        raise Malformed("it holds no graph, or its end is missing")
    return graphs[0]


def _is_text(tensor: memoryview) -> bool:
    return integers(tensor, DATA_TYPE)[-1:] == [STRINGS]


def _constant(node: memoryview) -> np.ndarray | None:
    for attribute in messages(node, ATTRIBUTE):
        name = text(attribute, 1)
        if name == "value":
            for tensor in messages(attribute, 5):
                return None if _is_text(tensor) else _array(tensor)[1]
        if name in NUMBERS:
            number, dtype = NUMBERS[name]
            values = (
                _fixed(attribute, number, dtype) if dtype == "<f4" else np.array(integers(attribute, number), dtype)
            )
            return values if name.endswith("s") else values.reshape(())
    return None  # a text, or a sparse one


def _array(tensor: memoryview) -> tuple[str, np.ndarray]:
    name, shape = text(tensor, NAME), integers(tensor, DIMS)
    kinds = integers(tensor, DATA_TYPE)
    if not kinds or kinds[-1] not in DTYPES:
        raise Malformed(f"{name}: data type {kinds[-1] if kinds else 'none'} is not read")
    if any(True for _ in messages(tensor, EXTERNAL)):
        raise Malformed(f"{name}: lies in another file; save the model with its weights inside")
    dtype = np.dtype(DTYPES[kinds[-1]])
    values = _values(tensor, dtype)
    if values.size != math.prod(shape) or min(shape, default=0) < 0:
        raise Malformed(f"{name}: {values.size} numbers for shape {shape}")
    return name, values.reshape(shape)


def _values(tensor: memoryview, dtype: np.dtype) -> np.ndarray:
    for raw in messages(tensor, RAW):
        if len(raw) % dtype.itemsize:
            raise Malformed("raw data of an odd length")
        return np.frombuffer(bytearray(raw), dtype)
    if dtype in (np.float32, np.float64):
        return _fixed(tensor, FLOATS, "<f4") if dtype == np.float32 else _fixed(tensor, DOUBLES, "<f8")
    if dtype == np.float16:  # held as the bits of whole numbers
        return np.array(integers(tensor, INT32S), np.uint16).view(np.float16)
    if dtype in (np.uint32, np.uint64):
        return np.array(integers(tensor, UINT64S), np.int64).astype(dtype)
    return np.array(integers(tensor, INT64S if dtype == np.int64 else INT32S), dtype)


def _fixed(message: memoryview, number: int, dtype: str) -> np.ndarray:
    """Repeated numbers of fixed size, packed or one by one: both are their bytes in order."""
    return np.frombuffer(b"".join(messages(message, number)), dtype).copy()
