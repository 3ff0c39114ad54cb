"""DB boxes and CTC decoding against hand calculations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.ocr.postprocess import boxes_from_map, ctc_decode, order_corners, unclip
from zoo.ocr.settings import DetSettings


def test_a_blank_map_has_no_boxes() -> None:
    boxes = boxes_from_map(np.zeros((64, 96), np.float32), 64, 96, DetSettings())
    assert boxes.quads_xy.shape == (0, 4, 2) and boxes.scores.shape == (0,)


def test_one_rectangle_grows_by_the_unclip_rule() -> None:
    """A rectangle of pixel centres 80 x 20 grows by area * 1.5 / perimeter = 1600 * 1.5 / 200 = 12 each way."""
    probability = np.zeros((160, 320), np.float32)
    probability[50:71, 100:181] = 0.9
    boxes = boxes_from_map(probability, 320, 640, DetSettings())
    expected = 2 * np.array([[88, 38], [192, 38], [192, 82], [88, 82]], np.float32)
    np.testing.assert_allclose(boxes.quads_xy, expected[None], atol=2.5)
    assert boxes.scores[0] == pytest.approx(0.9, abs=1e-6)


def test_box_threshold_drops_a_weak_region() -> None:
    probability = np.zeros((160, 320), np.float32)
    probability[50:71, 100:181] = 0.55
    assert len(boxes_from_map(probability, 160, 320, DetSettings()).scores) == 0
    assert len(boxes_from_map(probability, 160, 320, DetSettings(box_thresh=0.5)).scores) == 1


def test_slow_score_looks_inside_the_contour_only() -> None:
    """An L: the rotated box around it is half empty, the contour is not."""
    probability = np.zeros((200, 200), np.float32)
    probability[40:160, 40:60] = 1
    probability[140:160, 40:160] = 1
    fast = boxes_from_map(probability, 200, 200, DetSettings(box_thresh=0))
    slow = boxes_from_map(probability, 200, 200, DetSettings(box_thresh=0, score_mode="slow"))
    assert slow.scores[0] > 0.95 > fast.scores[0]


def test_dilation_joins_regions_one_pixel_apart() -> None:
    probability = np.zeros((160, 320), np.float32)
    probability[50:71, 100:140] = probability[50:71, 141:181] = 0.9
    assert len(boxes_from_map(probability, 160, 320, DetSettings()).scores) == 2
    assert len(boxes_from_map(probability, 160, 320, DetSettings(use_dilation=True)).scores) == 1


def test_max_candidates_bounds_the_contours() -> None:
    probability = np.zeros((200, 200), np.float32)
    for top in range(10, 190, 20):
        probability[top : top + 10, 20:180] = 0.9
    assert len(boxes_from_map(probability, 200, 200, DetSettings(max_candidates=3)).scores) == 3


@given(st.floats(-44, 44), st.permutations(range(4)))
def test_corner_order_survives_rotation(degrees: float, order: list[int]) -> None:
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    flat = np.array([[-50, -10], [50, -10], [50, 10], [-50, 10]])
    quad = (flat @ turn.T + 200).astype(np.float32)
    np.testing.assert_allclose(order_corners(quad[list(order)]), quad)


def test_unclip_of_a_line_without_area_is_nothing() -> None:
    assert unclip(np.zeros((4, 2), np.float32), 1.5) is None


def probabilities(columns: list[int], classes: int = 4, top: float = 0.7) -> np.ndarray:
    rest = (1 - top) / (classes - 1)
    result = np.full((len(columns), classes), rest, np.float32)
    result[np.arange(len(columns)), columns] = top
    return result


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ([], ""),
        ([0, 0, 0], ""),
        ([1], "a"),
        ([1, 1, 1], "a"),
        ([1, 0, 1], "aa"),
        ([0, 1, 2, 2, 0, 3, 0], "abc"),
        ([1, 2, 1, 2], "abab"),
    ],
)
def test_ctc_removes_repeats_then_blanks(columns: list[int], text: str) -> None:
    decoded = ctc_decode(probabilities(columns), "abc")
    assert decoded.text == text
    assert decoded.score == pytest.approx(0.7 if text else 0)
    assert decoded.columns.shape == (len(text), 2)


def test_ctc_columns_are_the_runs() -> None:
    decoded = ctc_decode(probabilities([0, 1, 1, 0, 2]), "abc")
    assert decoded.columns.tolist() == [[1, 2], [4, 4]]


def test_ctc_score_is_the_mean_of_first_columns() -> None:
    probability = np.array([[0.1, 0.9, 0], [0.2, 0.8, 0], [0.4, 0, 0.6]], np.float32)
    assert ctc_decode(probability, "ab").score == pytest.approx((0.9 + 0.6) / 2)
