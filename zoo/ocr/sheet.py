"""A contact sheet: many labelled samples in one picture, so that a person can see what is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from zoo import images
from zoo.ocr import fonts
from zoo.ocr.samples import LineSample, PageSample

KEPT, IGNORED, INK, GROUND = (40, 160, 30), (130, 130, 130), (20, 20, 20), (245, 245, 245)  # BGR
CAPTION = 14  # pixels: the font of captions under tiles
NOTE = 11  # and of texts at their regions
DASH = 5.0  # pixels of a dash, and of the gap after it
MARGIN = 6


class Tile(NamedTuple):
    """A picture of the sheet, uint8 [h, w, 3], and what stands under it."""

    image: np.ndarray
    caption: str


def page_tile(sample: PageSample, side: int, caption: str | None = None) -> Tile:
    """The page with its longer side shrunk to `side` pixels, its regions outlined and their texts above them.

    Ignored regions are grey and dashed. The caption is the file's name with the counts unless one is given.
    """
    height, width = sample.image.shape[:2]
    scale = min(1.0, side / max(height, width))
    image = images.resize(sample.image, (max(1, round(height * scale)), max(1, round(width * scale)))).copy()
    notes = []
    for polygon, text, ignored in zip(sample.polygons_xy, sample.texts, sample.ignored, strict=True):
        points = polygon.astype(float) * scale
        _outline(image, points, bool(ignored))
        notes.append((float(points[:, 0].min()), float(points[:, 1].min()) - NOTE - 1, text, bool(ignored)))
    _write_notes(image, notes)
    kept = int((~sample.ignored).sum())
    return Tile(
        image,
        f"{PurePath(sample.name).name}: {kept} + {len(sample.texts) - kept} ignored" if caption is None else caption,
    )


def line_tile(sample: LineSample, width: int, height: int, caption: str | None = None) -> Tile:
    """The line at `height` pixels, or less where it would be wider than `width`; its text under it."""
    scale = min(height / sample.image.shape[0], width / sample.image.shape[1])
    size = [max(1, round(side * scale)) for side in sample.image.shape[:2]]
    return Tile(images.resize(sample.image, (size[0], size[1])), sample.text if caption is None else caption)


def contact_sheet(tiles: Sequence[Tile], columns: int) -> np.ndarray:
    """uint8 [H, W, 3]: the tiles in rows of `columns`, each with its caption under it, cut to the tile's cell.

    Raises ValueError where there is no tile.
    """
    if not tiles:
        raise ValueError("a contact sheet of no samples; the labels have none that can be shown")
    columns = max(1, min(columns, len(tiles)))
    width = max(120, *(tile.image.shape[1] for tile in tiles)) + MARGIN
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    heights = [max(tile.image.shape[0] for tile in row) + CAPTION + 2 * MARGIN for row in rows]
    sheet = np.full((sum(heights) + MARGIN, columns * width + MARGIN, 3), GROUND, np.uint8)
    top = MARGIN
    for row, height in zip(rows, heights, strict=True):
        for number, tile in enumerate(row):
            left = MARGIN + number * width
            sheet[top : top + tile.image.shape[0], left : left + tile.image.shape[1]] = tile.image
            strip = sheet[top + tile.image.shape[0] : top + tile.image.shape[0] + CAPTION + 6, left : left + width - 2]
            _write(strip, [(0.0, 1.0, tile.caption, INK)], CAPTION)
        top += height
    return sheet


def _outline(image: np.ndarray, points: np.ndarray, ignored: bool) -> None:
    """A polygon [n, 2], closed, in place: dashed where it is ignored."""
    import cv2

    if not ignored:
        cv2.polylines(image, [np.rint(points).astype(np.int32)], True, KEPT, 1, cv2.LINE_AA)
        return
    for start, end in zip(points, np.roll(points, -1, axis=0), strict=True):
        length = max(float(np.linalg.norm(end - start)), 1e-6)
        for at in np.arange(0, min(length, 1e5), 2 * DASH):
            first, last = (start + (end - start) * min(1.0, a / length) for a in (at, at + DASH))
            ends = [tuple(int(v) for v in np.rint(point)) for point in (first, last)]
            cv2.line(image, ends[0], ends[1], IGNORED, 1, cv2.LINE_AA)


def _write_notes(image: np.ndarray, notes: Sequence[tuple[float, float, str, bool]]) -> None:
    _write(image, [(x, y, text, IGNORED if grey else KEPT) for x, y, text, grey in notes], NOTE)


def _write(image: np.ndarray, texts: Sequence[tuple[float, float, str, tuple[int, int, int]]], size: int) -> None:
    """Texts (left, top, text, BGR) of one size, into the picture, in place; what lies outside is cut off."""
    from PIL import Image, ImageDraw

    if not texts or not image.size:
        return
    picture = Image.fromarray(np.ascontiguousarray(image[..., ::-1]))
    pen = ImageDraw.Draw(picture)
    for left, top, text, colour in texts:
        shown = "".join(c if c.isprintable() else " " for c in text)[:200]
        font = fonts.font_for(shown, size)
        pen.text((max(left, 0), max(top, 0)), shown, font=font, fill=colour[::-1])
    image[:] = np.asarray(picture)[..., ::-1]
