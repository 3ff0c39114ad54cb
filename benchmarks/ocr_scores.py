"""How well lines found in a picture agree with its labels: detection, end to end, character errors.

Detection: the ICDAR2015 protocol, as `zoo.ocr.metrics.match_regions` has it.
End to end: the same pairs, of which those count whose texts are equal after `comparable`, spaces left out.
Character error rate: pages differ in what they call a line (words in ICDAR2015, lines elsewhere), so labels and finds
    that overlap (intersection more than half of the smaller one) are put in one group, both sides of a group are
    joined in reading order with single spaces, and the Levenshtein distances after `comparable` are added up.
    A label nobody found counts all its characters, so does a find that lies on no label. A group with an ignored
    label in it is left out. The rate is the sum of distances over the sum of label characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from ocr_data import LabelledLine
from shapely.geometry import Polygon

from zoo.ocr.metrics import Counts, Matches, match_regions

OVERLAP = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundLine:
    """One line that a system read. polygon_xy: float64 [4, 2], pixels of the picture."""

    polygon_xy: np.ndarray
    text: str


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Of one set: three rates from 0 to 1 (the character error rate can pass 1)."""

    detection_hmean: float
    end_to_end_hmean: float
    character_error_rate: float


def score(pages: Iterable[tuple[Sequence[LabelledLine], Sequence[FoundLine]]]) -> Scores:
    """Scores of a set; counts are added over its pages before any rate is taken."""
    detection, end_to_end = [], []
    edits = characters = 0
    for labels, finds in pages:
        detection.append(count_detection(labels, finds))
        end_to_end.append(count_end_to_end(labels, finds))
        page_edits, page_characters = count_characters(labels, finds)
        edits, characters = edits + page_edits, characters + page_characters
    return Scores(
        detection_hmean=sum(detection, Counts()).hmean,
        end_to_end_hmean=sum(end_to_end, Counts()).hmean,
        character_error_rate=edits / characters if characters else float(edits > 0),
    )


def count_detection(labels: Sequence[LabelledLine], finds: Sequence[FoundLine]) -> Counts:
    """Pairs among the labels that count and the finds that count, of one page."""
    return match(labels, finds).counts


def count_end_to_end(labels: Sequence[LabelledLine], finds: Sequence[FoundLine]) -> Counts:
    """Pairs whose texts are equal, of one page."""
    pairs, truth, found = match(labels, finds)
    hits = sum(_dense(labels[label].text) == _dense(finds[find].text) for label, find in pairs)
    return Counts(hits=hits, truth=truth, found=found)


def match(labels: Sequence[LabelledLine], finds: Sequence[FoundLine]) -> Matches:
    """(pairs of indices (label, find), number of labels that count, number of finds that count) of one page."""
    return match_regions(
        [line.polygon_xy for line in labels],
        [line.ignored for line in labels],
        [line.polygon_xy for line in finds],
    )


def count_characters(labels: Sequence[LabelledLine], finds: Sequence[FoundLine]) -> tuple[int, int]:
    """(edits, label characters) of one page, as the head of this file says."""
    from rapidfuzz.distance import Levenshtein

    edits = characters = 0
    for label_indices, find_indices in overlap_groups(labels, finds):
        group_labels = [labels[i] for i in label_indices]
        group_finds = [finds[i] for i in find_indices]
        if any(line.ignored for line in group_labels):
            continue
        truth = comparable(join_in_order(group_labels))
        edits += Levenshtein.distance(truth, comparable(join_in_order(group_finds)))
        characters += len(truth)
    return edits, characters


def overlap_groups(labels: Sequence[LabelledLine], finds: Sequence[FoundLine]) -> list[tuple[list[int], list[int]]]:
    """Connected labels and finds as (indices of labels, indices of finds); each index is in exactly one group."""
    polygons = [line.polygon_xy for line in labels] + [line.polygon_xy for line in finds]
    shapes = [Polygon(polygon_xy).convex_hull for polygon_xy in polygons]
    parent = list(range(len(shapes)))

    def root(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for label in range(len(labels)):
        for find in range(len(labels), len(shapes)):
            smaller = min(shapes[label].area, shapes[find].area)
            if smaller and shapes[label].intersection(shapes[find]).area / smaller > OVERLAP:
                parent[root(find)] = root(label)
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for node in range(len(shapes)):
        label_indices, find_indices = groups.setdefault(root(node), ([], []))
        if node < len(labels):
            label_indices.append(node)
        else:
            find_indices.append(node - len(labels))
    return list(groups.values())


def join_in_order(lines: Sequence[LabelledLine] | Sequence[FoundLine]) -> str:
    """The texts in reading order, joined by spaces.

    The direction of reading is the top edge (corner 0 to corner 1) of the widest line. Lines whose centres differ
    across it by less than half the median height share a row.
    """
    if not lines:
        return ""
    polygons = np.stack([line.polygon_xy for line in lines])  # [n, 4, 2]
    edges = polygons[:, 1] - polygons[:, 0]
    widths = np.linalg.norm(edges, axis=1)
    along = edges[widths.argmax()] / max(widths.max(), 1e-9)
    across = np.array([-along[1], along[0]])
    heights = np.linalg.norm(polygons[:, 3] - polygons[:, 0], axis=1)
    centres = polygons.mean(axis=1)
    rows: list[list[int]] = []
    depth = centres @ across
    for index in np.argsort(depth, kind="stable"):
        if rows and depth[index] - depth[rows[-1][-1]] < np.median(heights) / 2:
            rows[-1].append(int(index))
        else:
            rows.append([int(index)])
    return " ".join(lines[i].text for row in rows for i in sorted(row, key=lambda i: float(centres[i] @ along)))


def comparable(text: str) -> str:
    """NFKC (full-width forms become ASCII), case folded, every run of white space one space, none at the ends."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _dense(text: str) -> str:
    return comparable(text).replace(" ", "")
