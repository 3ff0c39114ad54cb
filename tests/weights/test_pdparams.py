"""Paddle's pickles: what paddle.save writes is read, what a hostile file asks for is refused and never run."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import pickletools
import resource
import struct
import subprocess
import sys
import time
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


# What is refused


class Calls:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.wanted = (function, arguments)

    def __reduce__(self) -> Any:
        return self.wanted


TOUCH = "touch {}/touched"
ATTACKS = {
    "os.system": lambda f: Calls(os.system, TOUCH.format(f)),
    "eval": lambda f: Calls(builtins.eval, f"__import__('os').system('{TOUCH.format(f)}')"),
    "eval with names": lambda f: Calls(builtins.eval, f"open('{f}/touched', 'w')", {"data": np.ones(1)}),
    "eval of data and more": lambda f: Calls(builtins.eval, "data", {"data": np.ones(1), "__builtins__": {}}),
    "exec": lambda f: Calls(builtins.exec, f"open('{f}/touched', 'w')"),
    "open": lambda f: Calls(open, f"{f}/touched", "w"),
    "getattr": lambda f: Calls(getattr, Path, "home"),
    "Popen": lambda f: Calls(subprocess.Popen, ["touch", f"{f}/touched"]),
    "nested": lambda f: Calls(tuple, (Calls(os.system, TOUCH.format(f)),)),
    "in an array's place": lambda f: Calls(np.ones(1).__reduce__()[0], Calls(os.system, TOUCH.format(f)), (0,), b"b"),
    "numpy.load": lambda f: Calls(np.load, f"{f}/a.pdparams"),
    "ndarray": lambda f: Calls(np.ndarray, (1 << 40,)),
    "ndarray of little": lambda f: Calls(np.ndarray, (1,)),
    "reconstruct a class": lambda f: Calls(np.ones(1).__reduce__()[0], np.matrix, (0,), b"b"),
    "reconstruct int": lambda f: Calls(np.ones(1).__reduce__()[0], int, (0,), b"b"),
    "matrix": lambda f: np.ones((1, 2)).view(np.matrix),
    "masked": lambda f: np.ma.array([1, 2]),
    "records": lambda f: np.zeros(2, [("a", "f4")]),
    "objects": lambda f: np.array([{}, None], object),
    "texts": lambda f: np.array(["a"]),
    "dates": lambda f: np.array(["2020-01-01"], "M8[D]"),
    "an object dtype": lambda f: np.dtype("O"),
    "a class": lambda f: Path,
    "a path": lambda f: Path("/"),
    "a set": lambda f: {1, 2},
    "bytearray": lambda f: Calls(bytearray, 1 << 33),
    "bytes": lambda f: Calls(bytes, 1 << 33),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_hostile_pickles_are_refused(tmp_path: Path, attack: str, protocol: int) -> None:
    hostile = ATTACKS[attack](tmp_path)
    for value in ({"a": hostile}, {"a": np.ones(2), "b": [hostile]}):
        refused(tmp_path, pickle.dumps(value, protocol))
    assert not (tmp_path / "touched").exists()


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def one(body: bytes) -> bytes:
    """A pickle of protocol 4 by hand: {"a": what the operations in `body` leave on the stack}."""
    return b"\x80\x04}" + text("a") + body + b"s."


NAMES = [
    ("os", "system"), ("posix", "system"), ("numpy.core.multiarray", "_reconstruct.__globals__"),
    ("numpy", "ndarray.__class__.__base__"), ("numpy.core.multiarray._reconstruct", "__call__"),
    ("collections.OrderedDict", "__init__"), ("collections", "OrderedDict.fromkeys"), ("numpy", "dtype.__new__"),
    ("builtins", "eval.__self__"), ("zoo.weights.pickles", "_MAKERS"), ("", ""), ("numpy", ""), ("numpy ndarray", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_names_of_every_form_are_refused(tmp_path: Path, module: str, name: str) -> None:
    """By both operations that look names up, called and not called."""
    for looked_up in (text(module) + text(name) + b"\x93", f"c{module}\n{name}\n".encode()):
        refused(tmp_path, one(looked_up + text("id") + b"\x85R"))
        refused(tmp_path, one(looked_up))


RECONSTRUCT = text("numpy.core.multiarray") + text("_reconstruct") + b"\x93"
NDARRAY = text("numpy") + text("ndarray") + b"\x93"
F4 = text("numpy") + text("dtype") + b"\x93" + text("f4") + b"\x89\x88\x87R"
ARRAY = RECONSTRUCT + NDARRAY + b"K\x00\x85C\x01b\x87R"


def filled(shape: bytes, data: bytes) -> bytes:
    """An array of f4 with the given shape (operations that leave a tuple) and bytes."""
    return ARRAY + b"(K\x01" + shape + F4 + b"\x89" + data + b"tb"


MACHINES = {
    "whole": (one(filled(b"K\x01\x85", b"C\x04\0\0\0\0")), None),
    "huge shape": (one(filled(b"\x8a\x08" + struct.pack("<q", 1 << 62) + b"\x85", b"C\x00")), "shape"),
    "shape beyond 64 bits": (one(filled(b"\x8a\x10" + b"\xff" * 15 + b"\x7f" + b"\x85", b"C\x00")), "shape"),
    "shape that wraps to 0": (one(filled(b"\x8a\x05\0\0\0\0\x01\x8a\x05\0\0\0\0\x01\x86", b"C\x00")), "for an array"),
    "negative shape": (one(filled(b"J\xff\xff\xff\xff\x85", b"C\x00")), "shape"),
    "text in the shape": (one(filled(text("x") + b"\x85", b"C\x00")), "shape"),
    "true in the shape": (one(filled(b"\x88\x85", b"C\x04\0\0\0\0")), "shape"),
    "too few bytes": (one(filled(b"K\x02\x85", b"C\x04\0\0\0\0")), "for an array"),
    "list for bytes": (one(filled(b"K\x01\x85", b"]")), "no numbers"),
    "never filled": (one(ARRAY), "without numbers"),
    "state of a name": (one(NDARRAY + b"}" + text("x") + b"K\x01sb"), "changes"),
    "slots of a name": (one(NDARRAY + b"N}" + text("__doc__") + b"K\x01s\x86b"), "changes"),
    "state of a list": (one(b"]}" + text("x") + b"K\x01sb"), "changes"),
    "state of a dictionary": (one(b"}}" + text("items") + b"K\x01sb"), "changes"),
    "call a text": (one(text("os.system") + text("id") + b"\x85R"), "no name"),
    "call with a list": (one(text("numpy") + text("dtype") + b"\x93]R"), "no name"),
    "make by class": (one(text("collections") + text("OrderedDict") + b"\x93)\x81"), "operation NEWOBJ"),
    "instance": (b"(ios\nsystem\n.", "operation INST"),
    "object": (b"(cnumpy\ndtype\nS'id'\no.", "operation OBJ"),
    "extension": (one(b"\x82\x01"), "operation EXT1"),
    "persistent": (b"Pos.system\n.", "operation PERSID"),
    "persistent from the stack": (one(b"K\x01Q"), "operation BINPERSID"),
    "buffer": (one(b"\x97"), "operation NEXT_BUFFER"),
    "memory far away": (b"\x80\x04}r\xff\xff\xff\x7f.", None),
    "memory that is not": (b"\x80\x04h\x05.", "no whole pickle"),
    "huge bytes": (one(b"\x8e" + struct.pack("<Q", 1 << 60)), "no whole pickle"),
    "huge text": (one(b"\x8d" + struct.pack("<Q", 1 << 40)), "no whole pickle"),
    "huge frame": (b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"}.", None),
    "a whole number of a million digits": (one(b"L" + b"9" * 1_000_000 + b"L\n"), "no whole pickle"),
    "more than 64 bits": (one(b"\x8a\x10" + b"\x7f" * 16), "64 bits"),
    "nothing on the stack": (b".", "no whole pickle"),
    "mark for a value": (b"(.", "holds a object|no whole"),
    "items of a list": (b"\x80\x04]" + text("a") + b"K\x01s.", "no dictionary"),
    "tuple for a key": (b"\x80\x04}K\x01\x85K\x01s.", "tuple for a key"),
    "append to a tuple": (one(b")K\x01a"), "no list"),
    "a dictionary in itself": (b"\x80\x04}\x94" + text("a") + b"h\x00s.", "again and again"),
    "a list in itself": (one(b"]\x94h\x00a"), "again and again"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_operations_by_hand(tmp_path: Path, machine: str) -> None:
    data, says = MACHINES[machine]
    if says is None:
        assert set(read(tmp_path, data)) <= {"a"}
    else:
        refused(tmp_path, data, says)


def laughs(count: int) -> bytes:
    """Lists of ten times the list before: 10 ** count parts, if they were walked."""
    lines = [b"\x80\x04}" + text("a") + b"]\x94"]
    lines += [b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 9 + b"e\x94" for i in range(count)]
    return b"".join(lines) + b"s."


def hashes(count: int) -> bytes:
    """A tuple of the tuple before twice: hashing it takes 2 ** count steps."""
    lines = [b"\x80\x04})\x94"] + [b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86\x94" for i in range(count)]
    return b"".join(lines) + b"K\x01s."


def encoded(count: int) -> bytes:
    """One long text made into bytes again and again."""
    long = b"X" + struct.pack("<I", 1_000_000) + b"x" * 1_000_000 + b"\x94"
    encode = text("_codecs") + text("encode") + b"\x93"
    calls = [encode + b"h\x00" + text("latin1") + b"\x86R" for _ in range(count)]
    return b"\x80\x04}" + text("a") + b"](" + long + b"".join(calls) + b"es."


def ordered(count: int) -> bytes:
    """One long list of pairs made into dictionaries again and again."""
    pairs = b"](" + b"K\x01K\x02\x86" * 10_000 + b"e\x94"
    call = text("collections") + text("OrderedDict") + b"\x93h\x00\x85R"
    return b"\x80\x04}" + text("a") + b"](" + pairs + call * count + b"es."


def copied(count: int) -> bytes:
    """One array of a million bytes under many names."""
    data = b"B" + struct.pack("<I", 1_000_000) + bytes(1_000_000)
    first = text("first") + filled(b"\x8a\x03" + struct.pack("<I", 250_000)[:3] + b"\x85", data) + b"\x94"
    return b"\x80\x04}(" + first + b"".join(text(str(i)) + b"h\x00" for i in range(count)) + b"u."


BOMBS = {"laughs": laughs(200), "hashes": hashes(60), "encoded": encoded(5000), "ordered": ordered(5000)}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_fast(tmp_path: Path, bomb: str) -> None:
    begun = time.perf_counter()
    refused(tmp_path, BOMBS[bomb])
    assert time.perf_counter() - begun < 5


def test_memory_is_no_more_than_the_file_is_long(tmp_path: Path) -> None:
    """All bombs in a process that may take 2 GB of address space more than it has."""
    for name, data in {**BOMBS, "far": MACHINES["memory far away"][0], "copied": copied(5000)}.items():
        written(tmp_path, data, f"{name}.pdparams")
    code = f"""
import resource, pathlib
from zoo.weights.paddle import read_pdparams
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + 2**31, pages + 2**31))
for path in sorted(pathlib.Path({str(tmp_path)!r}).glob("*.pdparams")):
    try:
        print(path.stem, len(read_pdparams(path)))
    except ValueError as error:
        assert "MemoryError" not in str(error), error
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is limited by /proc here")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:4] == ["copied", "5001", "far", "0"]
    assert int(done.stdout.split()[-1]) * 1024 < 300e6 + resource.getpagesize()


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
