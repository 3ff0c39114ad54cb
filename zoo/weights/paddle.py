"""Arrays of Paddle's own files, without paddle: .pdparams and .pdopt (pickles), .pdiparams with .pdmodel (binary)."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from zoo.weights import pickles
from zoo.weights.protobuf import Malformed, integers, messages, read_bytes, text

BIG = "UnpackBigParamInfor@@"  # Paddle cuts arrays over a gigabyte into slices and writes down how to join them
DTYPES = {0: "?", 1: "<i2", 2: "<i4", 3: "<i8", 4: "<f2", 5: "<f4", 6: "<f8", 20: "u1", 21: "i1"}
NAMES = "StructuredToParameterName@@"  # Paddle's other names of the same arrays
DEEPEST = 500  # dots in a name
LOD_TENSOR = 7  # the kind of a variable that holds an array


def read_pdparams(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a .pdparams or .pdopt file by name; numbers become arrays too, and names of what is nested are joined
    by dots. Texts are left out. Raises ValueError naming the file, also for a hostile pickle, of which nothing is run.
    """
    found = pickles.load(path)
    if _is_tensor(found):
        found = {found[0]: found[1]}
    if not isinstance(found, dict):
        raise ValueError(f"{path}: holds a {type(found).__name__}, not arrays by name")
    plans = found.pop(BIG, {})
    flat: dict[str, np.ndarray] = {}
    try:
        _flatten(found, "", flat, {})
    except pickles.Refused as error:
        raise ValueError(f"{path}: {error}") from None
    return _joined(path, flat, plans)


def _is_tensor(value: Any) -> bool:
    """Whether it is (name, array), as paddle.save writes a tensor."""
    return isinstance(value, tuple) and [type(part) for part in value] == [str, pickles.Array]


def _flatten(value: Any, name: str, flat: dict[str, np.ndarray], seen: dict[int, np.ndarray]) -> None:
    """Puts what lies in nested dictionaries and lists into `flat`. seen: what was met, by its identity."""
    if _is_tensor(value):
        value = value[1]
    if isinstance(value, pickles.Array):
        # One array under two names stays one, so that no more memory is taken than the file is long.
        if id(value) not in seen:
            if value.values is None:
                raise pickles.Refused(f"damaged: {name} is an array without numbers")
            seen[id(value)] = value.values.astype(value.values.dtype.newbyteorder("="))
        flat[name] = seen[id(value)]
    elif isinstance(value, dict | list | tuple):
        if id(value) in seen or name.count(".") > DEEPEST:
            raise pickles.Refused(f"{name[:60]} holds the same parts again and again; refused")
        if value:  # Python has but one empty tuple
            seen[id(value)] = np.zeros(0)
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            if key != NAMES:
                _flatten(part, f"{name}.{key}" if name else str(key), flat, seen)
    elif isinstance(value, int | float):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise pickles.Refused(f"{name} is a number of more than 64 bits")
        flat[name] = array


def _joined(path: Path, flat: dict[str, np.ndarray], plans: Any) -> dict[str, np.ndarray]:
    if not isinstance(plans, dict):
        raise ValueError(f"{path}: {BIG} is a {type(plans).__name__}, not a plan of slices")
    for name, plan in plans.items():
        try:
            parts = [flat.pop(part).ravel() for part in plan["slices"]]
            flat[name] = np.concatenate(parts).reshape(plan["OriginShape"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path}: {name} is cut into slices that do not join: {error}") from None
    return flat


def read_pdiparams(params: Path, model: Path) -> dict[str, np.ndarray]:
    """Arrays of a .pdiparams file with the names and the order of use that its .pdmodel gives.

    Raises ValueError naming the file that is cut short or does not belong to the other.
    """
    names, used = _names(model)
    data = memoryview(read_bytes(params))
    arrays: dict[str, np.ndarray] = {}
    at = 0
    for name in names:  # Paddle writes them sorted by name
        try:
            arrays[name], at = _tensor(data, at)
        except (struct.error, ValueError, OverflowError) as error:
            raise ValueError(f"{params}: cut short or not of {model.name}, at {name}: {error}") from None
    if at != len(data):
        raise ValueError(f"{params}: {len(data) - at} bytes are left over; it is not of {model.name}")
    order = [*(name for name in used if name in arrays), *(name for name in arrays if name not in used)]
    return {name: arrays[name] for name in order}


def _names(model: Path) -> tuple[list[str], dict[str, None]]:
    """Names of the stored arrays, sorted, and all names in the order in which the program uses them.

    Field numbers: paddle/fluid/framework/framework.proto.
    """
    stored: list[str] = []
    used: dict[str, None] = {}
    try:
        for block in messages(memoryview(read_bytes(model)), 1):
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
        (size,) = struct.unpack_from("<Q", data, at)  # past the end, a struct.error
        at += 8 + size
    (_, length) = struct.unpack_from("<Ii", data, at)
    at += 8
    if length < 0 or at + length > len(data):
        raise Malformed("its description runs past the end")
    description = data[at : at + length]
    at += length
    kinds, shape = integers(description, 1), integers(description, 2)
    if not kinds or kinds[-1] not in DTYPES:
        raise Malformed(f"its type of numbers, {kinds[-1] if kinds else 'none'}, is not read")
    dtype = np.dtype(DTYPES[kinds[-1]])
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or at + size > len(data):
        raise Malformed("its numbers run past the end")
    return np.frombuffer(bytearray(data[at : at + size]), dtype).reshape(shape), at + size


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a safetensors file by name. Raises ValueError naming the file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_bytes(path)
    try:
        return load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # KeyError: a type that numpy lacks
        raise ValueError(f"{path}: not a whole safetensors file, or of a type that is not read: {error}") from None
