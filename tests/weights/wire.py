"""Protocol buffers written by hand, by protobuf.dev/programming-guides/encoding, for tests of what reads them."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def variable(name: str, *, stored: bool = True, kind: int = 7) -> bytes:
    """VarDesc of framework.proto: name 1, type 2 (its kind 1; 7 holds an array), persistable 3."""
    return block(3, block(1, name) + block(2, number(1, kind)) + number(3, int(stored)))


def operation(**inputs: list[str]) -> bytes:
    """OpDesc of framework.proto: inputs 1, each with its parameter 1 and arguments 2."""
    slots = (block(1, name) + b"".join(block(2, value) for value in values) for name, values in inputs.items())
    return block(4, b"".join(block(1, slot) for slot in slots))


def program(*parts: bytes) -> bytes:
    """ProgramDesc of one block."""
    return block(1, number(1, 0) + number(2, 0) + b"".join(parts))


def tensor(shape: tuple[int, ...], data: bytes, kind: int = 5, levels: tuple[bytes, ...] = ()) -> bytes:
    """One array of a .pdiparams file: version, levels of detail, version, TensorDesc (type 1, sizes 2), numbers."""
    about = number(1, kind) + b"".join(number(2, side) for side in shape)
    details = b"".join(struct.pack("<Q", len(level)) + level for level in levels)
    return struct.pack("<IQ", 0, len(levels)) + details + struct.pack("<Ii", 0, len(about)) + about + data
