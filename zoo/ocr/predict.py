"""The three networks of the pipeline as callables: pictures in, boxes, directions and texts out. No torch.

Each holds a runtime session, the settings and nothing else, so one object may be shared by threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zoo import images
from zoo.ocr.postprocess import Boxes, Columns, Text, boxes_from_map, columns_of, decode_columns, restore_spaces
from zoo.ocr.settings import ClsSettings, DetSettings, RecSettings
from zoo.runtime import Session

LINE_HEIGHT = 48  # of the recognition and direction networks, in pixels
LINE_STRIDE = 8  # pixels of the line in one column of the recognition network's output
WIDTH_STEP = 64  # pixels; widths in steps, so that more lines share one, and the engine meets fewer sizes
LINE_MEAN = LINE_STD = (0.5, 0.5, 0.5)
TILE_MARGIN = 128  # pixels of a tile, at each inner edge, that only give context to the rest
SMEAR = 16  # line heights of a line that the direction classifier looks at; PaddleOCR squeezes all of it
OVERLAP = 6  # line heights that neighbouring windows of a long line share
THIN = 64  # pixels of the resized picture's shorter side below which it is given room around
SINGLE_PASS = 4  # tiles' worth of pixels that still go through the network in one piece


def resized_shape(height: int, width: int, settings: DetSettings) -> tuple[int, int, bool]:
    """Height and width that the detector sees, multiples of 32, and whether the tile rule raised them.

    Source of the rule: PaddleOCR ppocr/data/imaug/operators.py, DetResizeForTest type 0; max_side: PaddleOCR 3.x.
    """
    ratio = 1.0
    if settings.limit_type == "max" and max(height, width) > settings.limit_side:
        ratio = settings.limit_side / max(height, width)
    elif settings.limit_type == "min" and min(height, width) < settings.limit_side:
        ratio = settings.limit_side / min(height, width)
    if max(height, width) * ratio > settings.max_side:
        ratio = settings.max_side / max(height, width)
    # A large page keeps its small text, and a strip keeps its height.
    least = max(settings.tile_scale, min(1.0, THIN / min(height, width))) if settings.tile else 0.0
    raised = ratio < least
    ratio = max(ratio, least)
    return _multiple_of_32(height * ratio), _multiple_of_32(width * ratio), raised


def _multiple_of_32(side: float) -> int:
    return max(round(int(side) / 32) * 32, 32)


@dataclass(frozen=True)
class Detector:
    """Finds the text lines of a picture (DB)."""

    session: Session
    settings: DetSettings
    fixed_side: int = 0  # of a graph that takes squares of one size only; 0: any size

    def __call__(self, image: np.ndarray) -> Boxes:
        """image: uint8 [H, W, 3] BGR. Boxes are in its pixels, in no particular order."""
        room = self._room(*image.shape[:2])
        if not room:
            return self._boxes(image)
        boxes = self._boxes(images.pad_edges(image, room))
        limit = np.array([image.shape[1], image.shape[0]], np.float32)
        return Boxes(np.clip(boxes.quads_xy - room, 0, limit), boxes.scores)

    def _room(self, height: int, width: int) -> int:
        """Pixels to add around a strip so thin that its text would fill the network's whole field from edge to edge.

        PaddleOCR pads only pictures whose sides add up to less than 64 pixels, and loses lines cut out tightly.
        """
        tall, wide, _ = resized_shape(height, width, self.settings)
        if min(tall, wide) >= THIN:
            return 0
        return max(16, (2 * THIN - min(height, width)) // 4)

    def _boxes(self, image: np.ndarray) -> Boxes:
        height, width = image.shape[:2]
        tall, wide, raised = resized_shape(height, width, self.settings)
        boxes = boxes_from_map(self.probability(image, tall, wide), height, width, self.settings)
        return self._with_large_text(image, boxes) if raised else boxes

    def probability(self, image: np.ndarray, tall: int, wide: int) -> np.ndarray:
        """float32 [tall, wide]: how likely each pixel of the picture, resized to that, is text."""
        resized = images.resize(image, (tall, wide))
        side = self.fixed_side or self.settings.tile_side
        whole = max(tall, wide) <= side if self.fixed_side else tall * wide <= SINGLE_PASS * side * side
        if whole or not (self.settings.tile or self.fixed_side):
            return self._run(resized)
        result = np.zeros((tall, wide), np.float32)
        for top, bottom, inner_top, inner_bottom in _spans(tall, side):
            for left, right, inner_left, inner_right in _spans(wide, side):
                tile = self._run(np.ascontiguousarray(resized[top:bottom, left:right]))
                result[inner_top:inner_bottom, inner_left:inner_right] = tile[
                    inner_top - top : inner_bottom - top, inner_left - left : inner_right - left
                ]
        return result

    def _run(self, resized: np.ndarray) -> np.ndarray:
        x = images.normalise(resized, self.settings.mean, self.settings.std, scale=1 / 255)
        if not self.fixed_side:
            return self.session(x)[0, 0]
        square = np.zeros((1, 3, self.fixed_side, self.fixed_side), np.float32)
        square[..., : x.shape[2], : x.shape[3]] = x
        return self.session(square)[0, 0, : x.shape[2], : x.shape[3]]

    def _with_large_text(self, image: np.ndarray, fine: Boxes) -> Boxes:
        """Adds letters too large for a tile, found at the published scale, in place of the pieces inside them."""
        height, width = image.shape[:2]
        ratio = min(self.settings.limit_side / max(height, width), 1.0)
        tall, wide = _multiple_of_32(height * ratio), _multiple_of_32(width * ratio)
        coarse = boxes_from_map(self.probability(image, tall, wide), height, width, self.settings)
        shortest = self.settings.tile_side / self.settings.tile_scale / 4
        large = np.array([min(_sides(quad)) > shortest for quad in coarse.quads_xy], bool)
        if not large.any():
            return fine
        quads, scores = coarse.quads_xy[large], coarse.scores[large]
        centres = fine.quads_xy.mean(axis=1)
        inside = np.zeros(len(centres), bool)
        for quad in quads:
            inside |= _contains(quad, centres)
        return Boxes(np.concatenate([fine.quads_xy[~inside], quads]), np.concatenate([fine.scores[~inside], scores]))


def _spans(length: int, side: int) -> list[tuple[int, int, int, int]]:
    """Start and end of each tile along one axis, and of the part of it that is kept; the kept parts cover the axis."""
    if length <= side:
        return [(0, length, 0, length)]
    count = -(-(length - 2 * TILE_MARGIN) // (side - 2 * TILE_MARGIN))
    starts = [round(i * (length - side) / (count - 1) / 32) * 32 for i in range(count)] if count > 1 else [0]
    starts[-1] = length - side
    cuts = [0, *[(a + side + b) // 2 for a, b in pairwise(starts)], length]
    return [(s, s + side, cuts[i], cuts[i + 1]) for i, s in enumerate(starts)]


def _sides(quad: np.ndarray) -> tuple[float, float]:
    """Width and height of a quad [4, 2], each the longer of its two opposite edges, as the crop measures them."""
    width = max(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[2] - quad[3]))
    height = max(np.linalg.norm(quad[0] - quad[3]), np.linalg.norm(quad[1] - quad[2]))
    return float(width), float(height)


def _contains(quad: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which of the points [N, 2] lie inside the convex clockwise quad."""
    edges = np.roll(quad, -1, axis=0) - quad
    offsets = points[:, None] - quad[None]
    return (edges[None, :, 0] * offsets[..., 1] - edges[None, :, 1] * offsets[..., 0] >= 0).all(axis=1)


def line_tensor(crop: np.ndarray, width: int, height: int = LINE_HEIGHT) -> np.ndarray:
    """float32 [1, 3, height, width] in -1..1: the crop at that height, its ratio kept, zeros to its right.

    A crop that is longer is squeezed into the width.
    """
    fitted = min(width, max(1, int(np.ceil(height * crop.shape[1] / crop.shape[0]))))
    x = images.normalise(images.resize(crop, (height, fitted)), LINE_MEAN, LINE_STD, scale=1 / 255)
    if fitted == width:
        return x
    padded = np.zeros((1, 3, height, width), np.float32)
    padded[..., :fitted] = x
    return padded


def _start(crop: np.ndarray) -> np.ndarray:
    """The start of a line so long that, squeezed whole into the classifier's width, it would be a smear."""
    return crop[:, : SMEAR * crop.shape[0]]


@dataclass(frozen=True)
class DirectionClassifier:
    """Tells which lines stand on their head."""

    session: Session
    settings: ClsSettings

    WIDTH = 192

    def __call__(self, crops: Sequence[np.ndarray]) -> list[bool]:
        """For each crop, uint8 [h, w, 3] BGR, whether it is to be turned by 180 degrees."""
        asked = [i for i, crop in enumerate(crops) if crop.shape[1] >= self.settings.min_ratio * crop.shape[0]]
        size = self.settings.batch
        batches = [asked[i : i + size] for i in range(0, len(asked), size)]
        tensors = (np.concatenate([line_tensor(_start(crops[i]), self.WIDTH) for i in batch]) for batch in batches)
        turned = [False] * len(crops)
        for batch, scores in zip(batches, self.session.map(tensors), strict=True):
            for index, score in zip(batch, scores, strict=True):
                turned[index] = bool(score[1] > self.settings.thresh and score[1] > score[0])
        return turned


@dataclass(frozen=True)
class Line:
    """A line as read from its crop: the text, and how wide one column of the network's output is in crop pixels."""

    text: Text
    column_width: float


def join_windows(parts: Sequence[Columns], starts: Sequence[int]) -> Columns:
    """The outputs of overlapping windows of a line as one.

    starts: the column of the whole line at which each window begins. The cut lies where both windows see a blank most
    surely, so that no character is halved or read twice.
    """
    kept = []
    begin = 0
    for index, part in enumerate(parts):
        cut = starts[index] + len(part.best)
        if index + 1 < len(parts):
            low, high = max(starts[index + 1], begin), cut
            here = part.blank[low - starts[index] : high - starts[index]]
            there = parts[index + 1].blank[low - starts[index + 1] : high - starts[index + 1]]
            # The outer columns of a window see too little of their surroundings.
            edge = (high - low) // 4
            # Columns of two windows differ by up to one, so blanks count together with their neighbours.
            blank = np.convolve(np.minimum(here, there), np.ones(5), mode="same")
            cut = low + edge + int(blank[edge : len(blank) - edge].argmax())
        kept.append(part.part(begin - starts[index], cut - starts[index]))
        begin = cut
    return Columns(*(np.concatenate(values) for values in zip(*kept, strict=True)))


@dataclass(frozen=True)
class Recogniser:
    """Reads line crops (CTC)."""

    session: Session
    charset: tuple[str, ...]
    settings: RecSettings

    def __call__(self, crops: Sequence[np.ndarray]) -> list[Line]:
        """One line for each crop, uint8 [h, w, 3] BGR. What is read does not depend on the other crops."""
        pieces = [(i, piece) for i, crop in enumerate(crops) for piece in self._pieces(crop)]
        groups: dict[int, list[int]] = defaultdict(list)
        for index, (_, piece) in enumerate(pieces):
            groups[self._width(piece)].append(index)
        widest_first = sorted(groups.items(), reverse=True)
        batches = [(width, part) for width, group in widest_first for part in self._batches(group, width)]
        tensors = (np.concatenate([line_tensor(pieces[i][1], width) for i in batch]) for width, batch in batches)
        read: dict[int, Columns] = {}
        for (_, batch), lines in zip(batches, self.session.map(tensors, keep=columns_of), strict=True):
            read |= zip(batch, lines, strict=True)
        return self._lines(crops, [i for i, _ in pieces], [read[i] for i in range(len(pieces))])

    def _batches(self, group: list[int], width: int) -> list[list[int]]:
        """Lines of one width in batches; of wide lines fewer, for the same memory."""
        size = max(1, self.settings.batch * self.settings.min_width // width)
        return [group[i : i + size] for i in range(0, len(group), size)]

    def _width(self, crop: np.ndarray) -> int:
        wanted = self.settings.margin * LINE_HEIGHT * crop.shape[1] / crop.shape[0]
        return max(self.settings.min_width, -(-int(np.ceil(wanted)) // WIDTH_STEP) * WIDTH_STEP)

    def _pieces(self, crop: np.ndarray) -> list[np.ndarray]:
        """The crop itself or, where it is longer than max_ratio, overlapping windows of it."""
        height, width = crop.shape[:2]
        if width <= self.settings.max_ratio * height:
            return [crop]
        return [crop[:, left:right] for left, right in self._windows(height, width)]

    def _windows(self, height: int, width: int) -> list[tuple[int, int]]:
        """Start and end of each window along a long line, in crop pixels; neighbours share OVERLAP line heights."""
        side = int(self.settings.max_ratio / 2 * height)
        overlap = min(OVERLAP * height, side // 2)
        count = -(-(width - overlap) // (side - overlap))
        return [(start, start + side) for start in (round(i * (width - side) / (count - 1)) for i in range(count))]

    def _lines(self, crops: Sequence[np.ndarray], owners: list[int], read: list[Columns]) -> list[Line]:
        by_crop: dict[int, list[Columns]] = defaultdict(list)
        for owner, columns in zip(owners, read, strict=True):
            by_crop[owner].append(columns)
        lines = []
        for index, crop in enumerate(crops):
            column = LINE_STRIDE * crop.shape[0] / LINE_HEIGHT
            columns, *others = by_crop[index]
            if others:
                spans = [
                    (round(left / column), round((end - left) / column)) for left, end in self._windows(*crop.shape[:2])
                ]
                # What follows a window's own columns is padding.
                own = [part.part(0, count) for part, (_, count) in zip(by_crop[index], spans, strict=True)]
                columns = join_windows(own, [start for start, _ in spans])
            lines.append(Line(self._text(columns), column))
        return lines

    def _text(self, columns: Columns) -> Text:
        text = decode_columns(columns, self.charset)
        if self.settings.space_thresh >= 1 or self.charset[-1] != " ":
            return text
        return restore_spaces(text, columns.last, self.settings.space_thresh)
