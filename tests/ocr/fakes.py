"""A reader whose networks are rules a reader of the tests can follow, so that the pipeline is tested without weights.

Detection: a pixel is text where the picture is white. Recognition: the mean red, green or blue of each column of the
line names its character. Direction: a line is on its head if its left end is darker than its right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from zoo.ocr.pipeline import Reader
from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
from zoo.ocr.settings import ReaderSettings

CHARSET = ("r", "g", "b", " ")


class Rule:
    """A session that applies a function to each input and counts its runs."""

    engine = "rule"

    def __init__(self, function) -> None:
        self.function = function
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.shapes.append(x.shape)
        return self.function(x)

    def map(self, inputs: Iterable[np.ndarray], keep: Callable[[np.ndarray], Any] = np.array) -> list[Any]:
        return [keep(self(x)) for x in inputs]


def brightness(x: np.ndarray) -> np.ndarray:
    """[N, 3, H, W] normalised to [N, 1, H, W] of 0.95 where the brightest channel is light, else 0."""
    return np.where(x.max(axis=1, keepdims=True) > -0.5, np.float32(0.95), np.float32(0))


def colours(x: np.ndarray) -> np.ndarray:
    """[N, 3, 48, W] BGR in -1..1 to [N, W / 8, 5]: blank where dark, else the strongest colour."""
    columns = x.mean(axis=2).reshape(len(x), 3, -1, 8).mean(axis=3)  # [N, 3, T]
    strongest = columns.argmax(axis=1)
    seen = columns.max(axis=1) - columns.min(axis=1) > 0.4
    classes = np.where(seen, 3 - strongest, 0)  # b=2 -> 1 (r), g -> 2, b -> 3
    result = np.full((*classes.shape, 5), 0.01, np.float32)
    np.put_along_axis(result, classes[..., None], 0.96, axis=2)
    return result


def head_down(x: np.ndarray) -> np.ndarray:
    """[N, 3, 48, 192] to [N, 2]: turned if the first quarter of the line is blue."""
    first = x[..., :24].mean(axis=(2, 3))
    turned = (first[:, 0] > first[:, 1]) & (first[:, 0] > first[:, 2])
    return np.where(turned[:, None], np.float32([0.02, 0.98]), np.float32([0.98, 0.02]))


def reader(settings: ReaderSettings | None = None) -> Reader:
    """A reader of coloured bars: red, green, blue from left to right reads "rgb"."""
    chosen = settings or ReaderSettings()
    return Reader(
        name="rules",
        detector=Detector(Rule(brightness), chosen.det),
        classifier=DirectionClassifier(Rule(head_down), chosen.cls) if chosen.use_cls else None,
        recogniser=Recogniser(Rule(colours), CHARSET, chosen.rec),
        settings=chosen,
    )


COLOURS = {"r": (0, 0, 255), "g": (0, 255, 0), "b": (255, 0, 0)}


def bar(text: str, height: int = 40, letter: int = 60) -> np.ndarray:
    """A line of colour letters, uint8 [height, letter * len(text), 3] BGR, with dark seams between the letters."""
    line = np.zeros((height, letter * len(text), 3), np.uint8)
    for i, character in enumerate(text):
        line[:, i * letter : (i + 1) * letter] = COLOURS[character]
    return line


def picture(height: int, width: int, bars: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """A black picture with bars at (top, left)."""
    image = np.zeros((height, width, 3), np.uint8)
    for (top, left), line in bars.items():
        image[top : top + line.shape[0], left : left + line.shape[1]] = line
    return image
