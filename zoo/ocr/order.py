"""In which order people read: skewed pages, columns, tables and vertical text.

The page is first turned level by the angle of its own lines. Horizontal lines are cut into blocks by wide gaps that no
line crosses, first across the page, then down it (an XY cut); inside a block, lines whose heights overlap are a row.
"""

from __future__ import annotations

import numpy as np

GAP = 1.0  # a gap between columns is at least so many line heights wide
MIN_ROWS = 3  # and splits at least so many rows, or it is a gap between words
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
    """The block as one, or cut in two along the clearest gap and each part cut again."""
    grouped = _rows(boxes, items)
    if len(grouped) >= MIN_ROWS:
        for axis in (0, 1):
            parts = _split(boxes, items, axis, grouped)
            if parts:
                return [block for part in parts for block in _cut(boxes, part)]
    return [grouped]


def _split(boxes: np.ndarray, items: list[int], axis: int, grouped: list[list[int]]) -> list[list[int]]:
    """Items cut along the widest gap of an axis (0: x, into columns; 1: y, into bands), or nothing."""
    height = float(np.median(boxes[items, 3] - boxes[items, 1]))
    order = sorted(items, key=lambda i: (boxes[i, axis], i))
    ends = np.maximum.accumulate(boxes[order, axis + 2])
    gaps = boxes[order[1:], axis] - ends[:-1]
    if axis == 1:
        # A band is cut off only where that lets the rest fall into columns: a headline over two columns, say.
        for at in np.argsort(-gaps, kind="stable"):
            parts = [order[: at + 1], order[at + 1 :]]
            if gaps[at] <= 0:
                break
            if any(
                len(_rows(boxes, part)) >= MIN_ROWS and _split(boxes, part, 0, _rows(boxes, part)) for part in parts
            ):
                return parts
        return []
    wide = [at for at in np.argsort(-gaps, kind="stable") if gaps[at] > GAP * height]
    for at in wide:
        parts = [order[: at + 1], order[at + 1 :]]
        if _are_columns(boxes, parts, grouped):
            return parts
    return []


def _are_columns(boxes: np.ndarray, parts: list[list[int]], grouped: list[list[int]]) -> bool:
    """Whether two parts side by side are columns of text, and not the cells of a table or receipt.

    Cells of a table stand in rows: most rows of the narrower side have a partner at the same height on the other.
    Columns of running text keep lines of their own: they fill their column and rarely start at the same height.
    """
    sides = [set(part) for part in parts]
    split_rows = sum(1 for row in grouped if sides[0] & set(row) and sides[1] & set(row))
    counts = [len(_rows(boxes, part)) for part in parts]
    if min(counts) < MIN_ROWS:
        return False
    partnered = split_rows / min(counts)
    full = [_filled(boxes, part) for part in parts]
    return partnered < 0.6 or min(full) > 0.75


def _filled(boxes: np.ndarray, part: list[int]) -> float:
    """How much of a column's width its lines fill in the middle case; running text fills it, cells do not."""
    left, right = boxes[part, 0].min(), boxes[part, 2].max()
    widths = boxes[part, 2] - boxes[part, 0]
    return float(np.median(widths) / max(right - left, 1e-6))


def _rows(boxes: np.ndarray, items: list[int]) -> list[list[int]]:
    """Items grouped into rows from top to bottom, each from left to right."""
    found: list[list[int]] = []
    spans: list[list[float]] = []
    for i in sorted(items, key=lambda i: (boxes[i, 1] + boxes[i, 3], boxes[i, 0])):
        top, bottom = boxes[i, 1], boxes[i, 3]
        if found:
            shared = min(bottom, spans[-1][1]) - max(top, spans[-1][0])
            lower = min(bottom - top, spans[-1][1] - spans[-1][0])
            if shared > OVERLAP * lower and not _stacked(boxes, found[-1], i):
                count = len(found[-1])
                found[-1].append(i)
                # The row's own height is the mean of its members', so that it does not creep down a skewed page.
                spans[-1] = [(s * count + v) / (count + 1) for s, v in zip(spans[-1], (top, bottom), strict=True)]
                continue
        found.append([i])
        spans.append([top, bottom])
    return [sorted(row, key=lambda i: (boxes[i, 0], i)) for row in found]


def _stacked(boxes: np.ndarray, row: list[int], item: int) -> bool:
    """Whether the item stands over or under a member of the row rather than beside it."""
    widths = boxes[row, 2] - boxes[row, 0]
    shared = np.minimum(boxes[row, 2], boxes[item, 2]) - np.maximum(boxes[row, 0], boxes[item, 0])
    return bool((shared > 0.5 * np.minimum(widths, boxes[item, 2] - boxes[item, 0])).any())
