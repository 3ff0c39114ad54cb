"""What a person looks at after an evaluation: the worst cases as one picture and one table. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoo import images
from zoo.ocr.metrics import Matches, TextCounts
from zoo.ocr.samples import PageSample

KEPT = 12  # cases in a report
SIDE = 640  # pixels of a page's longer side in the sheet
LINE = (48, 480)  # height, and greatest width, of a line in the sheet
MISSED, FALSE, RIGHT, IGNORED = (0, 0, 255), (0, 165, 255), (0, 160, 0), (160, 160, 160)  # BGR
TEXT, SHARE = (0, 200, 0), 0.5  # colour of a map over its picture, and how much of it


def draw_page(picture: np.ndarray, probability: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """The picture, uint8 [H, W, 3], with a map of text, 0..1 [H, W], in green and ignored regions [H, W] in grey."""
    weight = SHARE * np.clip(probability, 0, 1)[..., None]
    mixed = picture * (1 - weight) + np.array(TEXT) * weight
    mixed[ignored] = (mixed[ignored] + IGNORED[0]) / 2
    return np.rint(mixed).astype(np.uint8)


class _Page(NamedTuple):
    mistakes: int
    name: str
    missed: int
    false: int
    picture: np.ndarray


@dataclass
class WorstPages:
    """The pages with most missed and false regions, as far as they were added. Of two alike the earlier is kept."""

    pages: list[_Page] = field(default_factory=list)

    def add(self, sample: PageSample, quads: Sequence[np.ndarray], matches: Matches) -> None:
        """A page with what was found in it; drawn only where it is among the worst."""
        missed, false = matches.truth - len(matches.pairs), matches.found - len(matches.pairs)
        full = len(self.pages) == KEPT
        if missed + false == 0 or (full and missed + false <= self.pages[-1].mistakes):
            return
        picture = _drawn(sample, quads, matches)
        self.pages.append(_Page(missed + false, sample.name, missed, false, picture))
        self.pages.sort(key=lambda page: -page.mistakes)
        del self.pages[KEPT:]

    def write(self, folder: Path, part: str = "") -> None:
        """worst_N.jpg and worst_N.tsv, N counting the evaluations of this folder; `part` is added to their names."""
        rows = [("picture", "missed", "false"), *((p.name, str(p.missed), str(p.false)) for p in self.pages)]
        _write(folder, rows, [page.picture for page in self.pages], part)


def _drawn(sample: PageSample, quads: Sequence[np.ndarray], matches: Matches) -> np.ndarray:
    hit, right = ({pair[side] for pair in matches.pairs} for side in (0, 1))
    colours = [
        IGNORED if ignored else RIGHT if index in hit else MISSED for index, ignored in enumerate(sample.ignored)
    ]
    ratio = min(1.0, SIDE / max(sample.image.shape[:2]))
    size = tuple(max(1, round(side * ratio)) for side in sample.image.shape[:2])
    small = images.resize(sample.image, (size[0], size[1]))
    drawn = images.draw_quads(small, [polygon * ratio for polygon in sample.polygons_xy], colours)
    wrong = [quad * ratio for index, quad in enumerate(quads) if index not in right]
    return images.draw_quads(drawn, wrong, [FALSE] * len(wrong), thickness=1)


class WorstLine(NamedTuple):
    """A line that was read wrongly. image: uint8 [h, w, 3] BGR. rate: edits for each character of the longer text."""

    rate: float
    name: str
    wanted: str
    read: str
    score: float
    image: np.ndarray


@dataclass
class WorstLines:
    """The lines furthest from their labels; of two alike the one that the network was surer of, then the earlier."""

    lines: list[WorstLine] = field(default_factory=list)

    def add(self, line: WorstLine) -> None:
        """A line, kept where it is among the worst."""
        if line.rate > 0:
            self.lines.append(line)
            self.lines.sort(key=lambda one: (-one.rate, -one.score))
            del self.lines[KEPT:]

    def write(self, folder: Path, counts: TextCounts | None, part: str = "") -> None:
        """worst_N.jpg and worst_N.tsv; with `counts` also by length, and what was mistaken for what most often."""
        rows = [("line", "wanted", "read", "score")]
        rows += [(line.name, line.wanted, line.read, f"{line.score:.3f}") for line in self.lines]
        number = _write(folder, rows, [_fitted(line.image) for line in self.lines], part)
        if counts is not None:
            lengths = [(str(n), str(lines), str(exact)) for n, (lines, exact) in counts.by_length().items()]
            confusions = [(a, b, str(times)) for (a, b), times in counts.confusions.most_common(200)]
            _table(folder / f"lengths_{number:03d}.tsv", [("length", "lines", "exact"), *lengths])
            _table(folder / f"confusions_{number:03d}.tsv", [("wanted", "read", "times"), *confusions])


def _fitted(line: np.ndarray) -> np.ndarray:
    width = min(LINE[1], max(1, round(LINE[0] * line.shape[1] / line.shape[0])))
    return images.resize(line, (LINE[0], width))


def _write(folder: Path, rows: Sequence[tuple[str, ...]], pictures: Sequence[np.ndarray], part: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    suffix = f"_{part.replace(' ', '_')}" if part else ""
    number = len(list(folder.glob(f"worst_[0-9][0-9][0-9]{suffix}.tsv")))
    _table(folder / f"worst_{number:03d}{suffix}.tsv", rows)
    if pictures:
        (folder / f"worst_{number:03d}{suffix}.jpg").write_bytes(images.encode(sheet(pictures), ".jpg"))
    return number


def _table(path: Path, rows: Sequence[Sequence[str]]) -> None:
    clean = ("\t".join(" ".join(value.split("\t")) for value in row) for row in rows)
    path.write_text("\n".join(clean) + "\n", encoding="utf-8")


def sheet(pictures: Sequence[np.ndarray], columns: int = 3) -> np.ndarray:
    """The pictures, uint8 BGR of any size, in a grid on white, row by row; there must be one at least."""
    rows = [pictures[i : i + columns] for i in range(0, len(pictures), columns)]
    width = max(picture.shape[1] for picture in pictures) + 8
    heights = [max(picture.shape[0] for picture in row) + 8 for row in rows]
    result = np.full((sum(heights), width * min(columns, len(pictures)), 3), 255, np.uint8)
    top = 0
    for row, height in zip(rows, heights, strict=True):
        for column, picture in enumerate(row):
            left = column * width + 4
            result[top + 4 : top + 4 + picture.shape[0], left : left + picture.shape[1]] = picture
        top += height
    return result
