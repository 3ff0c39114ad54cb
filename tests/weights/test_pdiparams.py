"""Paddle's binary format: arrays and their names, by hand and from published files; what is cut short is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weights.wire import block, number, operation, program, tensor, variable
from zoo.ocr.weights import WEIGHTS
from zoo.weights import convert
from zoo.weights.paddle import read_pdiparams

Official = Callable[..., dict[str, dict[str, Path]]]

FILTER, BIAS, SCALE = np.arange(6, dtype="<f4").reshape(2, 3), np.array([7, 8], "<i8"), np.array(0.5, "<f8")
# The file is sorted by name (b, f, s); the program uses f, then b, then s.
MODEL = program(
    variable("feed", kind=9),
    variable("fetch", kind=10),
    variable("x", stored=False),
    variable("f"),
    variable("s"),
    variable("b"),
    operation(Bias=["b"], Filter=["f"], Input=["x"]),
    operation(X=["x"], Y=["s"]),
)
PARAMS = tensor((2,), BIAS.tobytes(), 3) + tensor((2, 3), FILTER.tobytes()) + tensor((), SCALE.tobytes(), 6)


def written(folder: Path, params: bytes = PARAMS, model: bytes = MODEL) -> tuple[Path, Path]:
    paths = folder / "a.pdiparams", folder / "a.pdmodel"
    for path, data in zip(paths, (params, model), strict=True):
        path.write_bytes(data)
    return paths


def test_no_arrays(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.pdmodel: names no stored arrays"):
        read_pdiparams(*written(tmp_path, b"", b""))
    with pytest.raises(ValueError, match=r"a\.pdmodel: names no stored arrays"):
        read_pdiparams(*written(tmp_path, b"", program(variable("x", stored=False))))


def test_arrays_have_the_names_of_the_program_in_its_order(tmp_path: Path) -> None:
    found = read_pdiparams(*written(tmp_path))
    assert list(found) == ["f", "b", "s"]
    for name, array in (("f", FILTER), ("b", BIAS), ("s", SCALE)):
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)
        assert found[name].flags.writeable


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(0, "?"), (1, "i2"), (2, "i4"), (3, "i8"), (4, "f2"), (5, "f4"), (6, "f8"), (20, "u1"), (21, "i1")],
)
def test_types(tmp_path: Path, kind: int, dtype: str) -> None:
    """VarType.Type of framework.proto."""
    array = np.array([[0, 1], [1, 0]], dtype)
    found = read_pdiparams(*written(tmp_path, tensor((2, 2), array.tobytes(), kind), program(variable("a"))))
    assert found["a"].dtype == dtype
    assert np.array_equal(found["a"], array)


def test_levels_of_detail_are_passed_over(tmp_path: Path) -> None:
    data = tensor((1,), b"\1", 20, levels=(b"12345678", b"", b"1234567890123456"))
    assert read_pdiparams(*written(tmp_path, data, program(variable("a"))))["a"].tolist() == [1]


def test_an_empty_array(tmp_path: Path) -> None:
    found = read_pdiparams(*written(tmp_path, tensor((0, 4), b""), program(variable("a"))))
    assert found["a"].shape == (0, 4)


@pytest.mark.parametrize("left", range(len(PARAMS)))
def test_numbers_cut_short_anywhere(tmp_path: Path, left: int) -> None:
    with pytest.raises(ValueError, match=r"a\.pdiparams: cut short or not of a\.pdmodel, at [bfs]: "):
        read_pdiparams(*written(tmp_path, PARAMS[:left]))


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (PARAMS + b"x", r"1 bytes are left over; it is not of a\.pdmodel"),
        (tensor((2,), b"", 22) + PARAMS, "its type of numbers, 22, is not read"),
        (tensor((-2, -1), b"12345678") + PARAMS, "its numbers run past the end"),
        (tensor((1 << 40, 1 << 40), b"") + PARAMS, "its numbers run past the end"),
        (b"\0" * 4 + b"\xff" * 8 + PARAMS, "at b"),
        (b"rubbish, and more of it than a head is long", "at b"),
    ],
)
def test_numbers_that_are_damaged(tmp_path: Path, params: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=rf"a\.pdiparams: .*{says}"):
        read_pdiparams(*written(tmp_path, params))


@pytest.mark.parametrize("left", range(1, len(MODEL)))
def test_a_program_cut_short_anywhere(tmp_path: Path, left: int) -> None:
    """Its one block is length-delimited, so that no beginning of it passes for the whole."""
    with pytest.raises(ValueError, match=r"a\.pdmodel: not a whole \.pdmodel file"):
        read_pdiparams(*written(tmp_path, model=MODEL[:left]))


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, len(PARAMS + MODEL) - 1), byte=st.integers(0, 255))
def test_a_damaged_byte_gives_arrays_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    data = bytearray(PARAMS + MODEL)
    data[at] = byte
    folder = tmp_path_factory.getbasetemp()
    try:
        found = read_pdiparams(*written(folder, bytes(data[: len(PARAMS)]), bytes(data[len(PARAMS) :])))
    except ValueError as error:
        assert str(error).startswith(str(folder / "a.pd"))
    else:
        assert all(isinstance(array, np.ndarray) for array in found.values())


def test_files_that_are_not_there(tmp_path: Path) -> None:
    params, model = written(tmp_path)
    model.unlink()
    with pytest.raises(ValueError, match=r"a\.pdiparams: needs a\.pdmodel beside it"):
        convert.read(params)
    with pytest.raises(ValueError, match=r"a\.pdmodel: cannot be read: No such file"):
        read_pdiparams(params, model)


@pytest.mark.parametrize("suffix", [".pdiparams", ".pdmodel"])
def test_either_file_names_the_pair(tmp_path: Path, suffix: str) -> None:
    params, _ = written(tmp_path)
    assert list(convert.read(params.with_suffix(suffix))) == ["f", "b", "s"]


def test_the_wire_format_of_the_test_is_that_of_the_guide() -> None:
    """protobuf.dev/programming-guides/encoding: field 1 = 150 is 08 96 01; field 2 = "testing" is 12 07 ..."""
    assert number(1, 150) == b"\x08\x96\x01"
    assert block(2, "testing") == b"\x12\x07testing"
    assert number(1, -2) == b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize("name", ["ppocrv4_mobile_det", "ppocrv4_mobile_rec"])
def test_published_files_hold_what_the_onnx_files_hold(name: str, official: Official) -> None:
    """Two files that two packages carry: the same names, the same order of use, the same numbers."""
    files = official(name, f"{name}_paddle")
    paddle, onnx = (
        convert.read(files[entry.name][entry.files[0].name]) for entry in (WEIGHTS[f"{name}_paddle"], WEIGHTS[name])
    )
    assert len(paddle) == 234
    assert [key for key in onnx if key in paddle] == list(paddle)
    for key, array in paddle.items():
        assert np.array_equal(array.ravel(), onnx[key].ravel())
        # Only the biases of transposed convolutions are stored in another shape, (1, C, 1, 1).
        assert array.shape == onnx[key].shape or key.startswith("conv2d_transpose")


def test_the_published_classifier_too(official: Official) -> None:
    """Its ONNX file has other names; the numbers are the same, in the order of use."""
    files = official("ppocr_mobile_v2_cls", "ppocr_mobile_v2_cls_paddle")
    paddle = convert.read(files["ppocr_mobile_v2_cls_paddle"]["inference.pdmodel"])
    onnx = convert.read(next(iter(files["ppocr_mobile_v2_cls"].values())))
    weights = [array for array in onnx.values() if array.dtype == np.float32 and array.size > 1]
    convolutions = [array for array in paddle.values() if array.ndim == 4]
    assert len(paddle) == 213
    assert len(convolutions) > 40
    same = [array for array in weights if array.ndim == 4 and array.shape[0] > 1]
    assert [array.shape for array in same] == [array.shape for array in convolutions]
    assert all(np.array_equal(a, b) for a, b in zip(same, convolutions, strict=True))
