"""Hostile pickles: refused with one clear error, with nothing run and no more memory taken than the file is long."""

from __future__ import annotations

import builtins
import os
import pickle
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.weights.paddle import read_pdparams


def written(tmp_path: Path, data: bytes, name: str = "a.pdparams") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def read(tmp_path: Path, data: bytes) -> dict[str, np.ndarray]:
    return read_pdparams(written(tmp_path, data))


def refused(tmp_path: Path, data: bytes, says: str = "") -> None:
    with pytest.raises(ValueError, match=rf"(?s)a\.pdparams: .*{says}"):
        read(tmp_path, data)


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
# Not ru_maxrss: a child inherits its parent's peak there, and this suite's is larger than the bound.
status = pathlib.Path("/proc/self/status").read_text()
print(next(row.split()[1] for row in status.splitlines() if row.startswith("VmHWM:")))
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is limited by /proc here")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:4] == ["copied", "5001", "far", "0"]
    assert int(done.stdout.split()[-1]) * 1024 < 300e6 + resource.getpagesize()
