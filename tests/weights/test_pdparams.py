"""Paddle's pickles: what paddle.save writes is read, and what is damaged is told."""

from __future__ import annotations

import builtins
import io
import pickle
import pickletools
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.weights import convert
from zoo.weights.paddle import read_pdparams

ARRAYS = {
    "conv.weight": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "columns_first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big_endian": np.arange(5, dtype=">i4"),
    "half": np.array([1.5, -2], np.float16),
    "bool": np.array([True, False]),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(7, np.int64),
    "odd bytes": np.arange(256, dtype=np.uint8),
}


def written(tmp_path: Path, data: bytes, name: str = "a.pdparams") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def read(tmp_path: Path, data: bytes) -> dict[str, np.ndarray]:
    return read_pdparams(written(tmp_path, data))


def refused(tmp_path: Path, data: bytes, says: str = "") -> None:
    with pytest.raises(ValueError, match=rf"(?s)a\.pdparams: .*{says}"):
        read(tmp_path, data)


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> bool:
    return list(found) == list(wanted) and all(
        found[name].dtype == array.dtype.newbyteorder("=")
        and found[name].shape == array.shape
        and np.array_equal(found[name], array)
        for name, array in wanted.items()
    )


# What is read


def test_nothing(tmp_path: Path) -> None:
    refused(tmp_path, b"", "no whole pickle")
    assert read(tmp_path, pickle.dumps({})) == {}
    with pytest.raises(ValueError, match=r"none\.pdparams: cannot be read"):
        read_pdparams(tmp_path / "none.pdparams")
    with pytest.raises(ValueError, match="cannot be read"):
        read_pdparams(tmp_path)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_dictionaries_of_arrays(tmp_path: Path, protocol: int, kind: type) -> None:
    found = read(tmp_path, pickle.dumps(kind(ARRAYS), protocol))
    assert same(found, ARRAYS)
    assert all(array.flags.writeable for array in found.values())


@pytest.mark.parametrize("protocol", [2, 4])
def test_both_names_of_numpys_module(tmp_path: Path, protocol: int) -> None:
    """NumPy 1 calls it numpy.core and NumPy 2 numpy._core; a file of either is read."""
    pure = io.BytesIO()
    pickle._Pickler(pure, protocol).dump(ARRAYS)  # type: ignore[attr-defined]
    names = (b"numpy._core.multiarray", b"numpy.core.multiarray")
    data = pure.getvalue()
    for old in (names, names[::-1]):
        swapped = _renamed(data, *old) if old[0] in data else data
        assert same(read(tmp_path, swapped), ARRAYS)
    assert any(name in data for name in names)


def _renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    """The pickle with a module renamed, its lengths and frames set right."""
    if old + b"\n" in data:  # a GLOBAL line
        return data.replace(b"c" + old + b"\n", b"c" + new + b"\n")
    unframed = b"".join(
        data[at : at + size] for name, at, size in _operations(data) if name != "FRAME"
    )  # frames are not needed
    return unframed.replace(b"\x8c" + bytes([len(old)]) + old, b"\x8c" + bytes([len(new)]) + new)


def _operations(data: bytes) -> list[tuple[str, int, int]]:
    found = [(operation.name, at) for operation, _, at in pickletools.genops(data)]
    ends = [at for _, at in found[1:]] + [len(data)]
    return [(name, at, end - at) for (name, at), end in zip(found, ends, strict=True)]  # type: ignore[misc, operator]


class Tensor:
    """Pickled as paddle.save pickles a tensor with a name. Source: python/paddle/framework/io.py, reduce_varbase."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.pair = (name, array)

    def __reduce__(self) -> Any:
        return (tuple, (self.pair,))


class NamelessTensor:
    """Source: python/paddle/framework/io.py, reduce_LoDTensor."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        return (builtins.eval, ("data", {"data": self.array}))


@pytest.mark.parametrize("protocol", [2, 4])
def test_tensors_as_paddle_saves_them(tmp_path: Path, protocol: int) -> None:
    weight, bias = np.ones((2, 3), np.float32), np.zeros(3, np.float32)
    state = {
        "model": {"fc.weight": Tensor("linear_0.w_0", weight), "fc.bias": NamelessTensor(bias)},
        "list": [bias, Tensor("x", weight)],
        "epoch": 100,
    }
    wanted = {
        "model.fc.weight": weight, "model.fc.bias": bias, "list.0": bias, "list.1": weight, "epoch": np.array(100),
    }  # fmt: skip
    assert same(read(tmp_path, pickle.dumps(state, protocol)), wanted)
    assert same(read(tmp_path, pickle.dumps(Tensor("w", weight), protocol)), {"w": weight})


@pytest.mark.parametrize("protocol", [2, 4])
def test_names_schedule_and_slices(tmp_path: Path, protocol: int) -> None:
    big = np.arange(12, dtype=np.float32).reshape(3, 4)
    state = {
        "a": np.ones(2),
        "big@@.0": big.ravel()[:5],
        "big@@.1": big.ravel()[5:],
        "UnpackBigParamInfor@@": {"big": {"OriginShape": (3, 4), "slices": ["big@@.0", "big@@.1"]}},
        "StructuredToParameterName@@": {"a": "linear_0.w_0"},
        "LR_Scheduler": {"last_epoch": 3, "last_lr": 0.5, "verbose": False, "name": "cosine", "best": None},
        "master_weights": {"w": np.float64(2.5)},
    }
    wanted = {
        "a": np.ones(2),
        "LR_Scheduler.last_epoch": np.array(3),
        "LR_Scheduler.last_lr": np.array(0.5),
        "LR_Scheduler.verbose": np.array(False),
        "master_weights.w": np.array(2.5),
        "big": big,
    }
    assert same(read(tmp_path, pickle.dumps(state, protocol)), wanted)


def test_tied_weights_stay_one(tmp_path: Path) -> None:
    array = np.ones(5)
    found = read(tmp_path, pickle.dumps({"a": array, "b": array}))
    assert same(found, {"a": array, "b": array}) and found["a"] is found["b"]


def test_the_suffixes_of_paddle(tmp_path: Path) -> None:
    for name in ("a.pdparams", "a.pdopt"):
        assert same(convert.read(written(tmp_path, pickle.dumps(ARRAYS), name)), ARRAYS)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (5, "not a plan"),
        ({"big": {"OriginShape": (9,), "slices": ["part"]}}, "big is cut into slices that do not join"),
        ({"big": {"OriginShape": (3,), "slices": ["none"]}}, "do not join"),
        ({"big": {"OriginShape": (3,), "slices": ["part", "part"]}}, "do not join"),
        ({"big": {"OriginShape": (-1,), "slices": []}}, "do not join"),
        ({"big": {"slices": ["part"]}}, "do not join"),
        ({"big": 5}, "do not join"),
    ],
)
def test_slices_that_do_not_join(tmp_path: Path, plan: Any, says: str) -> None:
    refused(tmp_path, pickle.dumps({"part": np.ones(3), "UnpackBigParamInfor@@": plan}), says)


@pytest.mark.parametrize("value", [5, [1], "text", None, ("a", 1), np.ones(2)], ids=str)
def test_what_is_no_dictionary(tmp_path: Path, value: Any) -> None:
    refused(tmp_path, pickle.dumps(value), "not arrays by name")


# What is damaged


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cut_short_anywhere(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({**ARRAYS, "t": Tensor("x", np.ones(3))}, protocol)
    for cut in range(0, len(data), 1 + len(data) // 400):
        refused(tmp_path, data[:cut])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_rubbish(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    found_or_refused(tmp_path_factory.getbasetemp() / "rubbish.pdparams", data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([0, 2, 4]), st.integers(0, 10**6), st.integers(0, 255))
def test_damage(tmp_path_factory: pytest.TempPathFactory, protocol: int, where: int, byte: int) -> None:
    data = bytearray(pickle.dumps(ARRAYS, protocol))
    data[where % len(data)] = byte
    found_or_refused(tmp_path_factory.getbasetemp() / "damage.pdparams", bytes(data))


def found_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        found = read_pdparams(path)
    except ValueError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert all(isinstance(name, str) and isinstance(array, np.ndarray) for name, array in found.items())
