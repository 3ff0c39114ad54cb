"""Reading picture files of every kind, and refusing broken ones.

Expected values: what was put into the picture, hand calculation, the EXIF standard, or Pillow's own decoder.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from tests.pictures import LOSSY, bgr, is_picture, near, saved, smooth
from zoo import images
from zoo.images import PictureError

# What cannot be read


def test_nothing_is_one_clear_error() -> None:
    with pytest.raises(PictureError, match=r"^scan\.png: is empty"):
        images.decode(b"", "scan.png")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"x", "no picture"),
        (b"this is a text file\n" * 50, "no picture"),
        (bytes(5000), "no picture"),
        (b"<!DOCTYPE html><html>404</html>", "web page"),
        (b"\x00\x00\x00\x18ftypheic" + bytes(100), "HEIC"),
        (b"\x89PNG\r\n\x1a\n", "photo|picture|damaged"),
        (b"\xff\xd8\xff\xe0", "picture|damaged"),
        (b"GIF89a", "picture|damaged"),
    ],
)
def test_what_is_no_picture_is_one_clear_error(data: bytes, says: str) -> None:
    with pytest.raises(PictureError, match=rf"(?s)^a\.png: .*({says})"):
        images.decode(data, "a.png")


KINDS: dict[str, dict[str, Any]] = {
    "jpeg": {"kind": "JPEG", "quality": 95},
    "progressive": {"kind": "JPEG", "progressive": True},
    "png": {"kind": "PNG"},
    "webp": {"kind": "WEBP"},
    "webp-lossless": {"kind": "WEBP", "lossless": True},
    "gif": {"kind": "GIF"},
    "bmp": {"kind": "BMP"},
    "ppm": {"kind": "PPM"},
    "tga": {"kind": "TGA"},
    "tiff": {"kind": "TIFF"},
    "tiff-lzw": {"kind": "TIFF", "compression": "tiff_lzw"},
    "tiff-jpeg": {"kind": "TIFF", "compression": "jpeg"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_short_is_never_half_a_picture(kind: str) -> None:
    """At every cut: an error, or (where only padding went) exactly the whole picture."""
    data = saved(Image.fromarray(smooth()), **KINDS[kind])
    whole = images.decode(data, kind)
    cuts = {*range(1, len(data), max(1, len(data) // 60)), *range(max(1, len(data) - 12), len(data))}
    for cut in sorted(cuts):
        try:
            assert np.array_equal(images.decode(data[:cut], "cut.img"), whole), cut
            assert cut > len(data) - 40, cut
        except PictureError as error:
            assert str(error).startswith("cut.img: ")


@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_whose_rest_is_zeros_is_cut_short(progressive: bool) -> None:
    """As a download leaves it that had its space set aside."""
    data = saved(Image.fromarray(smooth(200, 300)), "JPEG", progressive=progressive)
    with pytest.raises(PictureError, match="cut short"):
        images.decode(data[: len(data) // 2] + bytes(len(data) // 2), "a.jpg")


def test_a_jpeg_cut_after_its_preview_is_cut_short() -> None:
    """The end marker of the preview inside the EXIF block is not the end of the file."""
    preview = saved(Image.fromarray(smooth(8, 8)), "JPEG")
    data = saved(Image.fromarray(smooth()), "JPEG")
    block = b"Exif\x00\x00" + preview
    data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
    assert near(images.decode(data, "a.jpg"), bgr(smooth()))
    with pytest.raises(PictureError, match=r"a\.jpg"):
        images.decode(data[: data.index(preview) + len(preview)], "a.jpg")


@pytest.mark.parametrize("tail", [bytes(100), b"trailer of a phone" * 20])
def test_a_jpeg_with_something_after_its_end_is_read(tail: bytes) -> None:
    data = saved(Image.fromarray(smooth()), "JPEG", quality=95)
    assert near(images.decode(data + tail, "a.jpg"), bgr(smooth()))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**6), st.integers(0, 255))
def test_damage_raises_nothing_but_a_clear_error(kind: str, where: int, byte: int) -> None:
    data = bytearray(saved(Image.fromarray(smooth(16, 24)), **KINDS[kind]))
    data[where % len(data)] = byte
    try:
        assert is_picture(images.decode(bytes(data), "a.img"))
    except PictureError as error:
        assert str(error).startswith("a.img: ")


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises a size, with hardly any pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_huge_pictures_are_refused_before_they_are_decoded() -> None:
    with pytest.raises(PictureError, match=r"big\.png: has 20001 x 10000 = 200 million pixels; at most 200 million"):
        images.decode(png_header(20001, 10000), "big.png")
    with pytest.raises(PictureError, match="at most 200 million"):
        images.decode(png_header(10**6, 10**6), "big.png")
    with pytest.raises(PictureError, match="1000000 on a side"):
        images.decode(png_header(1_000_001, 1), "big.png")
    # As large as allowed, so what is wrong is that the pixels are missing.
    with pytest.raises(PictureError, match="cut short"):
        images.decode(png_header(20000, 10000), "big.png")


@pytest.mark.filterwarnings("error")
def test_pillows_own_limit_neither_speaks_nor_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of over 100 pixels it would warn, and refuse over 200, in any thread."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    data = [saved(Image.fromarray(smooth()), kind) for kind in ("TIFF", "PNG", "JPEG", "GIF")]
    with ThreadPoolExecutor(8) as pool:
        shapes = {pixels.shape for pixels in pool.map(lambda i: images.decode(data[i % 4], "a"), range(200))}
    assert shapes == {(30, 40, 3)} and Image.MAX_IMAGE_PIXELS == 100


# Paths


@pytest.mark.parametrize("name", ["plain.png", "图片 测试.png", "صورة.png", "e\u0301té ☃ 😀.png", "a#b%20'c\".png"])
def test_any_unicode_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    Image.fromarray(smooth()).save(path)
    assert np.array_equal(images.decode(path), bgr(smooth()))
    assert np.array_equal(images.decode(str(path)), bgr(smooth()))


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match=r"none\.png: no such file"):
        images.decode(tmp_path / "none.png")
    with pytest.raises(PictureError, match="is a folder"):
        images.decode(tmp_path)
    with pytest.raises(PictureError, match="is an address"):
        images.decode("https://example.com/a.png")
    for path in ("a\0b.png", "x" * 5000):
        with pytest.raises(PictureError, match="cannot be read"):
            images.decode(path)


# Every kind


@pytest.mark.parametrize("kind", ["png", "webp-lossless", "bmp", "ppm", "tga", "tiff", "tiff-lzw"])
@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 1), (13, 21)])
def test_lossless_kinds_give_back_what_went_in(kind: str, size: tuple[int, int]) -> None:
    pixels = images.decode(saved(Image.fromarray(smooth(*size)), **KINDS[kind]), kind)
    assert is_picture(pixels) and np.array_equal(pixels, bgr(smooth(*size)))


@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"subsampling": 0}, {"keep_rgb": True}, {"quality": 100}, {"restart_marker_rows": 1}],
    ids=str,
)
@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 1), (31, 45)])
def test_jpeg(options: dict[str, Any], size: tuple[int, int]) -> None:
    pixels = images.decode(saved(Image.fromarray(smooth(*size)), "JPEG", **{"quality": 95, **options}), "a.jpg")
    assert is_picture(pixels) and near(pixels, bgr(smooth(*size)))


def test_grey_jpeg() -> None:
    grey = smooth()[..., 0]
    pixels = images.decode(saved(Image.fromarray(grey), "JPEG", quality=95), "a.jpg")
    assert near(pixels, np.repeat(grey[..., None], 3, axis=2))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "GIF"])
def test_one_bit(kind: str) -> None:
    bits = smooth()[..., 0] > 100
    pixels = images.decode(saved(Image.fromarray(bits), kind), "a")
    assert np.array_equal(pixels, np.repeat(bits[..., None], 3, axis=2) * np.uint8(255))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP"])
def test_grey(kind: str) -> None:
    grey = smooth()[..., 1]
    assert np.array_equal(images.decode(saved(Image.fromarray(grey), kind), "a")[..., 2], grey)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "TIFF", "BMP"])
def test_palette(kind: str) -> None:
    image = Image.new("P", (3, 1))
    image.putpalette([10, 20, 30, 200, 100, 50, 7, 8, 9])
    image.putdata([1, 0, 2])
    assert images.decode(saved(image, kind), "a").tolist() == [[[50, 100, 200], [30, 20, 10], [9, 8, 7]]]


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_with_a_transparent_colour(kind: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([1, 0])
    assert images.decode(saved(image, kind, transparency=0), "a").tolist() == [[[50, 100, 200], [255, 255, 255]]]


def test_palette_with_degrees_of_transparency() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, 200, 100, 50])
    image.putdata([0, 1])
    # Black at alpha 51 is a fifth of black over white: 255 * 0.8 = 204.
    assert images.decode(saved(image, "PNG", transparency=bytes([51, 255])), "a")[0].tolist() == [
        [204, 204, 204],
        [50, 100, 200],
    ]


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_transparent_colour_without_a_palette(mode: str) -> None:
    image = Image.new(mode, (2, 1), 0 if mode == "L" else (0, 0, 0))
    image.putpixel((1, 0), 90 if mode == "L" else (90, 90, 90))
    data = saved(image, "PNG", transparency=0 if mode == "L" else (0, 0, 0))
    assert images.decode(data, "a")[0].tolist() == [[255] * 3, [90] * 3]


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_rgba_is_composed_on_white(kind: str) -> None:
    rgba = np.array([[[200, 100, 0, 255], [0, 0, 0, 0], [0, 0, 0, 51]]], np.uint8)
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    pixels = images.decode(saved(Image.fromarray(rgba), kind, **options), "a")
    assert pixels[0].tolist() == [[0, 100, 200], [255, 255, 255], [204, 204, 204]]


def test_grey_with_alpha() -> None:
    data = saved(Image.fromarray(np.array([[[40, 255], [40, 0]]], np.uint8), "LA"), "PNG")
    assert images.decode(data, "a")[0].tolist() == [[40] * 3, [255] * 3]


@pytest.mark.parametrize(("kind", "options"), [("TIFF", {}), ("JPEG", {"quality": 100, "subsampling": 0})])
def test_cmyk(kind: str, options: dict[str, Any]) -> None:
    """Paper, cyan, magenta, yellow, black ink, and half black. JPEG: Pillow writes it inverted, as Adobe does."""
    inks = [(0, 0, 0, 0), (255, 0, 0, 0), (0, 255, 0, 0), (0, 0, 255, 0), (0, 0, 0, 255), (0, 0, 0, 128)]
    colours = [(255, 255, 255), (255, 255, 0), (255, 0, 255), (0, 255, 255), (0, 0, 0), (127, 127, 127)]
    image = Image.new("CMYK", (16 * len(inks), 16))
    for i, ink in enumerate(inks):
        image.paste(ink, (16 * i, 0, 16 * i + 16, 16))
    pixels = images.decode(saved(image, kind, **options), "a")
    assert near(pixels[8, 8::16], np.array(colours), 2)


def test_ycbcr_tiff_is_a_colour_picture() -> None:
    data = saved(Image.fromarray(smooth()), "TIFF", compression="jpeg", quality=95)
    assert near(images.decode(data, "a"), bgr(smooth()))


def test_lab_is_refused_rather_than_shown_in_wrong_colours() -> None:
    with pytest.raises(PictureError, match="LAB"):
        images.decode(saved(Image.new("LAB", (4, 4)), "TIFF"), "a.tif")


@pytest.mark.parametrize(("bits", "ext"), [(b, e) for b in (8, 10, 12, 14, 16) for e in (".png", ".tif")])
@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)], ids=["grey", "colour"])
def test_sixteen_bits_use_the_range_that_is_in_use(bits: int, ext: str, shape: tuple[int, ...]) -> None:
    """The upper 8 of the bits in use: a 12-bit picture in a 16-bit file is not black."""
    deep = np.linspace(0, 2**bits - 1, int(np.prod(shape))).astype(np.uint16).reshape(shape)
    wanted = (deep // 2 ** (bits - 8)).astype(np.uint8)
    pixels = images.decode(cv2.imencode(ext, deep)[1].tobytes(), "a")
    assert np.array_equal(pixels, wanted if wanted.ndim == 3 else np.repeat(wanted[..., None], 3, axis=2))


def test_sixteen_bits_with_alpha() -> None:
    deep = np.array([[[0, 30000, 65535, 65535], [0, 0, 0, 0]]], np.uint16)
    pixels = images.decode(cv2.imencode(".png", deep)[1].tobytes(), "a")
    assert pixels[0].tolist() == [[0, 30000 // 256, 255], [255, 255, 255]]


def test_a_deep_png_cut_short_is_an_error() -> None:
    data = cv2.imencode(".png", np.random.default_rng(0).integers(0, 65536, (30, 30, 3), np.uint16))[1].tobytes()
    for cut in range(40, len(data), 301):
        with pytest.raises(PictureError):
            images.decode(data[:cut], "a.png")


def test_float_tiff() -> None:
    data = saved(Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)), "TIFF")
    assert images.decode(data, "a")[0, :, 0].tolist() == [0, 128, 255]
    with pytest.raises(PictureError, match=r"a\.tif: has values from -3 to 900"):
        images.decode(saved(Image.fromarray(np.array([[-3, 900]], np.float32)), "TIFF"), "a.tif")


def test_whole_numbers_of_32_bits() -> None:
    data = saved(Image.fromarray(np.array([[0, 2**19, 2**20 - 1]], np.int32)), "TIFF")
    assert images.decode(data, "a")[0, :, 0].tolist() == [0, 128, 255]
    with pytest.raises(PictureError, match="int32"):
        images.decode(saved(Image.fromarray(np.array([[-1, 4]], np.int32)), "TIFF"), "a")


# EXIF: how the stored rows and columns lie in the picture that is seen. Source: EXIF 2.3, tag 274.
STORED = {
    1: lambda seen: seen,
    2: lambda seen: seen[:, ::-1],
    3: lambda seen: seen[::-1, ::-1],
    4: lambda seen: seen[::-1],
    5: lambda seen: seen.transpose(1, 0, 2),
    6: lambda seen: np.rot90(seen, 1),  # seen after a turn to the right, so stored turned to the left
    7: lambda seen: seen[::-1, ::-1].transpose(1, 0, 2),
    8: lambda seen: np.rot90(seen, -1),
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("JPEG", "RGB"), ("WEBP", "RGB"), ("WEBP", "RGBA")]
    + [(k, m) for k in ("PNG", "TIFF") for m in ("RGB", "RGBA", "I;16")],
)
def test_exif_orientation(orientation: int, kind: str, mode: str) -> None:
    options: dict[str, Any] = {"quality": 95} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}
    stored = np.ascontiguousarray(STORED[orientation](smooth(20, 36)))
    image, wanted = Image.fromarray(stored), bgr(smooth(20, 36))
    if mode == "RGBA":
        image.putalpha(255)
    if mode == "I;16":
        image, wanted = Image.fromarray(stored[..., 0].astype(np.uint16) * 257), wanted[..., [2, 2, 2]]
    exif = Image.Exif()
    exif[images.ORIENTATION] = orientation
    pixels = images.decode(saved(image, kind, exif=exif, **options), "a")
    assert is_picture(pixels) and near(pixels, wanted, LOSSY if kind == "JPEG" else 1)


def test_exif_after_the_pixels_of_a_png() -> None:
    exif = Image.Exif()
    exif[images.ORIENTATION] = 6
    data = saved(Image.fromarray(np.ascontiguousarray(STORED[6](smooth()))), "PNG", exif=exif)
    start = data.index(b"eXIf") - 4
    end = start + 12 + struct.unpack(">I", data[start : start + 4])[0]
    late = data[:start] + data[end:-12] + data[start:end] + data[-12:]
    assert np.array_equal(images.decode(late, "a"), bgr(smooth()))


@pytest.mark.parametrize("block", [b"Exif\x00\x00rubbish", b"Exif\x00\x00II*\x00\xff\xff\xff\xff", b"Exif\x00\x00"])
def test_a_damaged_exif_block_does_not_cost_the_picture(block: bytes) -> None:
    data = saved(Image.fromarray(smooth()), "JPEG", quality=95)
    data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
    assert near(images.decode(data, "a"), bgr(smooth()))


def test_a_damaged_exif_text_in_a_png_does_not_cost_the_picture() -> None:
    """As ImageMagick writes it, but not hexadecimal."""
    text = PngImagePlugin.PngInfo()
    text.add_text("Raw profile type exif", "\nexif\n  10\nno hex\n", zip=True)
    assert np.array_equal(images.decode(saved(Image.fromarray(smooth()), "PNG", pnginfo=text), "a"), bgr(smooth()))


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_an_orientation_that_does_not_exist_is_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[images.ORIENTATION] = orientation
    data = saved(Image.fromarray(smooth()), "JPEG", quality=95, exif=exif)
    assert near(images.decode(data, "a"), bgr(smooth()))


def test_import_is_light() -> None:
    code = "import sys; import zoo.images; print([m for m in ('cv2', 'PIL', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
