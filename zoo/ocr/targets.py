"""What a DB detector is taught: the text's shrunken core, and a ridge along its outline. No torch.

Source: DB (Liao et al. 2020); PaddleOCR ppocr/data/imaug/make_border_map.py and make_shrink_map.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class DetTargets(NamedTuple):
    """The maps of one picture, float32 [H, W] each.

    shrink_map: 1 in the core of a text, else 0. shrink_mask: 0 where a region is not to be learned, else 1.
    threshold_map: from the outline of a text, where it is highest, down to the lowest value at the distance by which
    a text is shrunk. threshold_mask: 1 within that distance outside of a text, and inside of it; else 0.
    """

    shrink_map: np.ndarray
    shrink_mask: np.ndarray
    threshold_map: np.ndarray
    threshold_mask: np.ndarray


def dynamic_shrink_ratio(epoch: int, epochs: int, start: float = 0.4) -> float:
    """The shrink ratio that grows by 0.2 over a training (PP-OCRv4). epoch: counts from 0, out of epochs."""
    if not 0 <= epoch <= epochs or epochs < 1:
        raise ValueError(f"epoch={epoch} of epochs={epochs}: give an epoch from 0 to the number of epochs, 1 or more")
    return start + 0.2 * epoch / epochs


def det_targets(
    polygons_xy: Sequence[np.ndarray],
    ignored: np.ndarray,
    shape: tuple[int, int],
    *,
    shrink_ratio: float = 0.4,
    thresh_min: float = 0.3,
    thresh_max: float = 0.7,
    min_text_size: float = 8,
) -> DetTargets:
    """The maps for a picture of shape (height, width) with text polygons [n, 2] in its pixels.

    ignored: bool, one for each polygon: not learned, as are those lower or narrower than min_text_size pixels. They
    may reach beyond the picture. Raises ValueError where a polygon or the counts are wrong.
    """
    height, width = _checked(polygons_xy, ignored, shape)
    if not 0 < shrink_ratio < 1:
        raise ValueError(f"shrink_ratio={shrink_ratio}: give a number over 0 and below 1")
    # In one piece, which the system hands out in large pages: four fresh ones take 1 to 2 ms more.
    maps = DetTargets(*np.empty((4, height, width), np.float32))
    for values, start in zip(maps, (0, 1, 1, 0), strict=True):
        values.fill(start)  # the threshold map is until the end the distance to the nearest outline
    for polygon, is_ignored in zip(polygons_xy, ignored, strict=True):
        points = np.asarray(polygon, np.float64)
        # The ridge of a text too small for its core is drawn all the same, as in PaddleOCR.
        if not is_ignored:
            _draw_ridge(points, shrink_ratio, maps)
        _draw_core(np.clip(points, 0, [width - 1, height - 1]), bool(is_ignored), shrink_ratio, min_text_size, maps)
    np.multiply(maps.threshold_map, np.float32(thresh_min - thresh_max), out=maps.threshold_map)
    np.add(maps.threshold_map, np.float32(thresh_max), out=maps.threshold_map)
    return maps


def _checked(polygons_xy: Sequence[np.ndarray], ignored: np.ndarray, shape: tuple[int, int]) -> tuple[int, int]:
    height, width = shape
    if height < 1 or width < 1:
        raise ValueError(f"shape={shape}: give (height, width) of at least a pixel")
    if len(polygons_xy) != len(ignored):
        raise ValueError(f"{len(polygons_xy)} polygons and {len(ignored)} values of ignored: give one for each")
    for number, polygon in enumerate(polygons_xy):
        points = np.asarray(polygon)
        if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3:
            raise ValueError(f"polygon {number} has shape {points.shape}; give [n, 2] with 3 points or more")
        if not np.isfinite(points).all():
            raise ValueError(f"polygon {number} has a point that is not finite: {points.tolist()}")
    return height, width


def _area_and_length(points: np.ndarray) -> tuple[float, float]:
    """Area and length of the outline. Plain sums: of a few points they take a tenth of NumPy's time."""
    corners = points.tolist()
    area = length = 0.0
    x0, y0 = corners[-1]
    for x, y in corners:
        area += x0 * y - x * y0
        length += math.hypot(x - x0, y - y0)
        x0, y0 = x, y
    return abs(area) / 2, length


def _offsetter(points: np.ndarray) -> Any:
    """What moves the polygon's outline in or out, with round corners; it works on whole pixels."""
    import pyclipper

    offset = pyclipper.PyclipperOffset()
    offset.AddPath(points.tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    return offset


def _draw_core(points: np.ndarray, is_ignored: bool, ratio: float, min_text_size: float, maps: DetTargets) -> None:
    """Fills the shrunken polygon, or takes it out of the mask where there is none to be learned."""
    import cv2

    area, length = _area_and_length(points)
    is_small = (points.max(axis=0) - points.min(axis=0)).min() < min_text_size
    cores = [] if is_ignored or is_small or area < 1 else _cores(points, area, length, ratio)
    if not cores:
        cv2.fillPoly(maps.shrink_mask, [points.astype(np.int32)], 0)
    for core in cores:
        cv2.fillPoly(maps.shrink_map, [core], 1)


def _cores(points: np.ndarray, area: float, length: float, ratio: float) -> list[np.ndarray]:
    """The shrunken polygon; where it falls into several, or into none, it is shrunk less, in steps of the ratio."""
    offset = _offsetter(points)
    found: list[list[list[int]]] = []
    for step in np.arange(ratio, 1, ratio).tolist():
        found = offset.Execute(-area * (1 - step**2) / length)
        if len(found) == 1:
            break
    return [np.array(core, np.int32) for core in found]


def _draw_ridge(points: np.ndarray, ratio: float, maps: DetTargets) -> None:
    """Lowers the distance map along the outline, 0 on it and 1 at the distance, and fills the grown polygon's mask.

    PaddleOCR measures to an edge's line where a pixel sees the edge under a right angle or more, and to its nearer
    end elsewhere, which is a little more than the distance to the edge. Of all edges the least counts, so the corners
    can be drawn by themselves.
    """
    import cv2

    area, length = _area_and_length(points)
    if area == 0:
        return
    distance = area * (1 - ratio**2) / length
    grown = _offsetter(points).Execute(distance)
    if not grown:  # a sliver without area on the whole pixels of pyclipper; PaddleOCR fails on it
        return
    outline = np.array(grown[0], np.int32)
    cv2.fillPoly(maps.threshold_mask, [outline], 1)
    left, top, width, height = cv2.boundingRect(outline)
    low_x, low_y = max(left, 0), max(top, 0)
    distances = maps.threshold_map[low_y : max(top + height, 0), low_x : max(left + width, 0)]
    points = points - [low_x, low_y]
    _draw_corners(distances, points, distance)
    corners = points.tolist()
    for first, second in zip(corners, corners[1:] + corners[:1], strict=True):
        _draw_edge(distances, first, second, distance)


# What lies beyond the distance is lowered by no corner and no edge, so only the pixels around each are looked at.
# Lengths are divided by the distance before they become float32, and rows meet columns as late as can be: this is
# where the time goes.


def _draw_corners(distances: np.ndarray, points: np.ndarray, distance: float) -> None:
    """Lowers the map to the distance from each corner, in units of `distance`."""
    side = int(2 * distance) + 1
    first = np.ceil(points - distance)
    off = (first[:, :, None] + np.arange(side) - points[:, :, None]) / distance  # [n, 2, side]
    squares = (off * off).astype(np.float32)
    found = np.sqrt(squares[:, 1, :, None] + squares[:, 0, None, :])
    for (left, top), around in zip(first.astype(int).tolist(), found, strict=True):
        x, y = max(left, 0), max(top, 0)
        window = distances[y : max(top + side, 0), x : max(left + side, 0)]
        part = around[y - top : y - top + window.shape[0], x - left : x - left + window.shape[1]]
        np.minimum(window, part, out=window)


def _draw_edge(distances: np.ndarray, first: list[float], second: list[float], distance: float) -> None:
    """Lowers the map to the distance from the edge's line, in units of `distance`, for the pixels between its ends."""
    (x0, y0), (x1, y1) = first, second
    left, right = max(0, math.ceil(min(x0, x1) - distance)), math.floor(max(x0, x1) + distance) + 1
    top, bottom = max(0, math.ceil(min(y0, y1) - distance)), math.floor(max(y0, y1) + distance) + 1
    window = distances[top : max(bottom, 0), left : max(right, 0)]
    length = math.hypot(x1 - x0, y1 - y0) * distance
    if not window.size or not length:
        return
    xs = np.arange(left, left + window.shape[1], dtype=np.float64)
    ys = np.arange(top, top + window.shape[0], dtype=np.float64)[:, None]
    across, down = xs - x0, ys - y0
    # The cosine of the angle under which a pixel sees the edge has the sign of this sum.
    is_beyond = across * (xs - x1) > down * (y1 - ys)
    across *= (y1 - y0) / length
    down *= (x1 - x0) / length
    found = np.abs(across.astype(np.float32) - down.astype(np.float32))
    np.copyto(found, 1, where=is_beyond)
    np.minimum(window, found, out=window)
