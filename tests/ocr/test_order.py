"""Reading order of layouts whose order is written down by hand."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.ocr.order import reading_order, rows

HEIGHT = 20


def line(left: float, top: float, width: float, height: float = HEIGHT) -> np.ndarray:
    return np.array([[left, top], [left + width, top], [left + width, top + height], [left, top + height]], float)


def turned(quads: list[np.ndarray], degrees: float) -> np.ndarray:
    """The whole page turned clockwise around a point."""
    angle = math.radians(degrees)
    matrix = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return (np.stack(quads) - 500) @ matrix + 500


def paragraph(left: float, top: float, width: float, count: int) -> list[np.ndarray]:
    """Full lines, the last one short."""
    return [line(left, top + 30 * i, width if i < count - 1 else width / 3) for i in range(count)]


TWO_COLUMNS = [*paragraph(50, 100, 400, 8), *paragraph(500, 115, 400, 7)]
HEADLINE_AND_THREE = [
    line(50, 20, 900, 40),
    *paragraph(50, 100, 260, 6),
    *paragraph(350, 108, 260, 6),
    *paragraph(650, 95, 260, 5),
]
# name left, price right: read row by row
RECEIPT = [
    quad
    for row in range(6)
    for quad in (line(50, 100 + 40 * row, [120, 200, 90, 260, 150, 180][row]), line(700, 102 + 40 * row, 80))
]
TABLE = [
    line(50 + 200 * column, 100 + 35 * row, 60 + 13 * (row + column) % 50) for row in range(5) for column in range(4)
]
# A paper: title, abstract, two columns, a caption over both, two columns, and the page's number between them.
PAPER = [
    line(200, 20, 600, 40),
    *paragraph(150, 80, 650, 4),
    *paragraph(50, 230, 400, 7),
    *paragraph(500, 237, 400, 7),
    line(100, 470, 700),
    *paragraph(50, 530, 400, 6),
    *paragraph(500, 530, 400, 6),
    line(460, 740, 30),
]
SECTIONS = [
    quad
    for top in (0, 400, 800)
    for quad in (line(50, 20 + top, 850), *paragraph(50, 80 + top, 400, 9), *paragraph(500, 85 + top, 400, 9))
]
# The wide lines above and below do not make columns of the cells between them.
RECEIPT_WITH_HEAD_AND_FOOT = [line(50, 20, 800), *RECEIPT, line(50, 340, 800)]
LAYOUTS = {
    "one": [line(10, 10, 100)],
    "rows": paragraph(50, 100, 700, 5),
    "two columns": TWO_COLUMNS,
    "headline over three columns": HEADLINE_AND_THREE,
    "receipt": RECEIPT,
    "table": TABLE,
    "paper": PAPER,
    "sections": SECTIONS,
    "receipt with head and foot": RECEIPT_WITH_HEAD_AND_FOOT,
}


def test_nothing_has_an_empty_order() -> None:
    assert reading_order(np.zeros((0, 4, 2))) == [] == rows(np.zeros((0, 4, 2)))


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("degrees", [0, 3, -7, 15, -15, 180])
def test_layout_by_hand(name: str, degrees: float) -> None:
    quads = turned(LAYOUTS[name], degrees)
    shuffled = np.random.default_rng(1).permutation(len(quads))
    found = reading_order(quads[shuffled])
    assert [int(shuffled[i]) for i in found] == list(range(len(quads)))


@pytest.mark.parametrize("degrees", [90, 270])
def test_a_page_on_its_side(degrees: float) -> None:
    quads = turned(paragraph(50, 100, 700, 6), degrees)
    assert reading_order(quads) == list(range(6))


def test_columns_of_vertical_text_go_from_right_to_left() -> None:
    """Text that runs down: its own top left is the column's top right corner."""
    columns = [np.roll(line(left, 50 + 7 * i, 30, 600), -1, axis=0) for i, left in enumerate((500, 400, 300, 200))]
    assert reading_order(np.stack(columns)) == [0, 1, 2, 3]


@pytest.mark.parametrize("degrees", [0, 6])
def test_tiers_of_vertical_text_go_from_top_to_bottom(degrees: float) -> None:
    """As in a Japanese newspaper: the upper tier from right to left, then the lower one."""
    places = [(800 - 50 * i, top + 3 * i) for top in (50, 500) for i in range(6)]
    columns = [np.roll(line(left, top, 30, 400), -1, axis=0) for left, top in places]
    assert reading_order(turned(columns, degrees)) == list(range(12))


def test_cells_of_a_receipt_are_one_row() -> None:
    assert rows(np.stack(RECEIPT)) == [[2 * i, 2 * i + 1] for i in range(6)]


def test_wide_lines_over_a_receipt_keep_its_rows() -> None:
    expected = [[0], *([1 + 2 * i, 2 + 2 * i] for i in range(6)), [13]]
    assert rows(np.stack(RECEIPT_WITH_HEAD_AND_FOOT)) == expected


def test_words_far_apart_in_one_row_are_no_columns() -> None:
    assert rows(np.stack([line(0, 0, 50), line(900, 3, 50)])) == [[0, 1]]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 2000), st.floats(0, 2000), st.floats(2, 900), st.floats(2, 90)), max_size=40))
def test_every_line_comes_once(boxes: list[tuple[float, float, float, float]]) -> None:
    quads = np.stack([line(*box) for box in boxes]) if boxes else np.zeros((0, 4, 2))
    assert sorted(reading_order(quads)) == list(range(len(boxes)))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=8, max_size=8), max_size=12), st.sampled_from([0.0, 1.0, 400.0]))
def test_every_line_comes_once_even_without_extent(corners: list[list[int]], size: float) -> None:
    """Crossed and flat quads, and all at one point, with no angle, length or height to go by."""
    quads = np.array(corners, float).reshape(-1, 4, 2) * size
    assert sorted(reading_order(quads)) == list(range(len(corners)))


def test_two_thousand_lines_in_four_columns() -> None:
    quads = np.stack([line(50 + 500 * c, 30 * r, 400) for c in range(4) for r in range(500)])
    order = reading_order(quads)
    assert order == list(range(2000))  # column after column


@pytest.mark.parametrize("columns", [1, 20, 2000])
def test_two_thousand_cells_in_no_time(columns: int) -> None:
    """Ordering takes about 0.02 s; ten times the 0.2 s that it may take leaves room for a busy machine."""
    quads = np.stack([line(100 * c, 30 * r, 60) for r in range(2000 // columns) for c in range(columns)])
    start = time.perf_counter()
    assert reading_order(quads) == list(range(2000))
    assert time.perf_counter() - start < 2
