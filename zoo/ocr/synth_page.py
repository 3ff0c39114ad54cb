"""Made pages: texts in a layout, on a ground, tilted and worn, with the exact corners of every line and word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoo.ocr import synth_layout
from zoo.ocr.samples import PageSample
from zoo.ocr.synth_ground import ground, ink_on
from zoo.ocr.synth_ink import corners, moved, put
from zoo.ocr.synth_layout import Placed, Sheet
from zoo.ocr.synth_settings import SynthSettings

PAGES = 1  # the number of this kind of sample in the seed; lines have 0
PANEL_OPACITY = 0.85


@dataclass(frozen=True)
class SynthPage:
    """A page with a region for each line, and the same page with one for each word (and character of Chinese)."""

    lines: PageSample
    words: PageSample
    layout: str


class _Region(NamedTuple):
    text: str
    polygon_xy: np.ndarray


def synth_page(index: int, settings: SynthSettings) -> SynthPage:
    """The page of that number. Equal settings give equal pages in any process and order.

    Raises ValueError for a corpus, a font, a charset or a folder of backgrounds that cannot be used.
    """
    random = np.random.default_rng(np.random.SeedSequence([settings.seed, PAGES, index]))
    layout = settings.layouts[int(random.integers(len(settings.layouts)))]
    sheet = _laid_out(layout, settings, random)
    image = ground(sheet.height, sheet.width, settings.backgrounds, random)
    _draw(image, sheet, settings, random)
    lines = [_Region(p.drawn.text, _quad(p.drawn.box, p.matrix)) for p in sheet.placed]
    words = [_Region(text, _quad(box, p.matrix)) for p in sheet.placed for text, box in p.drawn.words]
    name = f"synthetic page {index} ({layout}, seed {settings.seed})"
    both = _sample(image, lines + words, name)
    if random.random() < settings.degrade:
        both = _worn(both, random)
    count = len(lines)
    return SynthPage(_part(both, 0, count), _part(both, count, len(both.texts)), layout)


def _laid_out(layout: str, settings: SynthSettings, random: np.random.Generator) -> Sheet:
    low, high = settings.page_side
    width, height = int(random.integers(low, high + 1)), int(random.integers(low, high + 1))
    if layout == "receipt":
        width = max(320, min(width, height * 6 // 10))
    sheet = Sheet(
        width, height, settings, random, _tilt(width, height, random) if random.random() < settings.warp else None
    )
    synth_layout.fill(layout, sheet)
    return sheet


def _tilt(width: int, height: int, random: np.random.Generator) -> np.ndarray:
    """A projective map [3, 3] as of a photo taken by hand: a turn of a few degrees, and corners pulled in a little."""
    import cv2

    quad = corners((0, 0, width, height))
    centre = np.array([width / 2, height / 2])
    angle = np.deg2rad(random.uniform(-6, 6))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    to = (quad - centre) @ turn.T * random.uniform(0.86, 0.98) + centre
    to += random.uniform(-0.025, 0.025, (4, 2)) * (width, height)
    return cv2.getPerspectiveTransform(quad.astype(np.float32), to.astype(np.float32))


def _draw(image: np.ndarray, sheet: Sheet, settings: SynthSettings, random: np.random.Generator) -> None:
    """Rules first, then the texts; most of a page is of one ink."""
    usual = ink_on(image, settings.contrast, random)
    for stroke in sheet.rules:
        _draw_rule(image, stroke, sheet.tilt, usual)
    for placed in sheet.placed:
        patch = _patch(image, placed)
        colour = usual if usual is not None and not placed.own_colour else ink_on(patch, settings.contrast, random)
        if colour is None:
            colour = _panel(image, placed, random)
        put(image, placed.drawn.alpha, placed.matrix, np.asarray(colour))


def _draw_rule(
    image: np.ndarray, stroke: tuple[float, float, float, float], tilt: np.ndarray | None, colour: np.ndarray | None
) -> None:
    import cv2

    ends = np.array(stroke, float).reshape(2, 2)
    ends = ends if tilt is None else moved(ends, tilt)
    tone = (np.array([120, 120, 120]) if colour is None else colour).tolist()
    first, last = (tuple(int(v) for v in np.rint(end)) for end in ends)
    cv2.line(image, first, last, tone, 1, cv2.LINE_AA)


def _patch(image: np.ndarray, placed: Placed) -> np.ndarray:
    """The part of the picture behind a text; at least a pixel."""
    quad = _quad(placed.drawn.box, placed.matrix)
    left, top = np.clip(np.floor(quad.min(axis=0)).astype(int), 0, (image.shape[1] - 1, image.shape[0] - 1))
    right, bottom = np.ceil(quad.max(axis=0)).astype(int)
    return image[top : max(bottom, top + 1), left : max(right, left + 1)]


def _panel(image: np.ndarray, placed: Placed, random: np.random.Generator) -> np.ndarray:
    """Lays an even panel behind a text that no ink would show on, in place; gives the colour of the ink."""
    left, top, right, bottom = placed.drawn.box
    room = 0.2 * placed.drawn.size
    outline = _quad((left - room, top - room, right + room, bottom + room), placed.matrix)
    import cv2

    light = random.random() < 0.5
    tone = random.integers(225, 256, 3) if light else random.integers(0, 40, 3)
    painted = image.copy()
    cv2.fillPoly(painted, [np.rint(outline).astype(np.int32)], tone.tolist())
    image[:] = np.rint(painted * PANEL_OPACITY + image * (1 - PANEL_OPACITY)).astype(np.uint8)
    return random.integers(0, 30, 3) if light else random.integers(235, 256, 3)


def _quad(box: tuple[float, float, float, float], matrix: np.ndarray) -> np.ndarray:
    return moved(corners(box), matrix).astype(np.float32)


def _sample(image: np.ndarray, regions: list[_Region], name: str) -> PageSample:
    quads, texts = tuple(r.polygon_xy for r in regions), tuple(r.text for r in regions)
    return PageSample(image, quads, texts, np.zeros(len(regions), bool), name)


def _worn(sample: PageSample, random: np.random.Generator) -> PageSample:
    from zoo.ocr.degrade import Degrade, degrade_page

    found = degrade_page(sample, Degrade(), random)
    assert found.texts == sample.texts, "degrading keeps every region"
    return found


def _part(sample: PageSample, first: int, last: int) -> PageSample:
    part = slice(first, last)
    return PageSample(sample.image, sample.polygons_xy[part], sample.texts[part], sample.ignored[part], sample.name)
