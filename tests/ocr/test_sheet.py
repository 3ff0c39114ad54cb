"""Contact sheets."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.ocr.samples import LineSample, PageSample
from zoo.ocr.sheet import IGNORED, KEPT, Tile, contact_sheet, line_tile, page_tile


def page(*quads: np.ndarray, ignored: bool = False) -> PageSample:
    image = np.full((100, 200, 3), 255, np.uint8)
    return PageSample(image, quads, ("",) * len(quads), np.full(len(quads), ignored), "x:1")


QUAD = np.array([[20, 30], [180, 30], [180, 70], [20, 70]], np.float32)


def is_colour(image: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return (np.abs(image.astype(int) - colour) < 30).all(axis=-1)


def test_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        contact_sheet([], 4)


def test_a_page_without_regions() -> None:
    tile = page_tile(page(), 100)
    assert tile.image.shape == (50, 100, 3) and (tile.image == 255).all() and tile.caption == "x:1: 0 + 0 ignored"


def test_kept_regions_are_outlined_and_ignored_ones_dashed() -> None:
    kept, ignored = page_tile(page(QUAD), 200), page_tile(page(QUAD, ignored=True), 200)
    assert is_colour(kept.image[30, 22:179], KEPT).all()
    dashes = is_colour(ignored.image[30, 20:181], IGNORED)
    assert 0.3 < dashes.mean() < 0.8
    assert ignored.caption == "x:1: 0 + 1 ignored"


def test_regions_shrink_with_the_picture_and_the_sample_is_left_alone() -> None:
    sample = page(QUAD)
    tile = page_tile(sample, 100)
    assert is_colour(tile.image[15, 12:88], KEPT).all()
    assert (sample.image == 255).all()


@pytest.mark.parametrize(("size", "wanted"), [((48, 100), (24, 50)), ((48, 2000), (7, 300)), ((1, 1), (24, 24))])
def test_a_line_fits_its_cell(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    tile = line_tile(LineSample(np.zeros((*size, 3), np.uint8), "text", "x:1"), 300, 24)
    assert tile.image.shape[:2] == wanted and tile.caption == "text"


def test_tiles_stand_in_rows_with_captions_under_them() -> None:
    black = np.zeros((40, 150, 3), np.uint8)
    sheet = contact_sheet([Tile(black, "one"), Tile(black, ""), Tile(black, "\x00\n")], 2)
    assert (sheet == 0).all(axis=-1).sum() == 3 * 40 * 150
    under = sheet[6 + 40 : 6 + 40 + 18]
    assert under[:, 6:156].min() < 120  # "one" is written
    assert under[:, 6 + 156 :].min() > 200  # nothing under the second
