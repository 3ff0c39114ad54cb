"""The page and its forms."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.ocr import Line, Page, Word
from zoo.ocr import fonts as font_files
from zoo.ocr.pdf import DPI, searchable_pdf
from zoo.ocr.render import alto, hocr, markdown

XHTML, ALTO = "{http://www.w3.org/1999/xhtml}", "{http://www.loc.gov/standards/alto/ns-v4#}"


def quad(left: float, top: float, width: float, height: float = 40) -> np.ndarray:
    corners = [[left, top], [left + width, top], [left + width, top + height], [left, top + height]]
    return np.array(corners, np.float32)


def page(*texts: str, number: int = 1, words: bool = False) -> Page:
    """Lines 60 pixels apart on a page of 1000 x 800 pixels."""
    lines = []
    for i, text in enumerate(texts):
        place = quad(100, 50 + 60 * i, 600)
        parts = (Word(text[:1], 0.5, quad(100, 50 + 60 * i, 50)),) if words else ()
        lines.append(Line(place, text, 0.9, 0, parts))
    return Page(tuple(lines), 1000, 800, "a & b.png", number, lambda: np.full((800, 1000, 3), 200, np.uint8))


BLANK = page()
any_text = st.text(st.characters(codec="utf-16"), min_size=1, max_size=30)


def test_a_blank_page_has_every_form() -> None:
    assert BLANK.text == "" and BLANK.to_markdown() == ""
    assert json.loads(BLANK.to_json())["lines"] == []
    ET.fromstring(BLANK.to_hocr()), ET.fromstring(BLANK.to_alto())
    assert BLANK.draw().shape == (800, 2000, 3)
    assert len(pypdfium2.PdfDocument(BLANK.to_pdf())) == 1
    assert "0 lines" in repr(BLANK)


def test_pieces_of_one_row_are_joined_by_a_space() -> None:
    left, right = Line(quad(0, 0, 100), "Total", 1, 0), Line(quad(500, 4, 100), "9.50", 1, 0)
    assert Page((left, right), 800, 100, "x").text == "Total 9.50"


@settings(deadline=None)
@given(st.lists(any_text, max_size=4), st.booleans())
def test_json_there_and_back(texts: list[str], words: bool) -> None:
    first = page(*texts, words=words)
    again = Page.from_json(first.to_json())
    assert again.to_json() == first.to_json()
    assert [line.text for line in again.lines] == texts


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lines": [{"text": "a"}]}', "null"])
def test_json_that_is_no_page(text: str) -> None:
    with pytest.raises(ValueError, match="no page"):
        Page.from_json(text)


@settings(deadline=None)
@given(st.lists(any_text, max_size=4))
def test_renderings_of_any_text_are_xml(texts: list[str]) -> None:
    root = ET.fromstring(hocr([page(*texts)]))
    lines = [node for node in root.iter(f"{XHTML}span") if node.get("class") == "ocr_line"]
    assert len(lines) == len(texts)
    assert len(list(ET.fromstring(alto([page(*texts)])).iter(f"{ALTO}TextLine"))) == len(texts)


def test_hocr_says_where_and_what() -> None:
    root = ET.fromstring(hocr([page("Hello big world"), page("second", number=2)]))
    sheets = [node for node in root.iter(f"{XHTML}div") if node.get("class") == "ocr_page"]
    assert sheets[0].get("title") == 'image "a & b.png"; bbox 0 0 1000 800; ppageno 0'
    assert "ppageno 1" in (sheets[1].get("title") or "")
    words = [node for node in root.iter(f"{XHTML}span") if node.get("class") == "ocrx_word"]
    assert [node.text for node in words] == ["Hello", "big", "world", "second"]
    # "big" is characters 6 to 9 of 15 on a line from 100 to 700.
    assert words[1].get("title") == "bbox 340 50 460 90; x_wconf 90"


def test_alto_says_where_and_what() -> None:
    strings = list(ET.fromstring(alto([page("Hello big world")])).iter(f"{ALTO}String"))
    assert [node.get("CONTENT") for node in strings] == ["Hello", "big", "world"]
    assert (strings[1].get("HPOS"), strings[1].get("VPOS"), strings[1].get("WIDTH")) == ("340", "50", "120")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, text.", "plain, text."),
        ("# no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("- no list", r"\- no list"),
        ("*a* _b_ [c](d) <e> `f` |", r"\*a\* \_b\_ \[c\](d) \<e\> \`f\` \|"),
        ("3.14 - 2", "3.14 - 2"),
    ],
)
def test_markdown_escapes_markup(text: str, expected: str) -> None:
    assert markdown(page(text)) == expected


@pytest.mark.filterwarnings("ignore:no font here")
@settings(deadline=None, max_examples=20)
@given(any_text)
def test_drawing_any_text_raises_nothing(text: str) -> None:
    assert page(text).draw().shape == (800, 2000, 3)


def test_drawn_text_lies_in_its_quad() -> None:
    right = page("HELLO").draw()[:, 1000:]
    ink = np.argwhere(right.max(axis=2) < 60)
    assert len(ink) > 100
    (top, left), (bottom, rightmost) = ink.min(axis=0), ink.max(axis=0)
    assert top >= 50 and bottom <= 90 and left >= 100 and rightmost <= 700


def test_no_font_at_all_warns_once_and_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(font_files, "candidates", lambda: ())
    for function in (font_files._best, font_files._warn):
        function.cache_clear()
    with pytest.warns(UserWarning, match="ZOO_FONT") as caught:
        page("春江花月夜", "春江").draw()
    assert len(caught) == 1
    font_files._best.cache_clear()


def test_drawing_without_a_picture_says_what_to_give() -> None:
    with pytest.raises(ValueError, match=re.escape("page.draw(image)")):
        Page.from_json(page("a").to_json()).draw()


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
