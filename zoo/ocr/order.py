"""In which order people read: skewed pages, columns, tables and vertical text.

The page is first turned level by the angle of its own lines. Horizontal lines are cut into blocks by wide gaps that no
line crosses, first across the page, then down it (an XY cut); inside a block, lines whose heights overlap are a row.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

GAP = 1.0  # a gap between columns is at least so many line heights wide
MIN_ROWS = 3  # and a column has at least so many rows, or the gap is one between words
FILLED = 0.75  # of its column's width that the middle line of running text covers
LONG = 7.0  # line heights that it is long
PARTNERED = 0.6  # share of rows with a partner beside them, from which things side by side are one table
TRIED = 4  # gaps across the page at which a cut into bands is tried
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
        parts = _columns(boxes, items) or _bands(boxes, items)
        if parts:
            return [block for part in parts for block in _cut(boxes, part)]
    return [grouped]


def _segments(boxes: np.ndarray, items: list[int], axis: int, least: float) -> list[list[int]]:
    """Items parted wherever nothing stands for more than `least` pixels along an axis (0: x, 1: y)."""
    order = sorted(items, key=lambda i: (boxes[i, axis], i))
    ends = np.maximum.accumulate(boxes[order, axis + 2])
    gaps = boxes[order[1:], axis] - ends[:-1]
    cuts = [0, *(np.flatnonzero(gaps > least) + 1).tolist(), len(order)]
    return [order[start:end] for start, end in pairwise(cuts)]


def _columns(boxes: np.ndarray, items: list[int]) -> list[list[int]]:
    """The columns of text that items fall into, from left to right; none where they are the cells of a table.

    Columns of running text are filled by their lines. Other things side by side are columns too unless most rows of
    the shorter one have a partner at their height in the other, as the rows of a receipt do.
    """
    height = float(np.median(boxes[items, 3] - boxes[items, 1]))
    parts = _segments(boxes, items, 0, GAP * height)
    if len(parts) < 2:
        return []
    if all(_is_running_text(boxes, part, height) for part in parts):
        return parts
    for at in range(1, len(parts)):
        sides = [[i for part in parts[:at] for i in part], [i for part in parts[at:] for i in part]]
        if _partnered(boxes, sides) < PARTNERED:
            return sides
    return []


def _is_running_text(boxes: np.ndarray, part: list[int], height: float) -> bool:
    """At least three rows of long lines that mostly fill their column."""
    widths = boxes[part, 2] - boxes[part, 0]
    full = boxes[part, 2].max() - boxes[part, 0].min()
    return (
        len(_rows(boxes, part)) >= MIN_ROWS
        and float(np.median(widths)) > FILLED * full
        and float(np.median(widths)) > LONG * height
    )


def _partnered(boxes: np.ndarray, sides: list[list[int]]) -> float:
    """The share of the shorter side's rows that stand in one row with something of the other; 1 for too few rows."""
    left = set(sides[0])
    shorter = min(len(_rows(boxes, side)) for side in sides)
    if shorter < MIN_ROWS:
        return 1.0
    shared = sum(1 for row in _rows(boxes, [*sides[0], *sides[1]]) if len({i in left for i in row}) == 2)
    return shared / shorter


def _bands(boxes: np.ndarray, items: list[int]) -> list[list[int]]:
    """Items cut in two across the page where that lets a part fall into columns: a headline over columns, say."""
    height = float(np.median(boxes[items, 3] - boxes[items, 1]))
    parts = _segments(boxes, items, 1, 0.0)
    if len(parts) < 2 or len(_segments(boxes, items, 0, GAP * height)) > 1:
        return []  # columns were tried with all there is
    gaps = [float(boxes[b, 1].min() - boxes[a, 3].max()) for a, b in pairwise(parts)]
    # The widest few gaps; a page of a thousand evenly spaced lines is no candidate at each of them.
    for at in sorted(range(len(gaps)), key=lambda i: -gaps[i])[:TRIED]:
        sides = [[i for part in parts[: at + 1] for i in part], [i for part in parts[at + 1 :] for i in part]]
        if any(len(side) >= 2 * MIN_ROWS and _columns(boxes, side) for side in sides):
            return sides
    return []


def _rows(boxes: np.ndarray, items: list[int]) -> list[list[int]]:
    """Items grouped into rows from top to bottom, each from left to right."""
    found: list[list[int]] = []
    span = [0.0, 0.0]
    bounds = dict(zip(items, boxes[items].tolist(), strict=True))  # plain numbers, many times faster one by one
    for i in sorted(items, key=lambda i: (bounds[i][1] + bounds[i][3], bounds[i][0])):
        top, bottom = bounds[i][1], bounds[i][3]
        shared = min(bottom, span[1]) - max(top, span[0])
        lower = min(bottom - top, span[1] - span[0])
        if found and shared > OVERLAP * lower and not _stacked([bounds[j] for j in found[-1]], bounds[i]):
            count = len(found[-1])
            found[-1].append(i)
            # The row's own height is the mean of its members', so that it does not creep down a skewed page.
            span = [(s * count + v) / (count + 1) for s, v in zip(span, (top, bottom), strict=True)]
        else:
            found.append([i])
            span = [top, bottom]
    return [sorted(row, key=lambda i: (bounds[i][0], i)) for row in found]


def _stacked(row: list[list[float]], item: list[float]) -> bool:
    """Whether the item stands over or under a member of the row rather than beside it."""
    width = item[2] - item[0]
    return any(min(m[2], item[2]) - max(m[0], item[0]) > 0.5 * min(m[2] - m[0], width) for m in row)
