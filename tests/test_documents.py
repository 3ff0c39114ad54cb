"""Documents page by page: every kind of source, frames and pages of pictures, broken files, memory."""

from __future__ import annotations

import io
import os
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.pictures import FIXTURES, needs_fixtures, paged, pdf
from zoo import images
from zoo.documents import Picture, pictures
from zoo.images import PictureError


def frames(count: int, *, same_size: bool = False) -> list[Image.Image]:
    """Pages of one grey each: page i is 20 * i, and (unless same_size) 30 + i high and 40 wide."""
    return [Image.new("L", (40, 30 if same_size else 30 + i), 20 * i) for i in range(1, count + 1)]


def all_of(source: Any, **options: Any) -> list[Picture]:
    return list(pictures(source, **options))


def grey(picture: Picture) -> int:
    return round(float(picture.pixels.mean()))


# Sources


def test_nothing_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pdf").touch()
    for source, name in ((b"", "<bytes>"), (io.BytesIO(), "<file>"), (tmp_path / "empty.pdf", "empty.pdf")):
        with pytest.raises(PictureError, match=rf"{name}: is empty"):
            all_of(source)


@pytest.mark.parametrize("source", [None, 5, ["a.png"], {}, np.float32(1)], ids=str)
def test_what_is_no_source(source: Any) -> None:
    with pytest.raises(PictureError, match="is nothing to read; give a path"):
        all_of(source)


def test_every_kind_of_source(tmp_path: Path) -> None:
    rgb = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    image = Image.fromarray(rgb)
    path = tmp_path / "图 ☃.dat"  # content counts, not the suffix
    image.save(path, "PNG")
    data = path.read_bytes()
    with path.open("rb") as file:
        opened = all_of(file)
        assert opened[0].source == str(path)
    sources = [path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data), image, Image.open(path)]
    for one in [*(all_of(source) for source in sources), opened, all_of(rgb, channels="rgb")]:
        (picture,) = one
        assert (picture.number, picture.pages, picture.dpi) == (1, 1, None)
        assert np.array_equal(picture.pixels, rgb[..., ::-1])
        assert np.array_equal(picture.reread(), picture.pixels)
    assert np.array_equal(all_of(rgb)[0].pixels, rgb)
    assert all_of(path)[0].source == str(path) and all_of(data)[0].source == "<bytes>"


def test_a_file_open_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    with path.open() as file, pytest.raises(PictureError, match=r"a\.txt: is open as text"):
        all_of(file)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    for source, says in (
        (tmp_path / "none.pdf", "no such file"),
        (tmp_path, "is a folder"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(PictureError, match=says):
            all_of(source)
    text = tmp_path / "text.png"
    text.write_text("not a picture\n" * 200)
    with pytest.raises(PictureError, match=r"text\.png: is no picture"):
        all_of(text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe, data = tmp_path / "pipe", paged(frames(2), "TIFF")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    pages = all_of(pipe)
    writer.join()
    assert [grey(page) for page in pages] == [20, 40]
    assert np.array_equal(pages[1].reread(), pages[1].pixels)


def test_reread_of_a_file_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    frames(1)[0].save(path)
    (picture,) = all_of(path)
    path.unlink()
    with pytest.raises(PictureError, match="no such file"):
        picture.reread()


# Arrays in files


@needs_fixtures
def test_real_array_of_grey_and_alpha() -> None:
    (picture,) = all_of(FIXTURES / "two_dim_image.npy")
    array = np.load(FIXTURES / "two_dim_image.npy")
    alpha = array[..., 1].astype(float) / 255
    wanted = array[..., 0] * alpha + 255 * (1 - alpha)
    assert picture.pixels.shape == (27, 300, 3) and np.abs(picture.pixels[..., 0] - wanted).max() <= 0.51


def test_array_files(tmp_path: Path) -> None:
    array = np.arange(24, dtype=">u2").reshape(2, 4, 3) * 2000
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    (picture,) = all_of(tmp_path / "a.npy", channels="rgb")
    assert np.array_equal(picture.pixels, images.from_array(array, "rgb"))
    data = (tmp_path / "a.npy").read_bytes()
    for cut in range(8, len(data)):
        with pytest.raises(PictureError, match="<bytes>: "):
            all_of(data[:cut])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["TIFF", "GIF", "WEBP", "PNG", "npy", "pdf"]),
    st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4),
)
def test_damage_raises_nothing_but_a_clear_error(kind: str, changes: list[tuple[float, bytes]]) -> None:
    if kind == "npy":
        file = io.BytesIO()
        np.save(file, np.zeros((5, 6, 3), np.uint8))
        data = bytearray(file.getvalue())
    else:
        data = bytearray(pdf("", "/Rotate 90") if kind == "pdf" else paged(frames(2, same_size=True), kind))
    for where, new in changes:
        place = int(where * len(data))
        data[place : place + len(new)] = new
    try:
        for page in pictures(bytes(data), dpi=20):
            assert page.pixels.ndim == 3 and page.pixels.dtype == np.uint8
    except PictureError as error:
        assert str(error).startswith("<bytes>")


def test_array_files_run_no_code_and_promise_nothing() -> None:
    file = io.BytesIO()
    np.save(file, np.array([[print, None]]), allow_pickle=True)
    with pytest.raises(PictureError, match="Python objects"):
        all_of(file.getvalue())
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (10**6, 10**6)})
    with pytest.raises(PictureError, match="at most 200 million"):
        all_of(file.getvalue())
    with pytest.raises(PictureError):
        all_of(pickle.dumps(np.zeros((2, 2))))


# Frames and pages of pictures


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    ("kind", "options"),
    [("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})],
    ids=["tiff", "tiff-lzw", "gif", "webp", "apng"],
)
def test_frames_are_pages(tmp_path: Path, kind: str, options: dict[str, Any], count: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(paged(frames(count, same_size=kind != "TIFF"), kind, **options))
    pages = all_of(path)
    assert [(page.number, page.pages, grey(page)) for page in pages] == [
        (i, count, 20 * i) for i in range(1, count + 1)
    ]
    if kind == "TIFF":
        assert [page.pixels.shape for page in pages] == [(30 + i, 40, 3) for i in range(1, count + 1)]
    for page in reversed(pages):
        assert np.array_equal(page.reread(), page.pixels)
    (last,) = all_of(path, pages=str(count))
    assert np.array_equal(last.pixels, pages[-1].pixels)
    chosen = all_of(path, pages=f"{count},1")
    assert [page.number for page in chosen] == ([count, 1] if count > 1 else [1])
    assert grey(chosen[-1]) == 20  # back to the first from the last


def test_frames_of_an_animation_build_on_each_other() -> None:
    """The second frame of this GIF, as stored, is only the part that changed."""
    first = Image.new("RGB", (40, 30), (0, 0, 200))
    second = first.copy()
    second.paste((200, 0, 0), (5, 5, 15, 15))
    third = second.copy()
    third.paste((0, 200, 0), (20, 20, 30, 30))
    pages = all_of(paged([first, second, third], "GIF"))
    for page, wanted in zip(pages, (first, second, third), strict=True):
        assert np.array_equal(page.pixels, np.asarray(wanted)[..., ::-1])


def test_pages_of_a_tiff_differ_in_mode_and_are_each_turned() -> None:
    exif = Image.Exif()
    exif[images.ORIENTATION] = 6
    turned, plain, bits = Image.new("RGB", (40, 30), "red"), Image.new("L", (20, 10), 90), Image.new("1", (9, 7), 1)
    turned.putpixel((0, 29), (0, 0, 255))  # the stored bottom left is the seen top left
    turned.encoderinfo = {"exif": exif}  # type: ignore[attr-defined]
    file = io.BytesIO()
    turned.save(file, "TIFF", save_all=True, append_images=[plain, bits], exif=exif)
    pages = all_of(file.getvalue())
    assert pages[0].pixels.shape == (40, 30, 3) and pages[0].pixels[0, 0].tolist() == [255, 0, 0]
    assert (pages[-1].pixels == 255).all() and {page.pages for page in pages} == {3}
    for page in pages:
        assert np.array_equal(page.reread(), page.pixels)


def test_a_preview_inside_a_photo_is_no_page() -> None:
    data = paged(frames(2, same_size=True), "MPO")
    assert [grey(page) for page in all_of(data)] == [20]
    assert [grey(page) for page in all_of(data[:-5])] == [20]  # what is cut off is the preview


@pytest.mark.parametrize(("kind", "same"), [("TIFF", False), ("GIF", True), ("WEBP", True), ("PNG", True)])
def test_an_animation_cut_short_is_never_a_shorter_one(kind: str, same: bool) -> None:
    rng = np.random.default_rng(0)
    pages = [Image.fromarray(rng.integers(0, 256, (12, 16), np.uint8)) for _ in range(3)]
    data = paged(pages, kind)
    whole = [page.pixels for page in all_of(data)]
    assert len(whole) == 3
    for cut in range(1, len(data), 3 if len(data) < 3000 else 17):
        try:
            got = [page.pixels for page in all_of(data[:cut])]
        except PictureError:
            continue
        assert len(got) == 3 and all(np.array_equal(a, b) for a, b in zip(got, whole, strict=True)), cut


def test_a_gif_cut_between_two_frames() -> None:
    """By the GIF89a grammar: each picture starts with 0x2C after the 0x00 that ends the blocks before it."""
    data = paged(frames(3, same_size=True), "GIF")
    cut = data.rindex(b"\x00\x21\xf9") + 1
    with pytest.raises(PictureError, match="the end of the GIF is missing"):
        all_of(data[:cut])


# Laziness and memory


def test_pages_are_read_one_at_a_time(tmp_path: Path) -> None:
    """Nothing here keeps a page that its reader has let go of."""
    (tmp_path / "a.pdf").write_bytes(pdf(*[""] * 3))
    (tmp_path / "a.tif").write_bytes(paged(frames(3), "TIFF"))
    for name in ("a.pdf", "a.tif"):
        walk = pictures(tmp_path / name, dpi=36)
        first = weakref.ref(next(walk).pixels)
        next(walk)
        assert first() is None, name
        del walk


def test_a_bad_page_does_not_spoil_those_before_it() -> None:
    data = bytearray(paged(frames(3), "TIFF"))
    walk = pictures(bytes(data[: len(data) - 20]))
    seen = []
    with pytest.raises(PictureError, match=r"<bytes>(, page 3)?: is cut short or damaged"):
        for picture in walk:
            seen.append(picture.number)
    assert seen in ([], [1, 2])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured by /proc here")
@pytest.mark.parametrize("kind", ["pdf", "tif"])
def test_five_hundred_pages_take_no_more_memory_than_fifty(tmp_path: Path, kind: str) -> None:
    """Half a megabyte a page: kept ones would add up to more than 200 MB."""
    path = tmp_path / f"a.{kind}"
    if kind == "pdf":
        path.write_bytes(pdf(*[""] * 500, width=500, height=350))
    else:
        path.write_bytes(paged([Image.new("1", (500, 350))] * 500, "TIFF", compression="group4"))
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    sizes = {}
    for picture in pictures(path, dpi=72):
        if picture.number in (50, 500):
            picture.reread()
            sizes[picture.number] = int(Path("/proc/self/statm").read_text().split()[1]) * page_bytes
    assert picture.number == 500 and sizes[500] - sizes[50] < 20e6
    assert not [link for link in _open_files() if link == str(path)]


def _open_files() -> list[str]:
    links = []
    for number in os.listdir("/proc/self/fd"):
        if os.path.islink(f"/proc/self/fd/{number}"):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return links
