"""Pages with a region painted in one colour, so that a test can see whether the region's polygon still lies over it."""

from __future__ import annotations

import cv2
import numpy as np

from zoo.ocr.samples import PageSample

COLOURS = ((40, 40, 230), (40, 220, 40), (230, 60, 40), (30, 220, 230), (230, 40, 220))
GROUND = 110


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def painted(height: int, width: int, polygons: list[np.ndarray], ignored: list[bool] | None = None) -> PageSample:
    """A grey page, region i in COLOURS[i]. It cannot be written to: what tries to change its input fails."""
    image = np.full((height, width, 3), GROUND, np.uint8)
    for polygon, colour in zip(polygons, COLOURS, strict=False):
        # To sixteenths of a pixel; OpenCV counts from the middles of pixels.
        points = np.rint((polygon - 0.5) * 16).astype(np.int32)
        cv2.fillPoly(image, [points], colour, cv2.LINE_8, shift=4)
    image.flags.writeable = False
    for polygon in polygons:
        polygon.flags.writeable = False
    flags = np.zeros(len(polygons), bool) if ignored is None else np.array(ignored, bool)
    flags.flags.writeable = False
    return PageSample(image, tuple(polygons), tuple(f"text {i}" for i in range(len(polygons))), flags, "page")


def assert_over_its_colour(sample: PageSample, room: int = 3, tolerance: int = 45) -> int:
    """Each polygon covers its colour and all of it, but for `room` pixels; how many polygons were large enough to say.

    The region's number is at the end of its text.
    """
    seen = 0
    for polygon, text in zip(sample.polygons_xy, sample.texts, strict=True):
        colour = np.array(COLOURS[int(text.split()[-1])])
        inside = np.zeros(sample.image.shape[:2], np.uint8)
        cv2.fillPoly(inside, [np.rint(polygon - 0.5).astype(np.int32)], 1)
        away = np.abs(sample.image.astype(int) - colour).max(axis=2)
        kernel = np.ones((2 * room + 1, 2 * room + 1), np.uint8)
        core = cv2.erode(inside, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0) == 1
        assert (away[core] <= tolerance).all(), f"{text}: {polygon.tolist()} covers another colour"
        around = cv2.dilate(inside, kernel) == 1
        assert not (away[~around] <= tolerance).any(), f"{text}: its colour lies outside of {polygon.tolist()}"
        seen += bool(core.any())
    return seen


def same(first: PageSample, second: PageSample) -> bool:
    return (
        np.array_equal(first.image, second.image)
        and first.texts == second.texts
        and np.array_equal(first.ignored, second.ignored)
        and all(np.array_equal(a, b) for a, b in zip(first.polygons_xy, second.polygons_xy, strict=True))
    )
