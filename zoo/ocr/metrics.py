"""How well regions and texts agree with their labels: the only copy, for training and benchmarks. No torch.

Detection: the ICDAR2015 protocol as in PaddleOCR ppocr/metrics/eval_det_iou.py. Recognition: exact matches as in
ppocr/metrics/rec_metric.py, and edit distances. Every tally is a value that adds up (`+`), over pictures and processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from shapely.geometry import Polygon

IOU = 0.5
AREA_PRECISION = 0.5


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Hits among the labels that count (`truth`) and the finds that count (`found`)."""

    hits: int = 0
    truth: int = 0
    found: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(hits=self.hits + other.hits, truth=self.truth + other.truth, found=self.found + other.found)

    @property
    def precision(self) -> float:
        """Share of the finds that are right; 0 where nothing was found."""
        return self.hits / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of the labels that were found; 0 where there is none."""
        return self.hits / self.truth if self.truth else 0.0

    @property
    def hmean(self) -> float:
        """Harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


class Matches(NamedTuple):
    """pairs: indices (label, find). truth, found: how many labels and finds count."""

    pairs: list[tuple[int, int]]
    truth: int
    found: int

    @property
    def counts(self) -> Counts:
        """The same as a tally."""
        return Counts(hits=len(self.pairs), truth=self.truth, found=self.found)


def match_regions(labels: Sequence[np.ndarray], ignored: Sequence[bool], finds: Sequence[np.ndarray]) -> Matches:
    """Pairs of one picture's labelled and found polygons [n >= 3, 2], in one frame.

    A pair has an intersection over union of more than 0.5; each takes part in one pair at most, first come first
    served in the order of the labels, then of the finds. `ignored` labels are not counted, nor is a find of which more
    than half lies in one of them. A polygon that crosses itself is left out, as the reference does.
    """
    label_shapes = {i: shape for i, polygon in enumerate(labels) if (shape := Polygon(polygon)).is_valid}
    find_shapes = {i: shape for i, polygon in enumerate(finds) if (shape := Polygon(polygon)).is_valid}
    unread = [shape for i, shape in label_shapes.items() if ignored[i]]
    truth = [i for i in label_shapes if not ignored[i]]
    found = [i for i, shape in find_shapes.items() if not _lies_in(shape, unread)]
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for label in truth:
        for find in found:
            if find not in taken and _iou(label_shapes[label], find_shapes[find]) > IOU:
                taken.add(find)
                pairs.append((label, find))
                break
    return Matches(pairs, len(truth), len(found))


def _iou(first: Polygon, second: Polygon) -> float:
    if not first.intersects(second):
        return 0.0
    union = first.union(second).area
    return first.intersection(second).area / union if union else 0.0


def _lies_in(shape: Polygon, ignored: Sequence[Polygon]) -> bool:
    return any(shape.area and shape.intersection(other).area / shape.area > AREA_PRECISION for other in ignored)


def dense(text: str) -> str:
    """The text without spaces, as PaddleOCR compares it with `ignore_space`."""
    return text.replace(" ", "")


def alphanumeric(text: str) -> str:
    """Its Latin letters and digits in lower case: how papers score ICDAR2015 words."""
    return "".join(character for character in text.lower() if character.isascii() and character.isalnum())


# Of a confusion (wanted, read): what stands for a character that was left out or put in.
NOTHING = ""


@dataclass(frozen=True, kw_only=True)
class TextCounts:
    """Lines read: how many, how many of them right, and what was mistaken for what.

    exact, dense, alphanumeric: lines that are equal as they are, without spaces, and as letters and digits alone.
    edits, characters: Levenshtein distances, and the labels' lengths. distance: sum of each line's distance over the
    longer of both texts. lengths: (lines, exact lines) by length of the label. confusions: (wanted, read) characters.
    """

    lines: int = 0
    exact: int = 0
    dense: int = 0
    alphanumeric: int = 0
    edits: int = 0
    characters: int = 0
    distance: float = 0.0
    lengths: Counter[tuple[int, bool]] = field(default_factory=Counter)
    confusions: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __add__(self, other: TextCounts) -> TextCounts:
        return add_up((self, other))

    def rates(self) -> dict[str, float]:
        """exact, exact_dense, exact_alphanumeric (shares of lines), ned (1 - mean normalised distance), cer.

        All 0 where nothing was read, but for cer, the edits for each character of the labels, which then is 0 too.
        """
        lines = max(1, self.lines)
        return {
            "exact": self.exact / lines,
            "exact_dense": self.dense / lines,
            "exact_alphanumeric": self.alphanumeric / lines,
            "ned": 1 - self.distance / lines if self.lines else 0.0,
            "cer": self.edits / self.characters if self.characters else float(self.edits > 0),
        }

    def by_length(self) -> dict[int, tuple[int, int]]:
        """(lines, exact lines) by length of the label, shortest first."""
        return {
            length: (self.lengths[length, True] + self.lengths[length, False], self.lengths[length, True])
            for length in sorted({length for length, _ in self.lengths})
        }


def count_text(truth: str, read: str) -> TextCounts:
    """The tally of one line. rapidfuzz aligns both; of several shortest alignments it takes one."""
    from rapidfuzz.distance import Levenshtein

    edits = Levenshtein.editops(truth, read)
    confusions: Counter[tuple[str, str]] = Counter()
    for edit in edits:
        wanted = NOTHING if edit.tag == "insert" else truth[edit.src_pos]
        got = NOTHING if edit.tag == "delete" else read[edit.dest_pos]
        confusions[wanted, got] += 1
    return TextCounts(
        lines=1,
        exact=int(truth == read),
        dense=int(dense(truth) == dense(read)),
        alphanumeric=int(alphanumeric(truth) == alphanumeric(read)),
        edits=len(edits),
        characters=len(truth),
        distance=len(edits) / max(1, len(truth), len(read)),
        lengths=Counter({(len(truth), truth == read): 1}),
        confusions=confusions,
    )


def add_up(tallies: Iterable[TextCounts]) -> TextCounts:
    """The sum of many tallies; as `+`, which would copy both tables for each line."""
    lengths: Counter[tuple[int, bool]] = Counter()
    confusions: Counter[tuple[str, str]] = Counter()
    lines = exact = without = letters = edits = characters = 0
    distance = 0.0
    for one in tallies:
        lines, exact, without = lines + one.lines, exact + one.exact, without + one.dense
        letters, edits, characters = letters + one.alphanumeric, edits + one.edits, characters + one.characters
        distance += one.distance
        lengths.update(one.lengths)
        confusions.update(one.confusions)
    return TextCounts(
        lines=lines,
        exact=exact,
        dense=without,
        alphanumeric=letters,
        edits=edits,
        characters=characters,
        distance=distance,
        lengths=lengths,
        confusions=confusions,
    )
