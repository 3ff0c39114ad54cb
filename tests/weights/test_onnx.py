"""ONNX files read without the onnx package: every way to hold numbers, the order of use, metadata, and damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weights.wire import block, number, varint
from zoo.ocr.weights import WEIGHTS
from zoo.weights.onnx import onnx_metadata, read_onnx
from zoo.weights.protobuf import Malformed, fields, integers

Official = Callable[..., dict[str, dict[str, Path]]]

# Field numbers and data types of onnx/onnx.proto.
FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64 = range(1, 14)
BFLOAT16 = 16
OPSET = block(8, number(2, 13))


def packed(field: int, values: list[int]) -> bytes:
    return block(field, b"".join(map(varint, values)))


def tensor(name: str, shape: tuple[int, ...], kind: int, data: bytes) -> bytes:
    return b"".join(number(1, side) for side in shape) + number(2, kind) + block(8, name) + data


def raw(name: str, array: np.ndarray, kind: int) -> bytes:
    return tensor(name, array.shape, kind, block(9, array.tobytes()))


def constant(output: str, attribute: bytes) -> bytes:
    return block(1, block(2, output) + block(4, "Constant") + block(5, attribute))


def node(kind: str, *inputs: str) -> bytes:
    return block(1, b"".join(block(1, name) for name in inputs) + block(2, "y") + block(4, kind))


def model(*parts: bytes, metadata: bytes = b"") -> bytes:
    return number(1, 8) + block(7, b"".join(parts)) + OPSET + metadata


def read(folder: Path, data: bytes) -> dict[str, np.ndarray]:
    (folder / "a.onnx").write_bytes(data)
    return read_onnx(folder / "a.onnx")


W = np.arange(6, dtype="<f4").reshape(2, 3)


def test_no_arrays(tmp_path: Path) -> None:
    assert read(tmp_path, model()) == {}
    with pytest.raises(ValueError, match=r"a\.onnx: not an ONNX file that is read whole: it holds no graph"):
        read(tmp_path, b"")
    with pytest.raises(ValueError, match=r"none\.onnx: cannot be read: No such file"):
        read_onnx(tmp_path / "none.onnx")


def test_initialisers_and_constants_come_in_the_order_of_use(tmp_path: Path) -> None:
    data = model(
        constant("k", block(1, "value") + block(5, raw("", W, FLOAT))),
        node("Conv", "x", "w2", "b"),
        node("Mul", "k", "w1"),
        block(5, raw("unused", W[0], FLOAT)),
        block(5, raw("w1", W, FLOAT)),
        block(5, raw("b", W[:, 0].copy(), FLOAT)),
        block(5, raw("w2", W[1], FLOAT)),
    )
    found = read(tmp_path, data)
    assert list(found) == ["w2", "b", "k", "w1", "unused"]
    assert np.array_equal(found["k"], W)
    assert np.array_equal(found["b"], [0, 3])
    assert all(array.flags.writeable for array in found.values())


RAW = [
    (FLOAT, "<f4"), (UINT8, "u1"), (INT8, "i1"), (UINT16, "<u2"), (INT16, "<i2"), (INT32, "<i4"), (INT64, "<i8"),
    (BOOL, "?"), (FLOAT16, "<f2"), (DOUBLE, "<f8"), (UINT32, "<u4"), (UINT64, "<u8"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "dtype"), RAW)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (3, 1, 2)])
def test_raw_numbers(tmp_path: Path, kind: int, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(int(np.prod(shape))) % 2).astype(dtype).reshape(shape)
    found = read(tmp_path, model(block(5, raw("w", array, kind))))["w"]
    assert found.dtype == np.dtype(dtype)
    assert found.shape == shape
    assert np.array_equal(found, array)


HELD = [
    (FLOAT, block(4, struct.pack("<2f", 1.5, -2)), np.array([1.5, -2], "f4")),
    (FLOAT, b"".join(varint(4 << 3 | 5) + struct.pack("<f", value) for value in (1.5, -2)), np.array([1.5, -2], "f4")),
    (DOUBLE, block(10, struct.pack("<2d", 1.5, -2)), np.array([1.5, -2], "f8")),
    (INT64, packed(7, [1 << 40, -1]), np.array([1 << 40, -1], "i8")),
    (INT64, number(7, 5) + number(7, -5), np.array([5, -5], "i8")),
    (INT32, packed(5, [7, -8]), np.array([7, -8], "i4")),
    (INT8, packed(5, [7, -8]), np.array([7, -8], "i1")),
    (UINT8, packed(5, [0, 255]), np.array([0, 255], "u1")),
    (BOOL, packed(5, [0, 1]), np.array([False, True])),
    (FLOAT16, packed(5, [0x3E00, 0xC000]), np.array([1.5, -2], "f2")),  # IEEE 754 half: 0 01111 1000000000
    (UINT32, packed(11, [1, (1 << 32) - 1]), np.array([1, (1 << 32) - 1], "u4")),
    (UINT64, packed(11, [1, (1 << 64) - 1]), np.array([1, (1 << 64) - 1], "u8")),
]


@pytest.mark.parametrize(("kind", "data", "array"), HELD)
def test_numbers_in_fields_of_their_own(tmp_path: Path, kind: int, data: bytes, array: np.ndarray) -> None:
    found = read(tmp_path, model(block(5, tensor("w", (2,), kind, data))))["w"]
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


@pytest.mark.parametrize(
    ("attribute", "array"),
    [
        (block(1, "value_float") + varint(2 << 3 | 5) + struct.pack("<f", 0.5), np.array(0.5, "f4")),
        (block(1, "value_floats") + block(7, struct.pack("<2f", 0.5, 2)), np.array([0.5, 2], "f4")),
        (block(1, "value_int") + number(3, -3), np.array(-3)),
        (block(1, "value_ints") + packed(8, [1, -1]), np.array([1, -1])),
    ],
)
def test_constants_without_a_tensor(tmp_path: Path, attribute: bytes, array: np.ndarray) -> None:
    found = read(tmp_path, model(constant("k", attribute)))["k"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)


def test_texts_are_left_out(tmp_path: Path) -> None:
    words = tensor("words", (1,), STRING, block(6, "a"))
    parts = (
        block(5, words),
        constant("k", block(1, "value") + block(5, words)),
        constant("s", block(1, "value_string")),
    )
    assert read(tmp_path, model(*parts)) == {}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (tensor("w", (2,), FLOAT, block(9, b"1234")), r"w: 1 numbers for shape \[2\]"),
        (tensor("w", (1,), FLOAT, block(9, b"123")), "raw data of an odd length"),
        (tensor("w", (-1,), FLOAT, block(9, b"1234")), "numbers for shape"),
        (tensor("w", (-1, -1), FLOAT, block(9, b"1234")), "numbers for shape"),
        (tensor("w", (1 << 32, 1 << 32), FLOAT, b""), "0 numbers for shape"),
        (tensor("w", (1,), BFLOAT16, block(9, b"12")), "data type 16 is not read"),
        (block(8, "w"), "data type none is not read"),
        (tensor("w", (1,), FLOAT, block(13, block(1, "location") + block(2, "b.data"))), "lies in another file"),
        (tensor("w", (1,), UINT8, packed(5, [256])), ""),
    ],
)
def test_arrays_that_cannot_be_read(tmp_path: Path, body: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=rf"a\.onnx: .*{says}"):
        read(tmp_path, model(block(5, body)))


SMALL = model(node("Add", "x", "w"), block(5, raw("w", W, FLOAT)))


@pytest.mark.parametrize("left", range(len(SMALL)))
def test_cut_short_anywhere(tmp_path: Path, left: int) -> None:
    with pytest.raises(ValueError, match=r"a\.onnx: not an ONNX file that is read whole"):
        read(tmp_path, SMALL[:left])


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, len(SMALL) - 1), byte=st.integers(0, 255))
def test_a_damaged_byte_gives_arrays_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    data = bytearray(SMALL)
    data[at] = byte
    folder = tmp_path_factory.getbasetemp()
    for reader in (read_onnx, onnx_metadata):
        (folder / "a.onnx").write_bytes(data)
        try:
            reader(folder / "a.onnx")
        except ValueError as error:
            assert str(error).startswith(str(folder / "a.onnx"))


def test_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    entries = {"character": "一\n\u3000\n", "empty": ""}
    path.write_bytes(model(metadata=b"".join(block(14, block(1, k) + block(2, v)) for k, v in entries.items())))
    assert onnx_metadata(path) == entries
    path.write_bytes(model())
    assert onnx_metadata(path) == {}
    for rubbish in (b"", b"<html>no model</html>"):
        path.write_bytes(rubbish)
        with pytest.raises(ValueError, match=r"a\.onnx: not a whole ONNX file"):
            onnx_metadata(path)


@pytest.mark.parametrize("data", [b"\x80", b"\xff" * 11, b"\x0b", b"\x0c", b"\x00", b"\x0a\x05abcd", b"\x0d123"])
def test_what_is_no_message(data: bytes) -> None:
    """A number without end, one too long, groups, field 0, and fields that run past the end."""
    with pytest.raises(Malformed):
        list(fields(memoryview(data)))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_integers_come_back(values: list[int]) -> None:
    assert integers(memoryview(packed(3, values)), 3) == values
    assert integers(memoryview(b"".join(number(3, value) for value in values)), 3) == values


@pytest.mark.parametrize("name", [name for name, entry in WEIGHTS.items() if entry.format == "onnx"])
def test_published_files_as_the_onnx_package_reads_them(name: str, official: Official) -> None:
    onnx = pytest.importorskip("onnx")
    (path,) = [path for path in official(name)[name].values() if path.suffix == ".onnx"]
    published = onnx.load(str(path))
    wanted = {item.name: onnx.numpy_helper.to_array(item) for item in published.graph.initializer}
    for item in published.graph.node:
        if item.op_type == "Constant":
            (attribute,) = item.attribute
            assert attribute.name == "value"
            wanted[item.output[0]] = onnx.numpy_helper.to_array(attribute.t)
    found = read_onnx(path)
    assert set(found) == set(wanted)
    for key, array in wanted.items():
        assert found[key].dtype == array.dtype
        assert np.array_equal(found[key], array)
    assert onnx_metadata(path) == {item.key: item.value for item in published.metadata_props}
