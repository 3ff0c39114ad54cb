"""The page and its forms."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ocr.pages import any_text, page, quad
from tests.ocr.test_order import turned
from zoo.ocr import Line, Page, invisible_font
from zoo.ocr import fonts as font_files

BLANK = page()


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


NO_PAGES = [
    "",
    "[]",
    "{}",
    "null",
    '{"lines": [{"text": "a"}]}',
    '{"lines": [], "width": 1e999, "height": 1, "source": "", "page": 1}',
    '{"lines": [], "width": 1, "height": 1, "source": 5, "page": 1}',
    '{"lines": [{"text": "a", "score": 1, "direction": 0, "polygon": [[NaN, 0], [1, 0], [1, 1], [0, 1]]}],'
    ' "width": 1, "height": 1, "source": "", "page": 1}',
]


@pytest.mark.parametrize("text", NO_PAGES)
def test_json_that_is_no_page(text: str) -> None:
    with pytest.raises(ValueError, match="no page"):
        Page.from_json(text)


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


@pytest.mark.parametrize("degrees", [10, -15, 45, 90, 180, 270])
def test_turned_text_is_drawn_in_its_quad_and_begins_at_its_start(degrees: float) -> None:
    place = turned([quad(300, 480, 400)], degrees)[0].astype(np.float32)
    ink = _ink(Page((Line(place, "HI", 1, 0),), 1000, 800, "x", 1, BLANK.reread))
    assert len(ink) > 50
    inside = [cv2.pointPolygonTest(place, (float(x), float(y)), True) for x, y in ink]
    assert min(inside) > 0
    # Two narrow letters fill less than the first quarter of a line that is ten times as long as high.
    along = (ink - place[0]) @ (place[1] - place[0]) / 400**2
    assert along.min() > 0 and along.max() < 0.25


def _ink(made: Page) -> np.ndarray:
    """Where the right half is black: float32 [N, 2] of x and y. The outlines are coloured."""
    return np.argwhere(made.draw()[:, 1000:].max(axis=2) < 60)[:, ::-1].astype(np.float32)


@pytest.mark.usefixtures("fresh_fonts")
def test_without_system_fonts_one_box_stands_for_each_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    monkeypatch.setattr(font_files, "FOLDERS", {"linux": ()})
    monkeypatch.setattr(font_files, "_packaged", list)
    with pytest.warns(UserWarning, match=r"\(CJK\).*ZOO_FONT") as caught:
        one, three = _ink(page("春")), _ink(page("春江花"))
    assert len(caught) == 1
    assert len(one) > 20 and len(three) == pytest.approx(3 * len(one), rel=0.1)
    with pytest.warns(UserWarning, match=r"\(signs such as emoji\)"):
        page("\U0001f600").draw()


def test_no_font_at_all_warns_once_and_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(font_files, "candidates", lambda: ())
    for function in (font_files._best, font_files._warn):
        function.cache_clear()
    with pytest.warns(UserWarning, match="ZOO_FONT") as caught:
        page("春江花月夜", "春江").draw()
    assert len(caught) == 1
    font_files._best.cache_clear()


@pytest.fixture
def fresh_fonts() -> Iterator[None]:
    """No font is remembered from before, nor after."""
    remembered = (font_files.candidates, font_files._best, font_files._warn)
    for function in remembered:
        function.cache_clear()
    yield
    for function in remembered:
        function.cache_clear()


@pytest.mark.usefixtures("fresh_fonts")
def test_the_font_of_the_user_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    font = tmp_path / "squares.ttf"  # all that it draws is a square, but for a space and so on
    font.write_bytes(invisible_font.font())
    monkeypatch.setenv("ZOO_FONT", str(font))
    assert font_files.candidates()[:2] == (font, None)


@pytest.mark.usefixtures("fresh_fonts")
def test_a_user_font_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bad.ttf").write_bytes(b"no font")
    for name in ("absent.ttf", "bad.ttf"):
        monkeypatch.setenv("ZOO_FONT", str(tmp_path / name))
        with pytest.raises(ValueError, match=rf"ZOO_FONT: .*{name}"):
            page("a").draw()


@pytest.mark.usefixtures("fresh_fonts")
def test_an_installed_font_package_is_found_and_not_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "noto_cjk_sans_otc"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "A.ttc").write_bytes(invisible_font.font())
    monkeypatch.syspath_prepend(str(tmp_path))
    assert package / "A.ttc" in font_files.candidates()


def test_joiners_and_variation_selectors_need_no_font(recwarn: pytest.WarningsRecorder) -> None:
    page("a\u200db\ufe0f c\u200f").draw()
    assert not [warning for warning in recwarn if "no font" in str(warning.message)]


def test_drawing_on_another_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="500 x 400"):
        page("a").draw(np.zeros((400, 500, 3), np.uint8))


def test_drawing_without_a_picture_says_what_to_give() -> None:
    with pytest.raises(ValueError, match=re.escape("page.draw(image)")):
        Page.from_json(page("a").to_json()).draw()
