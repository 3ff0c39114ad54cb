"""Pictures from arrays and Pillow images, and the geometry of the readers.

Expected values: hand calculation, properties, and PaddleOCR's rule for the size of a crop.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from tests.pictures import FIXTURES, bgr, corners, is_picture, near, needs_fixtures, saved, smooth
from zoo import images
from zoo.images import PictureError

# Arrays


@settings(max_examples=120, deadline=None)
@given(
    hnp.arrays(
        st.one_of(hnp.unsigned_integer_dtypes(sizes=(8, 16), endianness="?"), hnp.boolean_dtypes()),
        st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 3, 4])),
    ),
    st.sampled_from(["bgr", "rgb"]),
)
def test_any_array_gives_a_picture_of_its_size(array: np.ndarray, channels: Any) -> None:
    before = array.copy()
    pixels = images.from_array(array, channels)
    assert is_picture(pixels) and pixels.shape[:2] == array.shape[:2]
    assert np.array_equal(array, before)
    if array.shape[2] == 1:
        assert np.array_equal(pixels, images.from_array(array[..., 0]))
    if array.shape[2] == 3:
        assert np.array_equal(pixels[..., ::-1], images.from_array(array, "bgr" if channels == "rgb" else "rgb"))


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 8), st.integers(1, 8), st.just(3))))
def test_floats_say_the_same_as_bytes(array: np.ndarray) -> None:
    """Except where all bytes are 0 or 1, or up to 2, which floats cannot tell from 0..1."""
    for kind in (np.float32, np.float64):
        assert np.array_equal(images.from_array(array / kind(255)), array)
        if array.max() > 2:
            assert np.array_equal(images.from_array(array.astype(kind)), array)


def test_rules_of_arrays() -> None:
    assert images.from_array(np.array([[True, False]]))[0].tolist() == [[255] * 3, [0] * 3]
    assert images.from_array(np.array([[[1, 2, 3]]], np.uint8), "rgb").tolist() == [[[3, 2, 1]]]
    assert images.from_array(np.array([[[1, 2, 3, 255]]], np.uint8), "rgb").tolist() == [[[3, 2, 1]]]
    assert images.from_array(np.array([[[100, 51], [0, 255]]], np.uint8))[0, :, 0].tolist() == [224, 0]
    assert images.from_array(np.array([[0, 200]], np.uint16))[0, :, 0].tolist() == [0, 200]
    assert images.from_array(np.array([[0, 4095]], np.uint16))[0, :, 0].tolist() == [0, 255]
    assert images.from_array(np.array([[0, 0x1234, 0xFFFF]], np.uint16))[0, :, 0].tolist() == [0, 0x12, 255]
    already = smooth()
    assert images.from_array(already) is already or np.shares_memory(images.from_array(already), already)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((0, 5, 3), np.uint8), "no pixels"),
        (np.zeros((5, 0), np.uint8), "no pixels"),
        (np.zeros(5, np.uint8), "shape"),
        (np.zeros((), np.uint8), "shape"),
        (np.zeros((2, 5, 5, 3), np.uint8), "one picture"),
        (np.zeros((5, 5, 5), np.uint8), "shape"),
        (np.zeros((3, 50, 60), np.uint8), r"transpose\(1, 2, 0\)"),
        (np.zeros((5, 5), np.int64), "int64"),
        (np.zeros((5, 5), complex), "complex"),
        (np.full((5, 5), "a"), "type"),
        (np.full((5, 5), None), "object"),
        (np.full((5, 5), np.nan), "nan"),
        (np.array([[0.0, np.inf]]), "inf"),
        (np.array([[-0.1, 0.5]]), "from -0.1"),
        (np.array([[0.0, 256.0]]), "to 256"),
        (np.array([[0.0, 1.02]]), "clip them"),
    ],
)
def test_arrays_that_are_no_picture(array: np.ndarray, says: str) -> None:
    with pytest.raises(PictureError, match=rf"(?s)^mine: .*{says}"):
        images.from_array(array, name="mine")
    with pytest.raises(PictureError, match="'bgr' or 'rgb'"):
        images.from_array(np.zeros((2, 2), np.uint8), "RGB")  # type: ignore[arg-type]


def letters(colour: int, share: float = 0.1) -> np.ndarray:
    """BGRA: bars of one grey on a ground that is transparent and, as painting programs leave it, black or white."""
    pixels = np.zeros((50, 100, 4), np.uint8)
    pixels[25:, :, :3] = 255
    pixels[:, : round(100 * share)] = (colour, colour, colour, 255)
    return pixels


def test_white_writing_on_nothing_is_put_on_black() -> None:
    for colour, ground in ((255, 0), (235, 0), (0, 255), (128, 255)):
        pixels = images.from_array(letters(colour))
        assert (pixels[:, :10] == colour).all() and (pixels[:, 10:] == ground).all(), colour


def test_a_white_page_with_writing_and_clear_corners_stays_on_white() -> None:
    page = np.full((100, 100, 4), 255, np.uint8)
    page[20:30, 20:80, :3] = 0
    page[:5, :5] = 0
    pixels = images.from_array(page)
    assert (pixels[:5, :5] == 255).all() and (pixels[20:30, 20:80] == 0).all()


def test_clear_pictures() -> None:
    """All clear: blank, if there is nothing behind; the colours, where alpha is simply not used."""
    assert (images.from_array(np.zeros((4, 4, 4), np.uint8)) == 0).all()
    grabbed = np.dstack([smooth(), np.zeros((30, 40), np.uint8)])
    assert np.array_equal(images.from_array(grabbed), smooth())


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 6), st.just(4))))
def test_composing_is_the_weighted_mean(array: np.ndarray) -> None:
    alpha = array[..., 3:].astype(float) / 255
    grounds = [array[..., :3] * alpha + ground * (1 - alpha) for ground in (255, 0)]
    pixels = images.from_array(array)
    if alpha.any():
        assert any(np.abs(pixels - wanted).max() <= 0.51 for wanted in grounds)


# Pillow images


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV"]
)
def test_every_mode_of_pillow(mode: str) -> None:
    """Black stays black and white white, whatever the mode says them in."""
    grey = Image.fromarray(np.array([[0, 255]], np.uint8))
    through = {"La": "LA", "RGBa": "RGBA", "PA": "P", "HSV": "RGB"}
    image = grey.convert(through.get(mode, mode)).convert(mode)
    pixels = images.from_pil(image)
    assert is_picture(pixels) and near(pixels, np.array([[[0] * 3, [255] * 3]]), 1)


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I", "F"])
def test_wide_modes_of_pillow(mode: str) -> None:
    image = Image.new(mode, (2, 1))
    image.putpixel((1, 0), 255 if mode == "F" else 65535)
    assert images.from_pil(image)[0, :, 0].tolist() == [0, 255]


def test_from_pil_leaves_the_image_as_it_was() -> None:
    exif = Image.Exif()
    exif[images.ORIENTATION] = 6
    image = Image.open(io.BytesIO(saved(Image.fromarray(smooth()), "JPEG", exif=exif)))
    first = images.from_pil(image)
    assert first.shape == (40, 30, 3) and image.size == (40, 30)
    assert np.array_equal(images.from_pil(image), first)
    image.close()


# Geometry


def test_resize() -> None:
    picture = smooth(10, 20)
    assert images.resize(picture, (10, 20)) is picture
    assert images.resize(picture, (7, 5)).shape == (7, 5, 3)
    halves = np.array([[0, 100], [200, 100]], np.uint8)[..., None].repeat(3, axis=2)
    assert (images.resize(halves, (1, 1)) == 100).all()  # the mean of the four


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 17, 3), (48, 33, 3), (5, 1, 3)])
def test_normalise(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    wanted = ((picture / 255 - mean) / std).transpose(2, 0, 1)[None]
    got = images.normalise(picture, mean, std, 1 / 255)
    assert got.dtype == np.float32 and got.flags.c_contiguous and got.shape == (1, 3, *shape[:2])
    np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-7)
    turned = np.rot90(np.repeat(picture, 2, axis=1))[:, ::-1]  # a view, not contiguous
    np.testing.assert_array_equal(
        images.normalise(turned, mean, std, 1 / 255), images.normalise(turned.copy(), mean, std, 1 / 255)
    )


def test_pad_edges() -> None:
    padded = images.pad_edges(np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8), 2)
    assert padded.shape == (5, 6, 3)
    assert padded[:, :, 0].tolist() == [[1, 1, 1, 4, 4, 4]] * 5


def test_warp_of_an_upright_box_is_a_cut() -> None:
    picture = smooth(60, 80)
    assert np.array_equal(images.warp_quad(picture, corners(10, 20, 50, 45)), picture[20:45, 10:50])


def test_warp_takes_the_longer_edges_and_is_never_empty() -> None:
    """By get_rotate_crop_image: 30 and 50 wide, 20 and 5 tall, so 50 x 20."""
    quad = np.array([[0, 0], [30, 0], [50, 5], [0, 20]], np.float32)
    width = int(max(30, np.hypot(50, 15)))
    assert images.warp_quad(smooth(60, 80), quad).shape == (20, width, 3)
    assert images.warp_quad(smooth(60, 80), corners(5, 5, 5, 5)).shape == (1, 1, 3)


def test_warp_starts_at_the_first_corner() -> None:
    """A box given from its bottom left, clockwise, is one that lies turned to the left: it is turned back."""
    picture = smooth(60, 80)
    quad = np.roll(corners(10, 20, 50, 45), 1, axis=0)
    warped = images.warp_quad(picture, quad)
    assert warped.shape == (40, 25, 3)
    # Its corners are the turned box's; within one pixel, as corners and not pixel centres are mapped.
    assert near(warped, np.rot90(picture[20:45, 10:50], -1), 10)


def test_warp_goes_on_with_the_edge_outside_the_picture() -> None:
    picture = np.full((10, 10, 3), 77, np.uint8)
    assert (images.warp_quad(picture, corners(-20, -20, 30, 30)) == 77).all()


@pytest.mark.parametrize("vertical", [False, True])
def test_warp_in_a_picture_larger_than_opencv_warps(vertical: bool) -> None:
    picture = np.zeros((60, 40_000, 3), np.uint8)
    picture[20:45, 38_000:38_100] = smooth(25, 100)
    quad = corners(38_000, 20, 38_100, 45)
    wanted = picture[20:45, 38_000:38_100]
    if vertical:
        picture, quad, wanted = (np.ascontiguousarray(x) for x in (picture.swapaxes(0, 1), quad[:, ::-1], wanted))
        quad, wanted = quad[[0, 3, 2, 1]], wanted.swapaxes(0, 1)
    assert np.array_equal(images.warp_quad(picture, quad), wanted)
    whole = images.warp_quad(picture, corners(0, 0, picture.shape[1], picture.shape[0]))
    assert 31_900 <= max(whole.shape) <= 32_000


def test_draw_leaves_the_picture_alone() -> None:
    picture = np.zeros((30, 30, 3), np.uint8)
    drawn = images.draw_quads(picture, np.stack([corners(5, 5, 20, 20)]), [(0, 0, 255)], 1)
    assert not picture.any() and drawn[5, 5:20, 2].min() > 150 and not drawn[..., :2].any()
    assert not images.draw_quads(picture, np.zeros((0, 4, 2)), []).any()


def test_encode() -> None:
    assert np.array_equal(images.decode(images.encode(smooth(), ".png"), "a"), smooth())
    assert near(images.decode(images.encode(smooth(), ".jpg", 95), "a"), smooth())
    with pytest.raises(PictureError, match=r"70000 x 1 cannot be written as '\.jpg'"):
        images.encode(np.zeros((1, 70_000, 3), np.uint8), ".jpg")
    with pytest.raises(PictureError, match="xyz"):
        images.encode(smooth(), ".xyz")


# The real ones


@needs_fixtures
def test_every_real_picture_is_what_pillow_shows() -> None:
    """Opaque ones: equal to Pillow's decoder but for the rounding of two builds of libjpeg."""
    read = 0
    for path in sorted(FIXTURES.glob("*.*g")):
        image = Image.open(path)
        pixels = images.decode(path)
        assert is_picture(pixels), path
        alpha = np.asarray(image.convert("RGBA"))[..., 3]
        if alpha.min() == 255 and 1 <= image.getexif().get(images.ORIENTATION, 1) < 2:
            assert near(pixels, bgr(np.asarray(image.convert("RGB"))), 4), path
            read += 1
    assert read > 15


@needs_fixtures
def test_real_transparent_pictures_show_their_writing() -> None:
    """The same words in black and in white on nothing: one is the other's negative."""
    black = images.decode(FIXTURES / "black_font_color_transparent.png")
    white = images.decode(FIXTURES / "white_font_color_transparent.png")
    assert black.min() == 0 and black.max() == 255 and np.mean(black) > 200
    assert near(white, 255 - black.astype(int), 1)


@needs_fixtures
def test_real_turned_photo() -> None:
    stored = np.asarray(Image.open(FIXTURES / "img_exif_orientation.jpg").convert("RGB"))
    assert near(images.decode(FIXTURES / "img_exif_orientation.jpg"), bgr(stored[::-1, ::-1]), 4)
