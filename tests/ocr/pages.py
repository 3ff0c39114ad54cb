"""Pages made by hand, for the tests of what pages give."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from zoo.ocr import Line, Page, Word

any_text = st.text(st.characters(codec="utf-16"), min_size=1, max_size=30)


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
