"""The maps a detector is taught, against hand calculations and a plain, slow reading of PaddleOCR's rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
import pyclipper
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shapely.geometry import Polygon

from zoo.ocr.targets import DetTargets, det_targets, dynamic_shrink_ratio


def polygon(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points, np.float32)


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return polygon((left, top), (right, top), (right, bottom), (left, bottom))


def of(
    polygons: Sequence[np.ndarray], shape: tuple[int, int], ratio: float = 0.4, ignored: object = None
) -> DetTargets:
    flags = np.zeros(len(polygons), bool) if ignored is None else np.array(ignored, bool)
    return det_targets(polygons, flags, shape, shrink_ratio=ratio)


# --- the slow reading ------------------------------------------------------------------------------------------------


def moved(points: np.ndarray, distance: float) -> list[np.ndarray]:
    offset = pyclipper.PyclipperOffset()
    offset.AddPath([tuple(p) for p in points], pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    return [np.array(part, np.int32) for part in offset.Execute(distance)]


def to_edge(x: float, y: float, a: np.ndarray, b: np.ndarray) -> float:
    """To the line through a and b if the pixel sees them under 90 degrees or more, else to the nearer of them."""
    length = math.dist(a, b)
    squares = [(x - p[0]) ** 2 + (y - p[1]) ** 2 for p in (a, b)]
    if sum(squares) > (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 or length == 0:
        return math.sqrt(min(squares))
    return abs((b[0] - a[0]) * (a[1] - y) - (a[0] - x) * (b[1] - a[1])) / length


def slow(polygons: Sequence[np.ndarray], ignored: Sequence[bool], shape: tuple[int, int], ratio: float) -> DetTargets:
    height, width = shape
    core, core_mask = np.zeros(shape, np.float32), np.ones(shape, np.float32)
    ridge, ridge_mask = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for points, is_ignored in zip((np.asarray(p, np.float64) for p in polygons), ignored, strict=True):
        shape_of = Polygon(points)
        distance = shape_of.area * (1 - ratio**2) / shape_of.length
        # A sliver may have no area left on the whole pixels of the library that moves it: PaddleOCR fails there.
        outlines = moved(points, distance) if not is_ignored and shape_of.area > 0 else []
        for grown in outlines[:1]:
            cv2.fillPoly(ridge_mask, [grown], 1)
            low, high = grown.min(axis=0), grown.max(axis=0)
            for y in range(max(0, low[1]), min(height - 1, high[1]) + 1):
                for x in range(max(0, low[0]), min(width - 1, high[0]) + 1):
                    near = min(to_edge(x, y, points[i - 1], points[i]) for i in range(len(points)))
                    ridge[y, x] = max(ridge[y, x], 1 - min(1, near / distance))
        inside = np.stack([points[:, 0].clip(0, width - 1), points[:, 1].clip(0, height - 1)], axis=1)
        small = min(np.ptp(inside[:, 0]), np.ptp(inside[:, 1])) < 8 or Polygon(inside).area < 1
        parts: list[np.ndarray] = []
        if not is_ignored and not small:
            step = ratio
            while step < 1 - 1e-9:
                parts = moved(inside, -Polygon(inside).area * (1 - step**2) / Polygon(inside).length)
                if len(parts) == 1:
                    break
                step += ratio
        for part in parts:
            cv2.fillPoly(core, [part], 1)
        if not parts:
            cv2.fillPoly(core_mask, [inside.astype(np.int32)], 0)
    return DetTargets(core, core_mask, 0.3 + 0.4 * ridge, ridge_mask)


def assert_same(found: DetTargets, expected: DetTargets) -> None:
    for name, a, b in zip(DetTargets._fields, found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)


CASES = {
    "level": [box(10, 8, 70, 30)],
    "turned": [polygon((20, 10), (70, 28), (64, 45), (14, 27))],
    "triangle": [polygon((10, 10), (80, 20), (30, 50))],
    "counter-clockwise": [box(10, 8, 70, 30)[::-1]],
    "between pixels": [box(10.3, 8.7, 70.2, 30.9)],
    "twelve points": [
        polygon(
            *[(10 + 12 * i, 12 + 6 * math.sin(i)) for i in range(6)],
            *[(70 - 12 * i, 34 + 6 * math.sin(5 - i)) for i in range(6)],
        )
    ],
    "two that overlap": [box(10, 8, 50, 30), box(40, 20, 85, 44)],
    "beyond the picture": [box(-20, -10, 40, 20), box(60, 30, 130, 90)],
    "the whole picture": [box(-5, -5, 100, 70)],
    "falls into two": [
        polygon(
            *[(5, 5), (30, 5), (30, 21), (60, 21), (60, 5), (88, 5)],
            *[(88, 45), (60, 45), (60, 29), (30, 29), (30, 45), (5, 45)],
        )
    ],
    "thin": [box(10, 10, 80, 14)],
    "without area": [polygon((10, 10), (50, 10), (30, 10))],
    "one corner twice": [polygon((10.2, 8), (10.2, 8), (70, 8), (70, 30), (10, 30.5))],
}


@pytest.mark.parametrize("ratio", [0.4, 0.5, 0.6])
@pytest.mark.parametrize("name", CASES)
def test_as_the_slow_reading(name: str, ratio: float) -> None:
    polygons = CASES[name]
    assert_same(of(polygons, (60, 95), ratio), slow(polygons, [False] * len(polygons), (60, 95), ratio))


@settings(max_examples=15, deadline=None)
@example(seed=85, height=1, width=8, count=2)  # a sliver that vanishes on whole pixels
@given(seed=st.integers(0, 10**6), height=st.integers(1, 60), width=st.integers(1, 60), count=st.integers(0, 4))
def test_any_convex_polygons_as_the_slow_reading(seed: int, height: int, width: int, count: int) -> None:
    random = np.random.default_rng(seed)
    polygons = []
    while len(polygons) < count:
        angles = np.sort(random.uniform(0, 2 * np.pi, random.integers(3, 9)))
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * random.uniform(4, 25, 2)
        points = points + random.uniform([0, 0], [width, height])
        if (points.max(axis=0) > 0).all() and (points.min(axis=0) < [width, height]).all():
            polygons.append(points.astype(np.float32))
    ignored = list(random.random(count) < 0.3)
    assert_same(of(polygons, (height, width), 0.45, ignored), slow(polygons, ignored, (height, width), 0.45))


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_no_text() -> None:
    found = of([], (5, 7))
    for values, expected in zip(found, (0, 1, 0.3, 0), strict=True):
        assert values.shape == (5, 7) and values.dtype == np.float32
        np.testing.assert_allclose(values, expected, atol=1e-6)


def test_a_rectangle_by_hand() -> None:
    """100 x 40 pixels: the distance is 4000 * (1 - 0.16) / 280 = 12 pixels."""
    found = of([box(30, 30, 130, 70)], (100, 160))
    core = np.zeros((100, 160), np.float32)
    core[42:59, 42:119] = 1
    np.testing.assert_array_equal(found.shrink_map, core)
    assert found.shrink_mask.all()
    column = found.threshold_map[:, 80]
    for y, value in {17: 0.3, 18: 0.3, 24: 0.5, 27: 0.6, 30: 0.7, 33: 0.6, 42: 0.3, 50: 0.3, 70: 0.7, 76: 0.5}.items():
        assert column[y] == pytest.approx(value, abs=1e-5), y
    assert found.threshold_map[26, 27] == pytest.approx(0.7 - 0.4 * 5 / 12, abs=1e-5)  # 3 and 4 from the corner
    assert found.threshold_mask[18:83, 80].all() and not found.threshold_mask[17, 80]
    assert found.threshold_mask[50, 18] and not found.threshold_mask[50, 17]
    assert not found.threshold_mask[18, 18]  # the grown corner is round


def test_the_ridge_of_two_texts_is_the_higher_one() -> None:
    first, second = box(10, 10, 60, 40), box(40, 30, 90, 60)
    both, one, two = (of(p, (70, 100)).threshold_map for p in ([first, second], [first], [second]))
    np.testing.assert_allclose(both, np.maximum(one, two), atol=1e-6)


def test_an_ignored_text_is_masked_and_has_neither_core_nor_ridge() -> None:
    found = of([box(10, 10, 60, 40)], (60, 80), ignored=[True])
    expected = np.ones((60, 80), np.float32)
    expected[10:41, 10:61] = 0
    np.testing.assert_array_equal(found.shrink_mask, expected)
    assert not found.shrink_map.any() and not found.threshold_mask.any()


def test_a_small_text_is_masked_but_keeps_its_ridge() -> None:
    found = of([box(10, 10, 60, 17)], (60, 80))
    assert not found.shrink_map.any() and not found.shrink_mask[12, 30]
    assert found.threshold_map[10, 30] == pytest.approx(0.7) and found.threshold_mask[12, 30]
    assert of([box(10, 10, 60, 18)], (60, 80)).shrink_map.any()


def test_a_text_that_falls_into_two_is_shrunk_less() -> None:
    """At 0.4 the narrow neck vanishes; at 0.8 the core is one."""
    shape = CASES["falls into two"][0]
    assert cv2.connectedComponents(of([shape], (60, 95)).shrink_map.astype(np.uint8))[0] - 1 == 1
    area, length = Polygon(shape).area, Polygon(shape).length
    assert len(moved(shape, -area * 0.84 / length)) == 2


def test_inputs_stay_as_they_were() -> None:
    text, ignored = box(-10, 5, 40, 30), np.array([False])
    text.flags.writeable = ignored.flags.writeable = False
    det_targets([text], ignored, (40, 40))
    assert text[0, 0] == -10


def test_the_ratio_grows_over_the_training() -> None:
    assert [dynamic_shrink_ratio(epoch, 500) for epoch in (0, 250, 500)] == pytest.approx([0.4, 0.5, 0.6])
    assert dynamic_shrink_ratio(1, 2, start=0.5) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="epoch=501"):
        dynamic_shrink_ratio(501, 500)


@pytest.mark.parametrize(
    ("polygons", "ignored", "shape", "message"),
    [
        ([box(0, 0, 9, 9)], [], (9, 9), "1 polygons and 0"),
        ([polygon((0, 0), (1, 1))], [False], (9, 9), r"polygon 0 has shape \(2, 2\)"),
        ([polygon((0, 0), (1, 1), (float("nan"), 2))], [False], (9, 9), "not finite"),
        ([], [], (0, 9), "at least a pixel"),
    ],
)
def test_what_is_wrong_is_said(
    polygons: list[np.ndarray], ignored: list[bool], shape: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        det_targets(polygons, np.array(ignored, bool), shape)


def test_a_ratio_out_of_range_is_said() -> None:
    with pytest.raises(ValueError, match="shrink_ratio=1"):
        of([], (9, 9), 1.0)
