"""Where texts stand on a made page: columns, forms, receipts, tables, labels, lines downwards and turned."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zoo.ocr.synth_ink import Drawn, Face, corners, draw_across, draw_down, face_for, faces, is_upright, moved
from zoo.ocr.synth_settings import SynthSettings
from zoo.ocr.synth_text import Texts, words

TRIES = 60
EDGE = 3  # pixels that stay free at the edge of a page
GAP = 0.2  # of the font's size: what stays free around a text


class Placed(NamedTuple):
    """A text and where it is. matrix: float64 [3, 3] from pixels of its ink to those of the page."""

    drawn: Drawn
    matrix: np.ndarray
    own_colour: bool


class Sheet:
    """A page that is being laid out. tilt: the map of the flat page to the tilted one, or None."""

    def __init__(
        self,
        width: int,
        height: int,
        settings: SynthSettings,
        random: np.random.Generator,
        tilt: np.ndarray | None,
    ) -> None:
        self.width, self.height, self.random, self.tilt = width, height, random, tilt
        self.texts = Texts(settings)
        self.placed: list[Placed] = []
        self.rules: list[tuple[float, float, float, float]] = []
        self._known = faces(settings.fonts)
        self._occupied: list[np.ndarray] = []  # bounds (left, top, right, bottom) on the flat page

    def face(self, text: str) -> Face | None:
        """A face for a text; the same one for most of a page, as on real ones."""
        usual = self.placed[0].drawn.face if self.placed else None
        if usual is not None and usual.covers(text) and self.random.random() < 0.8:
            return usual
        return face_for(text, self._known, self.random)

    def write(self, size: int, room: float, *, number: bool = False, longest: int | None = None) -> Drawn:
        """A text of that font size that is at most `room` pixels wide. Raises ValueError where no font has any."""
        longest = max(1, min(longest or 10_000, int(room / (0.45 * size))))
        text = ""
        for _ in range(TRIES):
            text = self.texts.number(self.random) if number else self.texts.piece(self.random, longest)
            face = self.face(text)
            if face is None:
                continue
            drawn = draw_across(text, face, size, bold=int(size >= 32 and self.random.random() < 0.1))
            if drawn.box[2] - drawn.box[0] <= room:
                return drawn
            longest = max(1, int(longest * 0.8))
        raise ValueError(NO_FONT.format(text=text, count=len(self._known)))

    def fill_row(self, size: int, room: float) -> Drawn:
        """Running text of that font size, as much of it as is at most `room` pixels wide."""
        text = self.texts.running(self.random, int(room / (0.4 * size)))
        face = self.face(text)
        if face is None:  # the texts joined have no font in common
            return self.write(size, room)
        ends = [word.end for word in words(text)]
        fitting = sum(face.at(size).getlength(text[:end]) <= room - 2 for end in ends)
        return draw_across(text[: ends[fitting - 1]], face, size) if fitting else self.write(size, room)

    def put(self, drawn: Drawn, left: float, top: float, *, angle: float = 0, own_colour: bool = False) -> bool:
        """Places a text with its bounds' top left there, turned clockwise by degrees around their middle.

        False, and nothing placed, where it would leave the page or touch another text.
        """
        x0, y0, x1, y1 = drawn.box
        middle = np.array([(x0 + x1) / 2, (y0 + y1) / 2])
        matrix = _shift(left - x0, top - y0) @ _shift(*middle) @ _turn(angle) @ _shift(*-middle)
        outline = moved(corners(drawn.box), matrix)
        bounds = np.concatenate([outline.min(axis=0), outline.max(axis=0)])
        room = GAP * drawn.size
        if any(_touch(bounds, other, room) for other in self._occupied):
            return False
        matrix = matrix if self.tilt is None else self.tilt @ matrix
        seen = moved(corners(drawn.box), matrix)
        if (seen < EDGE).any() or (seen > (self.width - EDGE, self.height - EDGE)).any():
            return False
        self._occupied.append(bounds)
        self.placed.append(Placed(drawn, matrix, own_colour))
        return True

    def size(self, low: int, high: int) -> int:
        """A font size in pixels; small ones are more frequent."""
        return round(low * (high / low) ** (self.random.random() ** 1.3))


NO_FONT = (
    "none of the {count} fonts has all characters of such a text as {text!r}; give --font FILE (for Chinese, "
    "pip install noto-cjk-sans-otc), another --lang or a --charset"
)


def fill(layout: str, sheet: Sheet) -> None:
    """Lays texts out on an empty sheet; there is at least one. layout: a key of FILL."""
    FILL[layout](sheet)
    for _ in range(TRIES):
        if sheet.placed:
            return
        _label(sheet, 18, 24)
    raise ValueError(f"a page of {sheet.width} x {sheet.height} pixels has no room for a text; give a larger page_side")


def _shift(x: float, y: float) -> np.ndarray:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]])


def _turn(degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    return np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])


def _touch(one: np.ndarray, other: np.ndarray, room: float) -> bool:
    return bool((one[:2] < other[2:] + room).all() and (other[:2] < one[2:] + room).all())


def _paragraphs(sheet: Sheet, left: float, right: float, top: float, size: int) -> None:
    """Lines of full width, the last of a paragraph shorter, down to the foot of the page."""
    random = sheet.random
    pitch = size * random.uniform(1.45, 1.9)
    rest = int(random.integers(2, 7))
    indent = size * 2 if random.random() < 0.5 else 0
    first = True
    while top + pitch < sheet.height - size:
        room = right - left - (indent if first else 0)
        drawn = sheet.fill_row(size, room if rest else room * random.uniform(0.3, 0.8))
        sheet.put(drawn, right - room, top)
        first = rest == 0
        top += pitch * (1.5 if first else 1)
        rest = int(random.integers(2, 7)) if first else rest - 1


def _margin(sheet: Sheet) -> float:
    return sheet.width * sheet.random.uniform(0.04, 0.1)


def _head(sheet: Sheet, left: float, right: float, top: float) -> float:
    """A headline at times; where what follows it begins."""
    if sheet.random.random() < 0.35:
        return top
    drawn = sheet.write(sheet.size(30, 56), right - left)
    width = drawn.box[2] - drawn.box[0]
    sheet.put(drawn, left + (right - left - width) * sheet.random.choice([0, 0.5]), top, own_colour=True)
    return top + drawn.size * 1.9


def _column(sheet: Sheet) -> None:
    margin = _margin(sheet)
    left, right = margin, sheet.width - margin
    _paragraphs(sheet, left, right, _head(sheet, left, right, margin), sheet.size(16, 34))


def _columns(sheet: Sheet) -> None:
    margin = _margin(sheet)
    top = _head(sheet, margin, sheet.width - margin, margin)
    count = 3 if sheet.width > 1000 and sheet.random.random() < 0.3 else 2
    gap, size = sheet.width * 0.045, sheet.size(15, 24)
    width = (sheet.width - 2 * margin - gap * (count - 1)) / count
    for number in range(count):
        left = margin + number * (width + gap)
        _paragraphs(sheet, left, left + width, top, size)


def _form(sheet: Sheet) -> None:
    """Names of fields and their values, on a line or in a frame."""
    random, margin, size = sheet.random, _margin(sheet), sheet.size(16, 28)
    left, right = margin, sheet.width - margin
    top, pitch, stop = _head(sheet, left, right, margin), size * random.uniform(1.9, 2.6), random.uniform(0.3, 0.45)
    middle = left + (right - left) * stop
    framed = random.random() < 0.5
    while top + pitch < sheet.height - margin:
        sheet.put(sheet.write(size, middle - left - size, longest=10), left + size * 0.4, top)
        if random.random() < 0.85:
            value = sheet.write(size, right - middle - size, number=random.random() < 0.4)
            sheet.put(value, middle + size * 0.4, top, own_colour=random.random() < 0.2)
        below = top + pitch - size * 0.45
        sheet.rules.append((left if framed else middle, below, right, below))
        top += pitch
    if framed:
        foot = top - size * 0.45
        sheet.rules += [(x, sheet.rules[0][1], x, foot) for x in (left, middle, right)] if sheet.rules else []


def _receipt(sheet: Sheet) -> None:
    """A narrow strip: headlines in the middle, goods at the left and amounts at the right, a sum."""
    random, margin, size = sheet.random, sheet.width * 0.06, sheet.size(15, 22)
    left, right, top = margin, sheet.width - margin, float(size * 2)
    pitch = size * random.uniform(1.5, 1.9)
    for number in range(int(random.integers(1, 5))):
        drawn = sheet.write(size + (size // 2 if number == 0 else 0), right - left)
        sheet.put(drawn, (sheet.width - drawn.box[2] + drawn.box[0]) / 2, top)
        top += pitch * (1.6 if number == 0 else 1)
    while top + 4 * pitch < sheet.height:
        if random.random() < 0.12:
            sheet.rules.append((left, top + size * 0.4, right, top + size * 0.4))
        else:
            sheet.put(sheet.write(size, (right - left) * 0.55, longest=16), left, top)
            amount = sheet.write(size, (right - left) * 0.38, number=True)
            sheet.put(amount, right - (amount.box[2] - amount.box[0]), top)
        top += pitch
    sheet.put(sheet.write(size * 3 // 2, (right - left) * 0.5, longest=6), left, top)
    total = sheet.write(size * 3 // 2, (right - left) * 0.45, number=True)
    sheet.put(total, right - (total.box[2] - total.box[0]), top)


def _table(sheet: Sheet) -> None:
    random, margin, size = sheet.random, _margin(sheet), sheet.size(14, 24)
    left, right = margin, sheet.width - margin
    top, pitch = _head(sheet, left, right, margin), size * random.uniform(1.7, 2.5)
    count = int(np.clip((right - left) // (size * 7), 2, 6))
    width = (right - left) / count
    ruled, upright = random.random() < 0.75, random.random() < 0.6
    numbers = random.random(count) < 0.5
    first = top
    while top + pitch < sheet.height - margin and (top - first) / pitch < 24:
        for column in range(count):
            if random.random() < 0.92:
                drawn = sheet.write(size, width - size, number=bool(numbers[column]) and top > first)
                free = width - (drawn.box[2] - drawn.box[0]) - size
                x = left + column * width + size / 2 + (free if numbers[column] else 0)
                sheet.put(drawn, x, top + (pitch - (drawn.box[3] - drawn.box[1])) / 2)
        top += pitch
    if ruled:
        rows = np.arange(first, top + 1, pitch)
        sheet.rules += [(left, float(y), right, float(y)) for y in rows]
        sheet.rules += [(left + i * width, first, left + i * width, top) for i in range(count + 1)] if upright else []


def _label(sheet: Sheet, low: int, high: int, angle: float = 0) -> None:
    random, size = sheet.random, sheet.size(low, high)
    drawn = sheet.write(size, min(sheet.width, sheet.height) * 0.8)
    width, height = drawn.box[2] - drawn.box[0], drawn.box[3] - drawn.box[1]
    left = random.uniform(0, max(1.0, sheet.width - width))
    sheet.put(drawn, left, random.uniform(0, max(1.0, sheet.height - height)), angle=angle, own_colour=True)


def _labels(sheet: Sheet) -> None:
    """A few texts of all sizes, as on a poster or in a street."""
    for _ in range(int(sheet.random.integers(3, 22))):
        _label(sheet, 14, 80, angle=sheet.random.normal(0, 4) if sheet.random.random() < 0.3 else 0)


def _rotated(sheet: Sheet) -> None:
    """Lines at angles of their own, some of them upwards, downwards or on their head."""
    for _ in range(int(sheet.random.integers(5, 26))):
        turned = sheet.random.random() < 0.3
        angle = sheet.random.choice([90, -90, 180]) if turned else sheet.random.uniform(-50, 50)
        _label(sheet, 15, 48, angle=float(angle))


def _vertical(sheet: Sheet) -> None:
    """Lines downwards, from the right to the left; of Latin letters, lines turned by a quarter."""
    random, margin, size = sheet.random, _margin(sheet), sheet.size(16, 36)
    pitch = size * random.uniform(1.6, 2.4)
    x = sheet.width - margin - size
    while x > margin:
        drawn = _downwards(sheet, size, sheet.height - 2 * margin)
        if drawn is None:
            across = sheet.write(size, sheet.height - 2 * margin)
            width, height = across.box[2] - across.box[0], across.box[3] - across.box[1]
            sheet.put(across, x + size / 2 - width / 2, margin + width / 2 - height / 2, angle=90)
        else:
            sheet.put(drawn, x + size / 2 - (drawn.box[2] - drawn.box[0]) / 2, margin)
        x -= pitch


def _downwards(sheet: Sheet, size: int, room: float) -> Drawn | None:
    """A text of characters that stand upright in a line downwards; None where a few tries give none."""
    for _ in range(6):
        whole = sheet.texts.piece(sheet.random)
        text = "".join(c for c in whole if is_upright(c))
        if len(text) < 0.6 * len(whole):
            continue
        text = text[: max(1, int(room / (size * 1.08)) - 1)]
        face = sheet.face(text) if text else None
        if face is not None:
            return draw_down(text, face, size)
    return None


FILL: dict[str, Callable[[Sheet], None]] = {
    "column": _column,
    "columns": _columns,
    "form": _form,
    "receipt": _receipt,
    "table": _table,
    "labels": _labels,
    "vertical": _vertical,
    "rotated": _rotated,
}
