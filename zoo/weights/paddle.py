"""Arrays of Paddle's own files, without paddle: .pdparams and .pdopt (pickles), .pdiparams with .pdmodel (binary)."""

from __future__ import annotations

import io
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from zoo.weights.protobuf import Malformed, integers, messages, text

# What a pickle of arrays needs, and nothing else: constructors that make arrays and cannot call anything.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("collections", "OrderedDict"),
    ("_codecs", "encode"),
}
BIG = "UnpackBigParamInfor@@"  # Paddle cuts arrays over a gigabyte into slices and writes down how to join them
DTYPES = {0: "?", 1: "<i2", 2: "<i4", 3: "<i8", 4: "<f2", 5: "<f4", 6: "<f8", 20: "u1", 21: "i1"}
LOD_TENSOR = 7  # the kind of a variable that holds an array


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which holds no array; refused")
        if module == "collections":
            return OrderedDict
        if module == "_codecs":
            return _latin1
        if name in ("_reconstruct", "scalar"):
            return _reconstruct if name == "_reconstruct" else _scalar
        return getattr(np, name)


def _latin1(value: Any, encoding: Any = "latin1") -> bytes:
    """What pickle protocol 2 stores bytes as; only that encoding is admitted."""
    if not isinstance(value, str) or encoding != "latin1":
        raise pickle.UnpicklingError("it encodes a text in an unusual way; refused")
    return value.encode("latin1")


def _reconstruct(kind: Any, shape: Any, dtype: Any) -> np.ndarray:
    """An empty array for its state to fill, as numpy's own `_reconstruct`, for plain arrays only."""
    if kind is not np.ndarray:
        raise pickle.UnpicklingError("it makes an array of an unusual kind; refused")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _scalar(dtype: Any, data: Any = b"") -> Any:
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(data, bytes):
        raise pickle.UnpicklingError("it makes a scalar of an unusual kind; refused")
    return np.frombuffer(data, dtype)[0]


def read_pdparams(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a .pdparams or .pdopt file by name. Raises ValueError naming the file, also for a hostile pickle."""
    try:
        with path.open("rb") as file:
            found = _ArraysOnly(io.BytesIO(file.read()), encoding="latin1").load()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"{path}: no pickle of arrays: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: holds a {type(found).__name__}, not arrays by name")
    return _joined(path, _flat(path, found))


def _flat(path: Path, found: dict[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries, as optimiser files have, with their keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in found.items():
        if key == "StructuredToParameterName@@" or not isinstance(key, str):
            continue
        if isinstance(value, dict) and key != BIG:
            flat |= _flat(path, value, f"{prefix}{key}.")
        elif key == BIG:
            flat[BIG] = value
        elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], np.ndarray):
            flat[prefix + key] = value[1]  # (name, array), as paddle.save writes a parameter
        elif isinstance(value, np.ndarray | np.generic | int | float):
            array = np.asarray(value)
            if array.dtype.hasobject:
                raise ValueError(f"{path}: {prefix}{key} holds objects, not numbers; refused")
            flat[prefix + key] = array
    return flat


def _joined(path: Path, flat: dict[str, Any]) -> dict[str, np.ndarray]:
    plans = flat.pop(BIG, {})
    for name, plan in plans.items() if isinstance(plans, dict) else ():
        try:
            flat[name] = np.concatenate([flat.pop(part).ravel() for part in plan["slices"]]).reshape(
                plan["OriginShape"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {name} is cut into slices that do not join: {error}") from None
    return flat


def read_pdiparams(params: Path, model: Path) -> dict[str, np.ndarray]:
    """Arrays of a .pdiparams file with the names and the order of use that its .pdmodel gives.

    Raises ValueError naming the file that is cut short or does not belong to the other.
    """
    names, used = _names(model)
    data = memoryview(params.read_bytes())
    arrays: dict[str, np.ndarray] = {}
    at = 0
    for name in names:  # Paddle writes them sorted by name
        try:
            arrays[name], at = _tensor(data, at)
        except (struct.error, Malformed, KeyError, ValueError) as error:
            raise ValueError(f"{params}: cut short or not of {model.name}, at {name}: {error}") from None
    if at != len(data):
        raise ValueError(f"{params}: {len(data) - at} bytes are left over; it is not of {model.name}")
    order = [*(name for name in used if name in arrays), *(name for name in arrays if name not in used)]
    return {name: arrays[name] for name in order}


def _names(model: Path) -> tuple[list[str], dict[str, None]]:
    """Names of the stored arrays, sorted, and all names in the order in which the program uses them.

    Field numbers: paddle/fluid/framework/framework.proto.
    """
    stored, used = [], {}
    try:
        for block in messages(memoryview(model.read_bytes()), 1):
            for variable in messages(block, 3):
                name, persistable = text(variable, 1), integers(variable, 3)
                kinds = [kind for typ in messages(variable, 2) for kind in integers(typ, 1)]
                if persistable and persistable[-1] and LOD_TENSOR in kinds and name not in ("feed", "fetch"):
                    stored.append(name)
            for operation in messages(block, 4):
                # Inputs are listed by the name of their slot; Filter before Bias, Scale before Mean, as torch has them.
                for slot in sorted(messages(operation, 1), key=lambda s: _SLOTS.get(text(s, 1), 0)):
                    used |= {bytes(argument).decode(): None for argument in messages(slot, 2)}
    except (Malformed, UnicodeDecodeError) as error:
        raise ValueError(f"{model}: not a whole .pdmodel file: {error}") from None
    if not stored:
        raise ValueError(f"{model}: names no stored arrays; it is no .pdmodel file")
    return sorted(stored), used


_SLOTS = {"Filter": 1, "Y": 1, "W": 1, "Scale": 1, "Bias": 2, "Mean": 3, "Variance": 4}


def _tensor(data: memoryview, at: int) -> tuple[np.ndarray, int]:
    """One array: version, levels of detail (none), version, description, numbers."""
    (_, levels) = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(levels):
        (size,) = struct.unpack_from("<Q", data, at)
        at += 8 + size
    (_, length) = struct.unpack_from("<Ii", data, at)
    at += 8
    if length < 0 or at + length > len(data):
        raise Malformed("its description runs past the end")
    description = data[at : at + length]
    at += length
    dtype, shape = np.dtype(DTYPES[integers(description, 1)[-1]]), integers(description, 2)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size < 0 or at + size > len(data):
        raise Malformed("its numbers run past the end")
    return np.frombuffer(data[at : at + size], dtype).reshape(shape).copy(), at + size


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a safetensors file by name. Raises ValueError naming the file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: not a whole safetensors file: {error}") from None
