"""In which order people read: skewed pages, columns, tables and vertical text.

The page is first turned level by the angle of its own lines. Where a wide gap runs down it the lines fall into columns;
where wide lines such as a headline cross that gap, they cut the page into bands first (an XY cut that looks through
them). Inside a block, lines whose heights overlap are a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np

GAP = 1.0  # a gap between columns is at least so many line heights wide
MIN_ROWS = 3  # and a column has at least so many rows, or the gap is one between words
FILLED = 0.75  # of its column's width that the middle line of running text covers
LONG = 7.0  # line heights that it is long
PARTNERED = 0.6  # share of rows with a partner beside them, from which things side by side are one table
TRIED = 6  # gaps between columns at which a cut into bands is tried
OVERLAP = 0.5  # of the lower line's height: then two lines are of one row


def reading_order(polygons_xy: np.ndarray) -> list[int]:
    """Indices of the lines in reading order. polygons_xy: float [N, 4, 2], each from its text's own top left."""
    return [i for block in blocks(polygons_xy) for row in block for i in row]


def rows(polygons_xy: np.ndarray) -> list[list[int]]:
    """Indices grouped into rows, rows in reading order, each from its start to its end."""
    return [row for block in blocks(polygons_xy) for row in block]


def blocks(polygons_xy: np.ndarray) -> list[list[list[int]]]:
    """Indices as blocks of rows, blocks in reading order."""
    if len(polygons_xy) == 0:
        return []
    quads = np.asarray(polygons_xy, np.float64)
    edges = quads[:, 1] - quads[:, 0] + quads[:, 2] - quads[:, 3]
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    heights = np.hypot(*(quads[:, 3] - quads[:, 0] + quads[:, 2] - quads[:, 1]).T)
    angle = _page_angle(np.arctan2(edges[:, 1], edges[:, 0]), lengths, heights)
    level = quads @ _rotation(-angle)
    along = np.abs(np.cos(np.arctan2(edges[:, 1], edges[:, 0]) - angle))
    vertical = along < np.cos(np.pi / 4)
    boxes = np.concatenate([level.min(axis=1), level.max(axis=1)], axis=1)  # left, top, right, bottom
    if vertical.mean() > 0.5:
        # Columns of vertical text, from right to left, are rows of the turned page; text that climbs, as on a page that
        # lies on its side, starts at the left.
        down = (quads[:, 1] - quads[:, 0])[vertical][:, 1].sum() > 0
        columns = (boxes[:, 1], -boxes[:, 2], boxes[:, 3], -boxes[:, 0])
        climbing = (-boxes[:, 3], boxes[:, 0], -boxes[:, 1], boxes[:, 2])
        turned = np.stack(columns if down else climbing, axis=1)
        return _cut(turned, list(range(len(boxes))))
    return _cut(boxes, list(range(len(boxes))))


def _page_angle(angles: np.ndarray, lengths: np.ndarray, heights: np.ndarray) -> float:
    """By how much the page is turned, in radians: the angle that most of its length of text agrees on.

    Vertical text is not a turned page, so quarter turns are taken out, unless nearly all lines stand on their head.
    """
    long = lengths > 1.5 * heights  # short pieces have no angle of their own
    chosen, weights = (angles[long], lengths[long]) if long.any() else (angles, lengths)
    on_head = np.cos(chosen) < -np.cos(np.pi / 4)
    turned = np.pi if weights[on_head].sum() > 0.5 * weights.sum() else 0.0
    skew = (chosen + np.pi / 4) % (np.pi / 2) - np.pi / 4
    order = np.argsort(skew)
    middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(skew[order[min(middle, len(order) - 1)]]) + turned


def _rotation(angle: float) -> np.ndarray:
    """Matrix that turns row vectors (x, y) by an angle."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, sine], [-sine, cosine]])


def _cut(boxes: np.ndarray, items: list[int]) -> list[list[list[int]]]:
    """The block as one, or cut into columns, or into bands of which one falls into columns; each part is cut again."""
    grouped = _rows(boxes, items)
    if len(grouped) >= MIN_ROWS:
        parts = _columns(boxes, grouped) or _bands(boxes, items)
        if parts:
            return [block for part in parts for block in _cut(boxes, part)]
    return [grouped]


def _segments(boxes: np.ndarray, items: list[int], least: float) -> list[list[int]]:
    """Items parted wherever nothing stands for more than `least` pixels across, from left to right."""
    order = sorted(items, key=lambda i: (boxes[i, 0], i))
    ends = np.maximum.accumulate(boxes[order, 2])
    gaps = boxes[order[1:], 0] - ends[:-1]
    cuts = [0, *(np.flatnonzero(gaps > least) + 1).tolist(), len(order)]
    return [order[start:end] for start, end in pairwise(cuts)]


def _columns(boxes: np.ndarray, grouped: list[list[int]]) -> list[list[int]]:
    """The columns of text that rows fall into, from left to right; none where they are the rows of a table.

    Columns of running text are filled by their lines. Other things side by side are columns too unless most rows of
    the shorter one have a partner at their height in the other, as the rows of a receipt do.
    """
    items = [i for row in grouped for i in row]
    height = _line_height(boxes, items)
    parts = _segments(boxes, items, GAP * height)
    if len(parts) < 2:
        return []
    if all(_is_running_text(boxes, part, height) for part in parts):
        return parts
    part_of = {i: number for number, part in enumerate(parts) for i in part}
    present = np.zeros((len(grouped), len(parts)), bool)  # whether a row has something of a part
    for number, row in enumerate(grouped):
        present[number, [part_of[i] for i in row]] = True
    for at in range(1, len(parts)):
        left, right = present[:, :at].any(axis=1), present[:, at:].any(axis=1)
        shorter = min(left.sum(), right.sum())
        if shorter >= MIN_ROWS and (left & right).sum() < PARTNERED * shorter:
            return [[i for part in side for i in part] for side in (parts[:at], parts[at:])]
    return []


def _line_height(boxes: np.ndarray, items: list[int]) -> float:
    return float(np.median(boxes[items, 3] - boxes[items, 1]))


def _is_running_text(boxes: np.ndarray, part: list[int], height: float) -> bool:
    """At least three rows of long lines that mostly fill their column."""
    widths = boxes[part, 2] - boxes[part, 0]
    full = boxes[part, 2].max() - boxes[part, 0].min()
    return (
        len(_rows(boxes, part)) >= MIN_ROWS
        and float(np.median(widths)) > FILLED * full
        and float(np.median(widths)) > LONG * height
    )


def _bands(boxes: np.ndarray, items: list[int]) -> list[list[int]]:
    """Items cut across the page, from top to bottom, where wide lines keep apart what falls into columns.

    A headline, an abstract, a caption or the number of the page crosses the gap between the columns around it.
    """
    centre = boxes[:, 1] + boxes[:, 3]
    for crossing in _crossings(boxes, items):
        order = sorted(items, key=lambda i: (centre[i], boxes[i, 0], i))
        runs = [(crosses, list(run)) for crosses, run in groupby(order, key=lambda i: i in crossing)]
        parts: list[list[int]] = []
        merging = False  # whether what is no columns joins the part before it
        for crosses, run in runs:
            columns = not crosses and len(run) >= 2 * MIN_ROWS and bool(_columns(boxes, _rows(boxes, run)))
            if merging and not columns:
                parts[-1] += run
            else:
                parts.append(run)
            merging = not columns
        if len(parts) > 1:
            return parts
    return []


def _crossings(boxes: np.ndarray, items: list[int]) -> Iterator[set[int]]:
    """For some gaps between columns, those crossed by the fewest lines first: the lines that cross it."""
    width = GAP * _line_height(boxes, items)
    left, right = boxes[items, 0], boxes[items, 2]
    # A gap begins where a line ends; ends closer than half a gap are one.
    starts = np.unique(np.ceil(right / max(width / 2, 1e-6))) * (width / 2)
    before = np.searchsorted(np.sort(right), starts, "right")
    after = len(items) - np.searchsorted(np.sort(left), starts + width, "left")
    crossed = len(items) - before - after
    usable = (before >= MIN_ROWS) & (after >= MIN_ROWS) & (crossed > 0)
    _, first = np.unique(np.stack([before, after])[:, usable], axis=1, return_index=True)  # each gap once
    found = np.flatnonzero(usable)[np.sort(first)]
    for at in found[np.argsort(crossed[found], kind="stable")][:TRIED]:
        across = (right > starts[at]) & (left < starts[at] + width)
        yield {items[i] for i in np.flatnonzero(across)}


def _rows(boxes: np.ndarray, items: list[int]) -> list[list[int]]:
    """Items grouped into rows from top to bottom, each from left to right."""
    found: list[list[int]] = []
    span = [0.0, 0.0]
    end = 0.0  # of the row so far, at its right
    bounds = dict(zip(items, boxes[items].tolist(), strict=True))  # plain numbers, many times faster one by one
    for i in sorted(items, key=lambda i: (bounds[i][1] + bounds[i][3], bounds[i][0])):
        top, bottom = bounds[i][1], bounds[i][3]
        shared = min(bottom, span[1]) - max(top, span[0])
        lower = min(bottom - top, span[1] - span[0])
        if (
            found
            and shared > OVERLAP * lower
            and (bounds[i][0] >= end or not _stacked([bounds[j] for j in found[-1]], bounds[i]))
        ):
            count = len(found[-1])
            found[-1].append(i)
            # The row's own height is the mean of its members', so that it does not creep down a skewed page.
            span = [(s * count + v) / (count + 1) for s, v in zip(span, (top, bottom), strict=True)]
            end = max(end, bounds[i][2])
        else:
            found.append([i])
            span = [top, bottom]
            end = bounds[i][2]
    return [sorted(row, key=lambda i: (bounds[i][0], i)) for row in found]


def _stacked(row: list[list[float]], item: list[float]) -> bool:
    """Whether the item stands over or under a member of the row rather than beside it."""
    width = item[2] - item[0]
    return any(min(m[2], item[2]) - max(m[0], item[0]) > 0.5 * min(m[2] - m[0], width) for m in row)
