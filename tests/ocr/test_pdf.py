"""Searchable PDF, read back with pdfium."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ocr.pages import any_text, page, quad
from tests.ocr.test_order import turned
from zoo.ocr import Line, Page, Word
from zoo.ocr.pdf import DPI, searchable_pdf

TEXTS = ["Hello, world 42", "春江潮水连海平", "نص عربي", "日本語テキスト", "Ünïcödé ß", "emoji 😀 ok"]


def test_pdf_text_is_found_where_it_stands() -> None:
    document = pypdfium2.PdfDocument(page(*TEXTS).to_pdf())
    sheet = document[0]
    scale = 72 / DPI
    assert sheet.get_size() == pytest.approx((1000 * scale, 800 * scale))
    text = sheet.get_textpage()
    content = text.get_text_bounded()
    for wanted in ("Hello, world 42", "春江潮水连海平", "日本語テキスト", "Ünïcödé ß", "😀"):
        assert wanted in content
    index, count = text.search("潮水").get_next()
    left, bottom, _, _ = text.get_charbox(index, loose=True)
    # Characters 3 and 4 of 7, on a line from 100 to 700 pixels whose lower edge is at 150.
    assert count == 2 and left == pytest.approx((100 + 600 * 2 / 7) * scale, abs=2)
    assert 800 * scale - bottom == pytest.approx(150 * scale, abs=20 * scale)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_pdf_keeps_the_original_and_its_rotation(tmp_path: Path, rotation: int) -> None:
    original = pypdfium2.PdfDocument.new()
    for _ in range(2):
        original.new_page(300, 200)
    original[1].set_rotation(rotation)
    original.save(tmp_path / "original.pdf")
    width, height = (1000, 667) if rotation % 180 == 0 else (667, 1000)
    line = Line(quad(100, 50, 400), "word", 1, 0)
    data = searchable_pdf([Page((line,), width, height, "x", number=2)], tmp_path / "original.pdf")
    document = pypdfium2.PdfDocument(data)
    assert len(document) == 2 and document[1].get_rotation() == rotation
    assert document[0].get_textpage().get_text_bounded() == ""
    text = document[1].get_textpage()
    assert text.get_text_bounded().strip() == "word"
    # Turned as it is shown, the text must begin at (100, 80) pixels of the picture that was read.
    x, y = np.mean([text.get_charbox(0)[:2], text.get_charbox(0)[2:]], axis=0)
    shown = {0: (x, 200 - y), 90: (y, x), 180: (300 - x, y), 270: (200 - y, 300 - x)}[rotation]
    scale = 0.3
    assert shown[0] == pytest.approx(150 * scale, abs=6) and shown[1] == pytest.approx(82 * scale, abs=4)


def test_pdf_of_what_is_no_pdf(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    with pytest.raises(ValueError, match=r"a\.pdf"):
        searchable_pdf([page("x")], tmp_path / "a.pdf")


def _text(data: bytes, sheet: int = 0) -> str:
    return pypdfium2.PdfDocument(data)[sheet].get_textpage().get_text_bounded()


@pytest.mark.parametrize("text", ["نص عربي", "שלום עולם", "מחיר 3.50 שח", "abc שלום", "(שלום)"])
def test_right_to_left_text_comes_out_as_it_is_read(text: str) -> None:
    assert _text(page(text).to_pdf()).strip() == text


def test_the_first_word_of_right_to_left_text_stands_at_the_right() -> None:
    text = pypdfium2.PdfDocument(page("שלום עולם").to_pdf())[0].get_textpage()
    index, _ = text.search("שלום").get_next()
    left, _, right, _ = text.get_charbox(index, loose=True)
    # Nine characters from 100 to 700 pixels: the first letter is the rightmost cell.
    assert (left, right) == pytest.approx(((100 + 600 * 8 / 9) * 72 / DPI, 700 * 72 / DPI), abs=1)


@settings(deadline=None, max_examples=60)
@given(any_text)
def test_a_pdf_of_any_text_opens(text: str) -> None:
    _text(page(text).to_pdf())


def _is_letter(character: str) -> bool:
    """A letter that stays itself when compatible forms, such as ligatures, are taken apart."""
    return (
        unicodedata.category(character) in ("Lu", "Ll", "Lo")
        and unicodedata.normalize("NFKC", character) == character
        and unicodedata.bidirectional(character) == "L"
    )


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(categories=("Lu", "Ll", "Lo")).filter(_is_letter), min_size=1, max_size=20))
def test_letters_of_any_script_are_found(text: str) -> None:
    assert _text(page(text).to_pdf()).strip() == text


def test_words_are_parted_and_lie_in_their_boxes() -> None:
    places = (("wide", 100, 300), ("gap", 420, 60), ("春", 480, 40))
    words = tuple(Word(text, 1, quad(left, 50, width)) for text, left, width in places)
    data = Page((Line(quad(100, 50, 420), "wide gap春", 1, 0, words),), 1000, 800, "x", 1, page().reread).to_pdf()
    assert _text(data).strip() == "wide gap春"
    text = pypdfium2.PdfDocument(data)[0].get_textpage()
    index, count = text.search("gap").get_next()
    assert count == 3
    left, bottom, right, top = text.get_charbox(index, loose=True)
    # Three characters from 420 to 480 pixels, the line from 50 to 90 pixels of 800.
    scale = 72 / DPI
    assert (left, right) == pytest.approx((420 * scale, 440 * scale), abs=0.5)
    assert (800 * scale - top, 800 * scale - bottom) == pytest.approx((50 * scale, 90 * scale), abs=1)


def test_words_that_touch_are_no_error() -> None:
    words = (Word("a", 1, quad(100, 50, 50)), Word("b", 1, quad(150, 50, 50)), Word("", 1, quad(150, 50, 0)))
    data = Page((Line(quad(100, 50, 100), "a b", 1, 0, words),), 1000, 800, "x", 1, page().reread).to_pdf()
    assert _text(data).replace(" ", "").strip() == "ab"


def _pdf_with(content: bytes, extra: bytes = b"") -> bytes:
    """A page of 300 x 200 points, written byte by byte."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<<>>" + extra + b">>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 5\n0000000000 65535 f \n%btrailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(data),
    )
    return data + end


DRAWING = b"1 0 0 RG 4 w 10 10 m 200 100 l S"


@pytest.mark.parametrize(
    ("content", "extra"),
    [
        (DRAWING, b""),
        (b"0.5 0 0 0.5 30 40 cm " + DRAWING, b""),  # a matrix that is never taken back
        (b"q 0.5 0 0 0.5 30 40 cm " + DRAWING, b""),  # a state that is never restored
        (b"0 0 50 50 re W n " + DRAWING, b""),
        (DRAWING, b"/CropBox[50 20 250 180]"),
        (DRAWING, b"/CropBox[50 20 250 180]/Rotate 90"),
    ],
    ids=["plain", "matrix", "open state", "clip", "crop", "crop and turn"],
)
def test_text_lies_right_on_any_original_and_is_not_seen(tmp_path: Path, content: bytes, extra: bytes) -> None:
    path = tmp_path / "original.pdf"
    path.write_bytes(_pdf_with(content, extra))
    before = pypdfium2.PdfDocument(path)[0]
    width, height = (round(4 * side) for side in before.get_size())
    line = Line(quad(100, 50, 400), "word here", 1, 0)
    data = searchable_pdf([Page((line,), width, height, "x")], path)
    after = pypdfium2.PdfDocument(data)[0]
    assert np.array_equal(before.render(scale=2).to_numpy(), after.render(scale=2).to_numpy())
    assert b"DCTDecode" not in data  # lines stay lines
    text = after.get_textpage()
    assert text.get_text_bounded().strip() == "word here"
    corners = [_shown(after, text.get_charbox(i, loose=True), width, height) for i in range(9)]
    x, y = np.concatenate([c[:, 0] for c in corners]), np.concatenate([c[:, 1] for c in corners])
    assert (x.min(), x.max(), y.min(), y.max()) == pytest.approx((100, 500, 50, 90), abs=3)


def _shown(sheet: pypdfium2.PdfPage, box: tuple[float, float, float, float], width: int, height: int) -> np.ndarray:
    """Two corners of a box, in pixels of the page as it is shown."""
    import ctypes

    import pypdfium2.raw as pdfium

    found = []
    for x, y in (box[:2], box[2:]):
        right, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(sheet.raw, 0, 0, width, height, 0, x, y, right, down)
        found.append((right.value, down.value))
    return np.array(found)


def test_a_page_that_the_original_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.pdf").write_bytes(_pdf_with(DRAWING))
    with pytest.raises(ValueError, match=r"number=2.*has 1 pages"):
        searchable_pdf([page("x", number=2)], tmp_path / "one.pdf")


@pytest.mark.parametrize("degrees", [8, -15, 45, 90, 180, 270])
def test_turned_text_is_found_in_its_quad(degrees: float) -> None:
    place = turned([quad(300, 480, 400)], degrees)[0].astype(np.float32)
    data = Page((Line(place, "turned 春江", 1, 0),), 1000, 800, "x", 1, page().reread).to_pdf()
    sheet = pypdfium2.PdfDocument(data)[0]
    text = sheet.get_textpage()
    assert text.get_text_bounded().strip() == "turned 春江"
    index, count = text.search("春江").get_next()
    assert count == 2
    # Characters 8 and 9 of 9: their middles lie on the quad's long axis, at 7.5 and 8.5 ninths of it.
    start, step = (place[0] + place[3]) / 2, (place[1] - place[0]) / 9
    for i, share in ((index, 7.5), (index + 1, 8.5)):
        middle = _shown(sheet, text.get_charbox(i), 1000, 800).mean(axis=0)
        assert np.linalg.norm(middle - (start + share * step)) < 3


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="pdftotext of poppler is not installed")
def test_another_reader_finds_every_script(tmp_path: Path) -> None:
    """Lines as wide as print has them: poppler takes a space that is stretched to an em for a gap between columns."""
    texts = [*TEXTS, "שלום עולם", "이 문서는 PDF 파일이다", "春江 潮水 sea 7 连海平", "ไทย ภาษา"]
    lines = [Line(quad(100, 50 + 60 * i, _printed_width(text)), text, 1, 0) for i, text in enumerate(texts)]
    (tmp_path / "a.pdf").write_bytes(Page(tuple(lines), 1000, 800, "x", 1, page().reread).to_pdf())
    said = subprocess.run(["pdftotext", "-enc", "UTF-8", tmp_path / "a.pdf", "-"], capture_output=True, check=True)
    plain = re.sub("[\u202a-\u202e]", "", said.stdout.decode())  # marks of direction that poppler sets around lines
    assert [line.strip() for line in plain.splitlines() if line.strip()] == texts


def _printed_width(text: str) -> int:
    """Pixels of a line 40 pixels high: an em for Chinese characters, half of one for letters."""
    return sum(40 if unicodedata.east_asian_width(character) in "WF" else 20 for character in text)


def test_a_picture_too_long_for_a_jpeg_is_held_smaller() -> None:
    """65500 is the most that libjpeg writes (jmorecfg.h, JPEG_MAX_DIMENSION)."""
    long = Page((), 70000, 20, "x", 1, lambda: np.full((20, 70000, 3), 90, np.uint8))
    sheet = pypdfium2.PdfDocument(long.to_pdf())[0]
    assert sheet.get_size()[0] == pytest.approx(14400)
    assert abs(int(sheet.render(scale=0.5).to_numpy()[1, 3000].mean()) - 90) <= 3


def test_a_very_tall_picture_keeps_within_what_pdf_allows() -> None:
    tall = Page((), 100, 60000, "x", 1, lambda: np.zeros((60000, 100, 3), np.uint8))
    width, height = pypdfium2.PdfDocument(tall.to_pdf())[0].get_size()
    assert height == pytest.approx(14400) and width == pytest.approx(24)
