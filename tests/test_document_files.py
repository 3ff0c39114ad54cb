"""PDFs page by page, page ranges, and the files that folders and globs stand for."""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.pictures import FIXTURES, needs_fixtures, pdf, saved
from zoo import documents, images
from zoo.documents import Picture, files, page_numbers, pictures
from zoo.images import PictureError


def all_of(source: Any, **options: Any) -> list[Picture]:
    return list(pictures(source, **options))


def grey(picture: Picture) -> int:
    return round(float(picture.pixels.mean()))


# PDF


def test_pdf_of_pictures(tmp_path: Path) -> None:
    """Pages of 144 x 72 points (by Pillow, at 72 dots an inch) drawn at 36, 72 and 144."""
    path = tmp_path / "三.pdf"
    greys = [Image.new("L", (144, 72), 60 * i) for i in range(1, 4)]
    greys[0].save(path, save_all=True, append_images=greys[1:], resolution=72)
    for dpi, shape in ((36, (36, 72, 3)), (72, (72, 144, 3)), (144, (144, 288, 3))):
        pages = all_of(path, dpi=dpi)
        assert [page.pixels.shape for page in pages] == [shape] * 3
        assert [page.dpi for page in pages] == [dpi] * 3 and [page.pages for page in pages] == [3] * 3
        assert all(abs(grey(page) - 60 * page.number) <= 3 for page in pages)
        assert np.array_equal(pages[2].reread(), pages[2].pixels)
    assert [page.number for page in all_of(path, pages="3,1-2", dpi=36)] == [3, 1, 2]
    assert np.array_equal(all_of(path.read_bytes(), dpi=36)[1].pixels, all_of(path, dpi=36)[1].pixels)
    with path.open("rb") as file:
        assert len(all_of(file, dpi=36)) == 3


@pytest.mark.parametrize(
    ("rotate", "shape", "box"),
    [
        (0, (100, 200, 3), (slice(0, 10), slice(0, 20))),
        (90, (200, 100, 3), (slice(0, 20), slice(90, 100))),
        (180, (100, 200, 3), (slice(90, 100), slice(180, 200))),
        (270, (200, 100, 3), (slice(180, 200), slice(0, 10))),
    ],
)
def test_a_turned_pdf_page_is_drawn_as_it_is_seen(rotate: int, shape: tuple[int, ...], box: tuple[slice, ...]) -> None:
    (page,) = all_of(pdf(f"/Rotate {rotate}"), dpi=72)
    assert page.pixels.shape == shape and page.pixels.flags.c_contiguous and page.pixels.dtype == np.uint8
    black = page.pixels.max(axis=2) < 128
    assert black[box].all() and black.sum() == 200


def test_rubbish_around_a_pdf() -> None:
    assert len(all_of(b"\r\n" + pdf("") + b"\n<html>appended by a server</html>" * 20)) == 1


def test_broken_pdfs() -> None:
    whole = pdf("", "", "")
    assert len(all_of(whole)) == 3
    for cut in [*range(10, len(whole), 23), whole.index(b"startxref")]:
        if cut <= whole.index(b"startxref"):
            with pytest.raises(PictureError, match=r"<bytes>: .*the end of the PDF is missing"):
                all_of(whole[:cut])
    with pytest.raises(PictureError, match=r"<bytes>: .*damaged"):
        all_of(b"%PDF-1.4\n" + b"rubbish " * 100 + b"startxref\n7\n%%EOF")
    with pytest.raises(PictureError, match=r"damaged|without pages"):
        all_of(pdf())


def test_a_pdf_with_a_password() -> None:
    key = "00" * 32
    entries = f"/Encrypt << /Filter /Standard /V 1 /R 2 /O <{key}> /U <{key}> /P -4 >> /ID [<00> <00>]"
    with pytest.raises(PictureError, match="<bytes>: needs a password; save it without one"):
        all_of(pdf("", trailer=entries))


def test_a_huge_pdf_page_is_drawn_with_fewer_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 20_000)
    with pytest.warns(UserWarning, match=r"<bytes>, page 1: is so large that it is drawn at \d+ dpi, not 300"):
        (page,) = all_of(pdf("", width=333, height=77), dpi=300)
    assert 19_000 < page.pixels.shape[0] * page.pixels.shape[1] <= 20_000
    assert page.dpi is not None and page.dpi < 300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(page.reread(), page.pixels)
        assert all_of(pdf("", width=333, height=0.5), dpi=72)[0].pixels.shape == (1, 333, 3)


@pytest.mark.parametrize("dpi", [0, -1, float("nan"), float("inf"), "200", None])
def test_dpi_that_makes_no_sense(dpi: Any) -> None:
    with pytest.raises(PictureError, match="dpi="):
        all_of(pdf(""), dpi=dpi)


def test_a_page_is_gone_before_the_next_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = documents._draw_page
    seen: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []

    def spy(*arguments: Any) -> tuple[np.ndarray, float]:
        alive.append(sum(page() is not None for page in seen))
        return draw(*arguments)

    monkeypatch.setattr(documents, "_draw_page", spy)
    walk = pictures(pdf("", "", ""), dpi=36)
    for _ in range(3):
        seen.append(weakref.ref(next(walk).pixels))
    assert alive == [0, 0, 0]


def test_only_one_thread_at_a_time_is_in_pdfium(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = documents._draw_page
    inside: list[int] = []
    most: list[int] = []

    def spy(*arguments: Any) -> tuple[np.ndarray, float]:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return draw(*arguments)

    monkeypatch.setattr(documents, "_draw_page", spy)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: [page.reread() for page in all_of(pdf("", ""), dpi=36)], range(8)))
    assert len(most) == 32 and max(most) == 1


def test_pdfs_in_many_threads() -> None:
    sources = [pdf("", "/Rotate 90", width=100 + 10 * i) for i in range(4)]
    wanted = [[page.pixels for page in all_of(source, dpi=50)] for source in sources]
    with ThreadPoolExecutor(4) as pool:
        for got, index in zip(pool.map(lambda i: all_of(sources[i % 4], dpi=50), range(40)), range(40), strict=True):
            assert all(np.array_equal(a.pixels, b) for a, b in zip(got, wanted[index % 4], strict=True))


# Page ranges


@pytest.mark.parametrize(
    ("pages", "numbers"),
    [
        (None, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("1", [1]),
        ("9", [9]),
        ("1,3-5,7-", [1, 3, 4, 5, 7, 8, 9]),
        ("-3", [1, 2, 3]),
        ("9-", [9]),
        (" 2 , 4 - 5 ", [2, 4, 5]),
        ("5,1-3,2", [5, 1, 2, 3]),
        ("4-4", [4]),
    ],
)
def test_page_numbers(pages: str | None, numbers: list[int]) -> None:
    assert page_numbers(pages, 9, "a.pdf") == numbers


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ("", "is no page"),
        ("-", "is no page"),
        ("1,", "is no page"),
        ("a", "is no page"),
        ("1.5", "is no page"),
        ("1--3", "is no page"),
        ("9" * 5000, "is no page"),
        ("0", "pages start at 1"),
        ("0-3", "pages start at 1"),
        ("5-3", "backwards"),
        ("10", "it has 9 pages"),
        ("3-10", "it has 9 pages"),
        ("10-", "it has 9 pages"),
        ("1-999999999", "it has 9 pages"),
        (3, "give text"),
    ],
)
def test_page_numbers_that_are_none(pages: Any, says: str) -> None:
    with pytest.raises(PictureError, match=rf"^a\.pdf: pages=.*{says}"):
        page_numbers(pages, 9, "a.pdf")


@pytest.mark.parametrize(
    "source",
    [lambda: np.zeros((2, 2), np.uint8), lambda: saved(Image.new("L", (2, 2)), "PNG"), lambda: pdf("")],
    ids=str,
)
def test_a_page_that_a_single_picture_does_not_have(source: Callable[[], Any]) -> None:
    assert [page.number for page in pictures(source(), pages="1-")] == [1]
    with pytest.raises(PictureError, match=r"it has 1 page$"):
        all_of(source(), pages="2")


# Folders and globs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ["page10.png", "page2.JPG", "Page1.tif", "notes.txt", ".hidden.png", "._page2.jpg", "图3.pdf", "a[1].png"]
    for name in [*names, "sub/page3.webp", "sub/deep/page20.gif"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.png").mkdir()
    return tmp_path


def names_of(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_a_folder_is_its_pictures_in_natural_order(folder: Path) -> None:
    inside = ["a[1].png", "Page1.tif", "page2.JPG", "page10.png", "图3.pdf"]
    assert names_of(files([folder])) == names_of(files(str(folder))) == inside
    assert names_of(files([folder / "page10.png", folder])) == ["page10.png", *(n for n in inside if n != "page10.png")]
    assert files([]) == []


def test_globs(folder: Path) -> None:
    assert names_of(files([f"{folder}/page*"])) == ["page2.JPG", "page10.png"]
    assert names_of(files([f"{folder}/**/page*.*"])) == ["page2.JPG", "page10.png", "page20.gif", "page3.webp"]
    assert len(files([f"{folder}/**"])) == 7
    assert names_of(files([folder / "a[1].png"])) == ["a[1].png"]  # a name before it is a pattern


def test_a_file_named_itself_is_taken_as_it_is(folder: Path) -> None:
    assert names_of(files([folder / "notes.txt", folder / ".hidden.png"])) == ["notes.txt", ".hidden.png"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("none.png", "no such file or folder"),
        ("empty", "holds no picture"),
        ("*.xyz", "matches no picture"),
        ("none/**/*.png", "matches no picture"),
        ("x\0y", "no such file or folder"),
    ],
)
def test_paths_without_pictures(folder: Path, path: str, says: str) -> None:
    with pytest.raises(PictureError, match=says) as caught:
        files([f"{folder}/{path}"])
    assert str(caught.value).startswith(f"{folder}/{path}: ")
    with pytest.raises(PictureError, match="is an address"):
        files(["https://example.com/a.png"])


def test_natural_order_of_odd_digits() -> None:
    """A superscript is a digit to Python and no number; equal names but for zeros have one order."""
    odd = [Path("a²"), Path("²"), Path("a10"), Path("a9"), Path("a09"), Path("٣"), Path("b/1"), Path("10/2"), Path("")]
    backwards = odd[::-1]
    ordered = sorted(odd, key=documents.natural)
    assert ordered == sorted(backwards, key=documents.natural)
    assert ordered.index(Path("a09")) < ordered.index(Path("a9")) < ordered.index(Path("a10"))


@needs_fixtures
def test_the_real_folder() -> None:
    found = files([FIXTURES])
    assert len(found) == len(os.listdir(FIXTURES)) > 0
    for path in found:
        (picture,) = pictures(path)
        assert picture.source == str(path) and picture.pixels.dtype == np.uint8 and picture.pixels.ndim == 3
