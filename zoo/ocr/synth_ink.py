"""Fonts and glyphs: what a text looks like, and exactly where its ink is."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.ocr import fonts
from zoo.ocr.synth_text import is_wide, words

COLLECTION = 64  # faces of a file that are looked at
SAMPLE = 24  # pixels at which a font is tried for a character
LEAST_BAND = 0.5  # of the font's size: a line of dots or dashes is taken to be at least this high
UNUSUAL = ("math", "emoji", "symbol", "icon", "braille", "awesome")  # in the name of a font that is no text face


class Face(NamedTuple):
    """A font file and the number of the face in it; None is Pillow's own font."""

    path: str | None
    number: int = 0

    def at(self, size: int) -> Any:
        """The Pillow font of that size in pixels. Raises ValueError for a file that is no font."""
        return _font(self, size)

    def covers(self, text: str) -> bool:
        """Whether it has a drawing of its own for every character but the spaces."""
        return all(_has(self, character) for character in text if not character.isspace())


@lru_cache(128)
def _font(face: Face, size: int) -> Any:
    from PIL import ImageFont

    if face.path is None:
        return ImageFont.load_default(size)
    try:
        return ImageFont.truetype(face.path, size, index=face.number)
    except OSError as error:
        number = f"#{face.number}" if face.number else ""
        raise ValueError(f"font {face.path}{number}: {error}; name a .ttf, .otf or .ttc file") from None


@cache
def _has(face: Face, character: str) -> bool:
    """Whether the glyph has ink and is not the sign for "not there"."""
    drawn = _glyph(face, character)
    return any(drawn[1]) and drawn != _glyph(face, "\U0010fffe")


@cache
def _glyph(face: Face, character: str) -> tuple[Any, bytes]:
    mask = _font(face, SAMPLE).getmask(character)
    return mask.size, bytes(mask)


@lru_cache(8)
def faces(names: tuple[str, ...]) -> tuple[Face, ...]:
    """The faces of font files, `file.ttc#2` being one of a collection, and of folders; of no names, the system's.

    Raises ValueError for what is no font, and for a folder without one.
    """
    if not names:
        found = [None if path is None else str(path) for path in fonts.candidates()]
        usual = [path for path in found if path is None or not any(w in Path(path).name.lower() for w in UNUSUAL)]
        return tuple(_simplified(Face(path)) for path in usual if path is None or _is_font(Face(path)))
    result: list[Face] = []
    for name in names:
        result += _faces_of(name)
    return tuple(result)


def _faces_of(name: str) -> list[Face]:
    path, _, index = name.rpartition("#")
    face = (
        Face(str(Path(path).expanduser()), int(index))
        if path and index.isdigit()
        else Face(str(Path(name).expanduser()))
    )
    assert face.path is not None
    if not Path(face.path).is_dir():
        face.at(SAMPLE)
        return [face]
    inside = sorted(p for p in Path(face.path).rglob("*") if p.suffix.lower() in fonts.SUFFIXES)
    if not inside:
        raise ValueError(f"font {name}: the folder holds no .ttf, .otf or .ttc file")
    for one in inside:
        Face(str(one)).at(SAMPLE)
    return [Face(str(one)) for one in inside]


def _simplified(face: Face) -> Face:
    """Of a collection for Chinese, Japanese and Korean the face with the forms of simplified Chinese, else the first.

    The first of Noto's is the Japanese one, in which a common character such as U+95E8 looks like another.
    """
    if face.path is None or Path(face.path).suffix.lower() not in (".ttc", ".otc"):
        return face
    for number in range(COLLECTION):
        one = Face(face.path, number)
        if not _is_font(one):
            break
        if " SC" in str(one.at(SAMPLE).getname()[0]):
            return one
    return face


def _is_font(face: Face) -> bool:
    try:
        face.at(SAMPLE)
    except ValueError:
        return False  # one of the system's that FreeType cannot read; nobody asked for it
    return True


def face_for(text: str, known: tuple[Face, ...], random: np.random.Generator) -> Face | None:
    """One of the faces that have all characters of the text, at random; None where there is none."""
    for number in random.permutation(len(known)):
        if known[number].covers(text):
            return known[number]
    return None


# --- glyphs ----------------------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """A text as drawn. alpha: uint8 [h, w], the ink. box: its bounds (left, top, right, bottom) in pixels of alpha.

    words: the text of each and its bounds. Those of a line written across are as high as the line, those of one
    written downwards as wide, as the words that `zoo.ocr` reads are.
    """

    text: str
    alpha: np.ndarray
    box: tuple[float, float, float, float]
    words: tuple[tuple[str, tuple[float, float, float, float]], ...]
    face: Face
    size: int


def draw_across(text: str, face: Face, size: int, bold: int = 0) -> Drawn:
    """The text on one line. bold: pixels that the strokes are made wider by on each side."""
    from PIL import Image, ImageDraw

    font = face.at(size)
    left, top, right, bottom = font.getbbox(text, stroke_width=bold)
    room = 2
    width, height = int(np.ceil(right - left)) + 2 * room, int(np.ceil(bottom - top)) + 2 * room
    picture = Image.new("L", (max(width, 1), max(height, 1)), 0)
    origin = (room - left, room - top)
    ImageDraw.Draw(picture).text(origin, text, font=font, fill=255, stroke_width=bold)
    alpha = np.asarray(picture)
    box = _grown(ink_box(alpha), size)
    parts = []
    for word in words(text):
        start = origin[0] + font.getlength(text[: word.start])
        w_left, _, w_right, _ = font.getbbox(text[word.start : word.end], stroke_width=bold)
        edges = _ink_between(alpha, *np.clip((start + w_left, start + w_right), box[0], box[2]))
        parts.append((text[word.start : word.end], (edges[0], box[1], edges[1], box[3])))
    return Drawn(text, alpha, box, tuple(parts), face, size)


def draw_down(text: str, face: Face, size: int) -> Drawn:
    """The text's characters one below the other, each in the middle of a square of the font's size; spaces go."""
    from PIL import Image, ImageDraw

    font = face.at(size)
    characters = [c for c in text if not c.isspace()]
    pitch = round(size * 1.08)
    width = round(size * 1.3)
    picture = Image.new("L", (width, pitch * len(characters) + size // 2), 0)
    pen = ImageDraw.Draw(picture)
    rows = []
    for number, character in enumerate(characters):
        left, top, right, bottom = font.getbbox(character)
        y = size // 4 + number * pitch + (pitch - (bottom - top)) / 2
        pen.text(((width - (right - left)) / 2 - left, y - top), character, font=font, fill=255)
        rows.append((y, y + bottom - top))
    alpha = np.asarray(picture)
    left, top, right, bottom = ink_box(alpha)
    parts = tuple((c, (left, y0, right, y1)) for c, (y0, y1) in zip(characters, rows, strict=True))
    return Drawn("".join(characters), alpha, (left, top, right, bottom), parts, face, size)


def ink_box(alpha: np.ndarray) -> tuple[float, float, float, float]:
    """Bounds of what is over a tenth of full ink; the whole where there is none."""
    rows = np.flatnonzero((alpha > 25).any(axis=1))
    columns = np.flatnonzero((alpha > 25).any(axis=0))
    if not len(rows):
        return 0.0, 0.0, float(alpha.shape[1]), float(alpha.shape[0])
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def _ink_between(alpha: np.ndarray, left: float, right: float) -> tuple[float, float]:
    """The part of a span of columns that has ink: Pillow counts a glyph's bearing to its bounds. All of it without."""
    first, last = int(np.floor(left)), int(np.ceil(right))
    columns = np.flatnonzero((alpha[:, first:last] > 25).any(axis=0))
    if not len(columns):
        return float(left), float(right)
    return max(float(left), float(first + columns[0])), min(float(right), float(first + columns[-1] + 1))


def _grown(box: tuple[float, float, float, float], size: int) -> tuple[float, float, float, float]:
    left, top, right, bottom = box
    more = max(0.0, (size * LEAST_BAND - (bottom - top)) / 2)
    return left, top - more, right, bottom + more


def corners(box: tuple[float, float, float, float]) -> np.ndarray:
    """float64 [4, 2]: the corners of bounds, from the top left, clockwise."""
    left, top, right, bottom = box
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])


def is_upright(character: str) -> bool:
    """Whether a character is written the same in a line that goes downwards; punctuation is not."""
    return is_wide(character) and character.isalpha()


def put(image: np.ndarray, alpha: np.ndarray, matrix: np.ndarray, colour: np.ndarray) -> None:
    """Draws ink into a picture, in place. matrix: float64 [3, 3], from pixels of alpha to those of the picture."""
    import cv2

    height, width = alpha.shape
    outline = moved(corners((0, 0, width, height)), matrix)
    low = np.maximum(np.floor(outline.min(axis=0)).astype(int), 0)
    high = np.minimum(np.ceil(outline.max(axis=0)).astype(int) + 1, [image.shape[1], image.shape[0]])
    if (high <= low).any():
        return
    shift = np.array([[1, 0, -low[0]], [0, 1, -low[1]], [0, 0, 1]], float)
    # OpenCV counts from the middles of pixels, the boxes from their edges.
    to_edges, to_middles = _shifted(0.5), _shifted(-0.5)
    size = (int(high[0] - low[0]), int(high[1] - low[1]))
    ink = cv2.warpPerspective(alpha, to_middles @ shift @ matrix @ to_edges, size, flags=cv2.INTER_LINEAR)
    part = image[low[1] : high[1], low[0] : high[0]]
    weight = ink[..., None].astype(np.float32) / 255
    part[:] = np.rint(part * (1 - weight) + colour.astype(np.float32) * weight).astype(np.uint8)


def _shifted(by: float) -> np.ndarray:
    return np.array([[1, 0, by], [0, 1, by], [0, 0, 1]])


def moved(points_xy: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points [n, 2] under a projective map [3, 3]."""
    found = np.concatenate([points_xy, np.ones((len(points_xy), 1))], axis=1) @ matrix.T
    return found[:, :2] / found[:, 2:]
