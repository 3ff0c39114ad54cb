"""From the numbers of a network to boxes and text: DB contours and CTC decoding. The only copy of either."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from zoo.ocr.settings import DetSettings


class Boxes(NamedTuple):
    """quads_xy: float32 [N, 4, 2], corners clockwise from the top left, in pixels of the original picture.

    scores: float32 [N], mean probability inside each.
    """

    quads_xy: np.ndarray
    scores: np.ndarray


def boxes_from_map(probability: np.ndarray, height: int, width: int, settings: DetSettings) -> Boxes:
    """Text boxes from a DB probability map.

    probability: float32 [H, W] in 0..1. height, width: of the original picture; boxes are scaled to it.
    Source: DB (Liao et al. 2020); PaddleOCR ppocr/postprocess/db_postprocess.py and tools/infer/predict_det.py.
    Corners are whole pixels, as there: a crop between pixels would blur small text.
    """
    import cv2

    mask: np.ndarray = (probability > settings.thresh).view(np.uint8)
    if settings.use_dilation:
        mask = cv2.dilate(mask, np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scale = np.array([width / probability.shape[1], height / probability.shape[0]], np.float32)
    bound = np.array([width, height], np.float32)
    quads, scores = [], []
    for contour in contours[: settings.max_candidates]:
        found = _box_from_contour(probability, contour, settings)
        if found is None:
            continue
        quad, score = found
        quad = np.clip(np.round(quad * scale), 0, bound)
        if min(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[0] - quad[3])) <= 3:
            continue
        quads.append(quad)
        scores.append(score)
    if not quads:
        return Boxes(np.zeros((0, 4, 2), np.float32), np.zeros(0, np.float32))
    return Boxes(np.stack(quads).astype(np.float32), np.array(scores, np.float32))


def _box_from_contour(
    probability: np.ndarray, contour: np.ndarray, settings: DetSettings
) -> tuple[np.ndarray, float] | None:
    quad, short = _min_area_quad(contour)
    if short < settings.min_size:
        return None
    score = _mean_inside(probability, quad if settings.score_mode == "fast" else contour.reshape(-1, 2))
    if score < settings.box_thresh:
        return None
    grown = unclip(quad, settings.unclip_ratio)
    if grown is None:
        return None
    quad, short = _min_area_quad(grown)
    if short < settings.min_size + 2:
        return None
    return quad, score


def _min_area_quad(points: np.ndarray) -> tuple[np.ndarray, float]:
    import cv2

    rectangle = cv2.minAreaRect(points)
    return order_corners(cv2.boxPoints(rectangle)), min(rectangle[1])


def order_corners(quad: np.ndarray) -> np.ndarray:
    """Corners [4, 2] clockwise from the top left, right for a box turned by any angle up to 45 degrees each way.

    Clockwise by angle around the centre, starting at the corner whose edge to the next one points most to the right:
    sums and differences of x and y, the usual way, name one corner twice when a box is turned by 45 degrees.
    """
    centre = quad.mean(axis=0)
    angles = np.arctan2(quad[:, 1] - centre[1], quad[:, 0] - centre[0])
    clockwise = quad[np.argsort(angles, kind="stable")]
    edges = np.roll(clockwise, -1, axis=0) - clockwise
    lengths = np.maximum(np.hypot(edges[:, 0], edges[:, 1]), 1e-6)
    start = int(np.argmax(edges[:, 0] / lengths))
    return np.roll(clockwise, -start, axis=0).astype(np.float32)


def _mean_inside(probability: np.ndarray, polygon: np.ndarray) -> float:
    import cv2

    height, width = probability.shape
    low = np.clip(np.floor(polygon.min(axis=0)).astype(int), 0, [width - 1, height - 1])
    high = np.clip(np.ceil(polygon.max(axis=0)).astype(int), 0, [width - 1, height - 1])
    mask = np.zeros((high[1] - low[1] + 1, high[0] - low[0] + 1), np.uint8)
    cv2.fillPoly(mask, [(polygon - low).astype(np.int32)], 1)
    window = probability[low[1] : high[1] + 1, low[0] : high[0] + 1]
    return float(cv2.mean(window, mask)[0])


def unclip(polygon: np.ndarray, ratio: float) -> np.ndarray | None:
    """The polygon grown outwards by area * ratio / perimeter, with round corners; None if nothing is left of it."""
    import cv2
    import pyclipper

    perimeter = cv2.arcLength(polygon, True)
    if perimeter == 0:
        return None
    distance = cv2.contourArea(polygon) * ratio / perimeter
    offset = pyclipper.PyclipperOffset()
    offset.AddPath(polygon.tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    grown = offset.Execute(distance)
    if len(grown) != 1:
        return None
    return np.array(grown[0], np.float32)


class Text(NamedTuple):
    """text, its mean confidence, and for each character the first and last column of the network's output."""

    text: str
    score: float
    columns: np.ndarray  # int [len(characters), 2], first and last column, inclusive
    characters: tuple[str, ...]
    scores: np.ndarray  # float32 [len(characters)]


class Columns(NamedTuple):
    """What decoding needs of the probabilities of one line's T columns; a hundredth of all the classes' memory.

    best: int [T], the most probable class. score, blank, last: float32 [T], the probability of that class, of class 0
    and of the last class, which is the space in a charset that has one.
    """

    best: np.ndarray
    score: np.ndarray
    blank: np.ndarray
    last: np.ndarray

    def part(self, start: int, stop: int) -> Columns:
        """The columns from start up to stop, which both count from 0."""
        return Columns(*(values[start:stop] for values in self))


def columns_of(probabilities: np.ndarray) -> list[Columns]:
    """One `Columns` for each line of a batch, float32 [N, T, classes]; nothing of the batch's memory is kept."""
    best = probabilities.argmax(axis=2)
    score = np.take_along_axis(probabilities, best[..., None], axis=2)[..., 0]
    blank, last = probabilities[..., 0].copy(), probabilities[..., -1].copy()
    return [Columns(*line) for line in zip(best, score, blank, last, strict=True)]


def ctc_decode(probability: np.ndarray, charset: Sequence[str]) -> Text:
    """Greedy CTC decoding. probability: float32 [T, classes], class 0 the blank, class i the character i - 1."""
    return decode_columns(columns_of(probability[None])[0], charset)


def decode_columns(columns: Columns, charset: Sequence[str]) -> Text:
    """Greedy CTC decoding.

    The score is the mean of the kept characters' probabilities, each taken at the first column of its run, as
    PaddleOCR's CTCLabelDecode takes it; an empty text scores 0.
    """
    best = columns.best
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    ends = np.append(starts[1:], len(best)) - 1
    kept = best[starts] != 0
    starts, ends = starts[kept], ends[kept]
    if not len(starts):
        return Text("", 0.0, np.zeros((0, 2), np.int64), (), np.zeros(0, np.float32))
    characters = tuple(charset[index - 1] for index in best[starts])
    scores = columns.score[starts]
    return Text("".join(characters), float(scores.mean()), np.stack([starts, ends], axis=1), characters, scores)


# A gap between words is at least so many times the line's median step from character to character; one that is
# plainly wide needs a third of the evidence.
WIDER, PLAINLY_WIDER = 1.2, 1.4


def restore_spaces(text: Text, space: np.ndarray, thresh: float) -> Text:
    """The text with the spaces that the network saw but the blank outvoted, which greedy decoding loses.

    space: float32 [T], the probability of the space in each column. One is put between two characters of a script
    written with spaces where the gap is wide and that is over thresh in it. The line's score stays as it was.
    Not in PaddleOCR; measured by benchmarks/ocr_reading.py.
    """
    centres = text.columns.mean(axis=1) if len(text.columns) else np.zeros(0)
    if len(centres) < 3:
        return text
    steps = np.diff(centres)
    typical = float(np.median(steps))
    insert: list[tuple[int, int]] = []  # before which character, and in which column
    for i in np.flatnonzero(steps >= WIDER * typical):
        first, last = text.columns[i][1] + 1, text.columns[i + 1][0]
        if first < last and is_spaced(text.characters[i]) and is_spaced(text.characters[i + 1]):
            column = first + int(space[first:last].argmax())
            if space[column] > (thresh if steps[i] < PLAINLY_WIDER * typical else thresh / 3):
                insert.append((int(i) + 1, column))
    if not insert:
        return text
    places, at = [i for i, _ in insert], np.array([column for _, column in insert])
    characters = tuple(np.insert(np.array(text.characters, object), places, " "))
    columns = np.insert(text.columns, places, np.stack([at, at], axis=1), axis=0)
    return Text("".join(characters), text.score, columns, characters, np.insert(text.scores, places, space[at]))


WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "FULLWIDTH", "THAI", "LAO", "KHMER", "MYANMAR")
WORD_SIGNS = frozenset(".-'’_@:/,!?;%&()$¥#+*")  # signs that stand in or beside words


@cache
def is_spaced(character: str) -> bool:
    """Whether the character belongs to a script, or is a sign, that words between spaces are made of."""
    if character in WORD_SIGNS:
        return True
    if unicodedata.category(character)[0] not in "LNM":
        return False
    return not unicodedata.name(character, "").startswith(WITHOUT_SPACES)
