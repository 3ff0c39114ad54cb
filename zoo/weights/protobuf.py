"""The wire format of protocol buffers, as far as ONNX and Paddle files need it, so that neither is a dependency.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """Bytes that are no protocol buffer message."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises ValueError naming the file where there is none or it may not be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise Malformed("a number runs past the end")


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """(field number, wire type, value) of each field of a message: an int, or the bytes of what is length-delimited."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if not number:
            raise Malformed("a field has the number 0")
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, at = varint(data, at)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise Malformed(f"unknown wire type {kind}")
        if at + length > len(data):
            raise Malformed("a field runs past the end")
        yield number, kind, data[at : at + length]
        at += length


def messages(data: memoryview, number: int) -> Iterator[memoryview]:
    """The length-delimited fields of that number."""
    for field, _, value in fields(data):
        if field == number and isinstance(value, memoryview):
            yield value


def text(data: memoryview, number: int) -> str:
    """The last text field of that number, "" if there is none."""
    found = ""
    for value in messages(data, number):
        found = bytes(value).decode("utf-8", errors="replace")
    return found


def integers(data: memoryview, number: int) -> list[int]:
    """A repeated integer field, packed or not, as signed 64-bit numbers."""
    found: list[int] = []
    for field, _, value in fields(data):
        if field != number:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = varint(value, at)
            found.append(item)
    return [item - (1 << 64) if item >> 63 else item for item in found]
