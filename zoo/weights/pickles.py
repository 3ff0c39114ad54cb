"""Pickles of arrays, read without running anything that they ask for.

This is not Python's unpickler: it knows the operations that arrays, numbers, texts and containers are made of, and what
a pickle calls is compared with the few names that stand for those. Nothing is looked up, imported or called, and no
more memory is taken than the file is long.
Sources: pickletools (the operations), numpy's ndarray.__reduce__ and dtype.__reduce__ (what they carry),
PaddlePaddle python/paddle/framework/io.py (how it saves tensors).
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

KINDS = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])
MOST_AXES = 32
# Operations whose argument is the value itself; those that start or end a frame say nothing about values.
VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
    "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Refused(ValueError):
    """A pickle that is damaged, or asks for what makes no array."""


def load(path: Path) -> Any:
    """What the pickle holds: dictionaries, lists, tuples, texts, numbers, and Array in the place of arrays.

    Raises ValueError naming the file where it is damaged or asks for anything else.
    """
    try:
        data = path.read_bytes()
        return _Machine(len(data)).run(data)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, MemoryError) as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path}: no whole pickle of arrays: {why}") from None


@dataclass(eq=False)
class Array:
    """An array of the pickle; its numbers are views of the pickle's own bytes, which may not be written."""

    values: np.ndarray | None = None

    def fill(self, shape: Any, dtype: Any, columns_first: bool, data: bytes) -> Array:
        if not isinstance(dtype, _Dtype) or not isinstance(shape, tuple) or len(shape) > MOST_AXES:
            _refuse("makes an array of an unusual kind")
        if not all(type(side) is int and 0 <= side < 1 << 60 for side in shape):
            _refuse("makes an array of an unusual shape")
        if math.prod(shape) * dtype.dtype.itemsize != len(data):
            raise Refused(f"damaged: {len(data)} bytes for an array of shape {str(shape)[:60]} and {dtype.dtype}")
        flat = np.frombuffer(data, dtype.dtype) if data else np.zeros(0, dtype.dtype)
        self.values = flat.reshape(shape, order="F" if columns_first else "C")
        return self


@dataclass(eq=False)
class _Dtype:
    dtype: np.dtype


@dataclass(frozen=True)
class _Name:
    """A name that the pickle asks for, as text."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module[:60]}.{self.name[:60]}"


_MARK = object()
NDARRAY = _Name("numpy", "ndarray")


def _refuse(what: str) -> NoReturn:
    raise Refused(f"{what}; refused, since a file of arrays has no need of that")


class _Machine:
    """The stack and the memory of objects that the operations of a pickle work on."""

    def __init__(self, size: int) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}
        self.left = size  # bytes that may still be made from texts

    def run(self, data: bytes) -> Any:
        for operation, argument, _ in pickletools.genops(data):
            name = operation.name
            if name == "STOP":
                return self.stack.pop()
            if name in VALUES:
                self.stack.append(argument)
            elif name in CONSTANTS:
                self.stack.append(CONSTANTS[name])
            elif name in TUPLES:
                self.stack.append(tuple(self._pop(TUPLES[name])))
            elif name in _OPERATIONS:
                _OPERATIONS[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                _refuse(f"uses the operation {name}")
        raise Refused("it has no end")

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise Refused("damaged: an operation lacks its values")
        taken = self.stack[-count:]
        del self.stack[-count:]
        if any(value is _MARK for value in taken):
            raise Refused("damaged: an operation lacks its values")
        return taken

    def to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:  # IndexError where there is none
            at -= 1
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    def mark(self, argument: Any) -> None:
        self.stack.append(_MARK)

    def put(self, place: Any) -> None:
        self.memory[len(self.memory) if place is None else place] = self.stack[-1]

    def get(self, place: Any) -> None:
        self.stack.append(self.memory[place])

    def empty_list(self, argument: Any) -> None:
        self.stack.append([])

    def empty_dict(self, argument: Any) -> None:
        self.stack.append({})

    def list_to_mark(self, argument: Any) -> None:
        self.stack.append(self.to_mark())

    def tuple_to_mark(self, argument: Any) -> None:
        self.stack.append(tuple(self.to_mark()))

    def dict_to_mark(self, argument: Any) -> None:
        made: dict[Any, Any] = {}
        self._set_items(made, self.to_mark())
        self.stack.append(made)

    def append(self, argument: Any) -> None:
        self._append(self._pop(1))

    def appends(self, argument: Any) -> None:
        self._append(self.to_mark())

    def _append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            _refuse("appends to what is no list")
        self.stack[-1].extend(items)

    def set_item(self, argument: Any) -> None:
        self._set_items(self.stack[-3], self._pop(2))

    def set_items(self, argument: Any) -> None:
        items = self.to_mark()
        self._set_items(self.stack[-1], items)

    def _set_items(self, target: Any, items: list[Any]) -> None:
        if type(target) is not dict or len(items) % 2:
            _refuse("names the parts of what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Keys of other kinds could take for ever to hash.
            if not isinstance(key, str | bytes | int | float | None):
                _refuse(f"has a {type(key).__name__} for a key")
            target[key] = value

    def name(self, argument: Any) -> None:
        self._push_name(*argument.split(" ", 1))

    def name_of_stack(self, argument: Any) -> None:
        module, name = self._pop(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            _refuse("asks for a name that is no text")
        self._push_name(module, name)

    def _push_name(self, module: str, name: str) -> None:
        found = _Name(module, name)
        if (module, name) not in _MAKERS and found != NDARRAY:
            _refuse(f"asks for {found}")
        self.stack.append(found)

    def call(self, argument: Any) -> None:
        name, arguments = self._pop(2)
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            _refuse("calls what has no name")
        maker = _MAKERS.get((name.module, name.name))
        if maker is None:
            _refuse(f"calls {name}")
        try:
            self.stack.append(maker(self, *arguments))
        except TypeError as error:
            raise Refused(f"calls {name} in an unusual way ({error}); refused") from None

    def state(self, argument: Any) -> None:
        target, state = self.stack[-2], self._pop(2)[1]
        if isinstance(target, Array) and isinstance(state, tuple) and len(state) == 5:
            target.fill(state[1], state[2], bool(state[3]), self.bytes_of(state[4]))
        elif isinstance(target, _Dtype) and isinstance(state, tuple) and len(state) >= 5:
            if any(part is not None for part in state[2:5]) or state[1] not in ("<", ">", "|", "="):
                _refuse("holds an array of records")
            target.dtype = target.dtype.newbyteorder(state[1])
        elif not (type(target) is dict and not state):
            _refuse(f"changes a {type(target).__name__}")
        self.stack.append(target)

    def bytes_of(self, value: Any) -> bytes:
        """Bytes, which older pickles write as text; all of them together no more than the file is long."""
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray):
            value = value.decode("latin1")  # so that it is counted too
        if not isinstance(value, str):
            _refuse("makes an array of what are no numbers")
        self.left -= len(value)
        if self.left < 0:
            _refuse("uses the same text again and again")
        return value.encode("latin1")


_OPERATIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "PUT": _Machine.put,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": _Machine.put,
    "GET": _Machine.get,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "EMPTY_LIST": _Machine.empty_list,
    "EMPTY_DICT": _Machine.empty_dict,
    "LIST": _Machine.list_to_mark,
    "TUPLE": _Machine.tuple_to_mark,
    "DICT": _Machine.dict_to_mark,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": _Machine.name_of_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.state,
}


def _reconstruct(machine: _Machine, kind: Any, shape: Any, code: Any) -> Array:
    if kind != NDARRAY:
        _refuse(f"makes an array of the kind {kind}"[:150])
    return Array()


def _from_buffer(machine: _Machine, data: Any, dtype: Any, shape: Any, order: Any) -> Array:
    return Array().fill(shape, dtype, order == "F", machine.bytes_of(data))


def _scalar(machine: _Machine, dtype: Any, data: Any) -> Array:
    return Array().fill((), dtype, False, machine.bytes_of(data))


def _dtype(machine: _Machine, kind: Any, align: Any = False, copy: Any = True) -> _Dtype:
    if not isinstance(kind, str) or kind not in KINDS:
        _refuse(f"holds an array of type {str(kind)[:20]!r}, not of numbers")
    return _Dtype(np.dtype(kind))


def _ordered(machine: _Machine, pairs: Any = ()) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    machine.left -= len(pairs)  # else a short pickle could make one long list into many dictionaries
    if machine.left < 0:
        _refuse("uses the same list again and again")
    for key, value in pairs:
        machine._set_items(made, [key, value])
    return made


def _encode(machine: _Machine, text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        _refuse("encodes a text in an unusual way")
    return machine.bytes_of(text)


def _tensor(machine: _Machine, pair: Any) -> tuple[Any, ...]:
    if not isinstance(pair, tuple):
        _refuse("makes a tuple of something else")
    return pair


def _named(machine: _Machine, text: Any, names: Any) -> Array:
    """eval("data", {"data": array}), by which Paddle writes a tensor without a name; not another word is understood."""
    if text != "data" or type(names) is not dict or list(names) != ["data"] or not isinstance(names["data"], Array):
        _refuse("calls builtins.eval")
    return names["data"]


def _empty(machine: _Machine) -> bytes:
    return b""


_MAKERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _dtype,
    ("collections", "OrderedDict"): _ordered,
    ("_codecs", "encode"): _encode,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
    **{(builtins, "tuple"): _tensor for builtins in ("builtins", "__builtin__")},
    **{(builtins, "eval"): _named for builtins in ("builtins", "__builtin__")},
    **{(builtins, "bytes"): _empty for builtins in ("builtins", "__builtin__")},
}
