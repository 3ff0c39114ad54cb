"""What reading gives: a page of lines, each with its place, text and score, and the page's many forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Word:
    """A word or character. polygon_xy: float32 [4, 2], pixels of the picture, from its own top left, clockwise."""

    text: str
    score: float
    polygon_xy: np.ndarray


@dataclass(frozen=True, eq=False)
class Line:
    """A line of text.

    polygon_xy: float32 [4, 2], pixels of the original picture, from the text's own top left, clockwise as one reads.
    score: 0..1. direction: degrees, clockwise, by which the text is turned: 0, 90, 180 or 270.
    """

    polygon_xy: np.ndarray
    text: str
    score: float
    direction: int
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, eq=False)
class Page:
    """The text of one picture, lines in reading order; a picture without text has none.

    width, height: of the original picture in pixels. source: its name. number: the page of the document, from 1.
    reread: gives the picture's pixels again, uint8 [H, W, 3] BGR, for `draw` and PDF; None for a page from JSON.
    """

    lines: tuple[Line, ...]
    width: int
    height: int
    source: str
    number: int = 1
    reread: Callable[[], np.ndarray] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Page({len(self.lines)} lines, {self.width} x {self.height}, {self.source!r}, number={self.number})"

    @property
    def text(self) -> str:
        """The text, a row of the page on each line; pieces of one row are joined by a space. "" for a blank page."""
        return "\n".join(" ".join(line.text for line in row) for row in self.rows())

    def rows(self) -> list[list[Line]]:
        """Lines that stand side by side, such as the cells of a receipt's row, grouped in reading order."""
        from zoo.ocr.order import rows

        if not self.lines:
            return []
        return [[self.lines[i] for i in row] for row in rows(np.stack([line.polygon_xy for line in self.lines]))]

    def to_json(self) -> str:
        """One JSON object: source, page, width, height, lines of {text, score, direction, polygon, words}.

        polygon: four [x, y] in pixels. words: as lines, only where they were asked for.
        """
        return json.dumps(
            {
                "source": self.source,
                "page": self.number,
                "width": self.width,
                "height": self.height,
                "lines": [_line_json(line) for line in self.lines],
            },
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(text: str) -> Page:
        """The page that `to_json` wrote, without its picture. Raises ValueError naming what is missing."""
        try:
            data = json.loads(text)
            lines = tuple(
                Line(
                    polygon_xy=_quad(line["polygon"]),
                    text=_text(line["text"]),
                    score=float(line["score"]),
                    direction=int(line["direction"]),
                    words=tuple(
                        Word(_text(word["text"]), float(word["score"]), _quad(word["polygon"]))
                        for word in line.get("words", ())
                    ),
                )
                for line in data["lines"]
            )
            return Page(lines, int(data["width"]), int(data["height"]), _text(data["source"]), int(data["page"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"no page of to_json: {type(error).__name__}: {error}") from None

    def to_markdown(self) -> str:
        """The text as Markdown: blocks become paragraphs, characters that would be markup are escaped."""
        from zoo.ocr.render import markdown

        return markdown(self)

    def to_hocr(self) -> str:
        """A whole hOCR 1.2 document."""
        from zoo.ocr.render import hocr

        return hocr([self])

    def to_alto(self) -> str:
        """A whole ALTO 4 document."""
        from zoo.ocr.render import alto

        return alto([self])

    def draw(self, image: np.ndarray | None = None) -> np.ndarray:
        """The picture with boxes and, beside it, the texts in their places: uint8 [H, 2 W, 3] BGR.

        image: uint8 [H, W, 3] BGR, by default the page's own picture, read again.
        """
        from zoo.ocr.draw import draw

        return draw(self, self.pixels() if image is None else image)

    def to_pdf(self) -> bytes:
        """A PDF of the picture with the text invisible over it, to be searched and copied."""
        from zoo.ocr.pdf import searchable_pdf

        return searchable_pdf([self])

    def save_pdf(self, path: str | Path) -> None:
        """Writes `to_pdf` to a file."""
        Path(path).write_bytes(self.to_pdf())

    def pixels(self) -> np.ndarray:
        """The picture, read again. Raises ValueError for a page that knows no picture, as one from JSON."""
        if self.reread is None:
            raise ValueError(f"{self!r} has no picture; give it: page.draw(image)")
        return self.reread()


def _line_json(line: Line) -> dict[str, Any]:
    data = {**_word_json(line), "direction": line.direction}
    if line.words:
        data["words"] = [_word_json(word) for word in line.words]
    return data


def _word_json(item: Line | Word) -> dict[str, Any]:
    polygon = [[round(float(x), 1), round(float(y), 1)] for x, y in item.polygon_xy]
    return {"text": item.text, "score": round(float(item.score), 4), "polygon": polygon}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40}, where a text is meant")
    return value


def _quad(points: Any) -> np.ndarray:
    quad = np.asarray(points, np.float32)
    if quad.shape != (4, 2):
        raise ValueError(f"a polygon of shape {quad.shape}; four points of x and y are meant")
    if not np.isfinite(quad).all():  # Python's JSON knows NaN and Infinity
        raise ValueError(f"a polygon with {quad[~np.isfinite(quad)][0]} in it; finite numbers are meant")
    return quad
