"""Contact sheets of labels: as they are, as training changes them, and each change alone. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from zoo.ocr.augment_line import NO_LINE_AUGMENT, LineAugment, augment_line, concat_lines
from zoo.ocr.augment_page import NO_PAGE_AUGMENT, ColourJitter, PageAugment, augment_page
from zoo.ocr.degrade import CHANCES, NO_DEGRADE, Degrade
from zoo.ocr.evaluation import Samples
from zoo.ocr.paste import CopyPaste
from zoo.ocr.samples import BadSample, LineSample, PageSample
from zoo.ocr.sheet import contact_sheet, line_tile, page_tile

LINE_STEPS = ("tia", "perspective", "crop", "blur", "colour", "jitter", "noise", "invert", "concat")
PAGE_STEPS = ("copy_paste", "fliplr", "rotate", "crop", "perspective", "colour")
AS_IT_IS = "as it is"
_LINE = (320, 48)  # greatest width, and height, of a line in the sheet
_PAGE = 320  # pixels of a page's longer side
_WHOLE = (1 << 15, 1 << 15)  # a crop that no page fills: `_changed_page` takes the page's own size for it
_LONGEST = 25  # characters of lines that are joined
_RATIO = 320 / 48  # and their width over height


@dataclass(frozen=True)
class Shown:
    """A sheet, uint8 [H, W, 3], and what was said of the labels that could not be shown."""

    image: np.ndarray
    skipped: tuple[str, ...]


def line_steps(settings: LineAugment) -> dict[str, LineAugment | None]:
    """Each change of `settings` alone, at its strength and for every line, after None for the line as it is."""
    bare = replace(
        NO_LINE_AUGMENT,
        segments=settings.segments,
        colour_strength=settings.colour_strength,
        noise_sigma=settings.noise_sigma,
    )
    steps: dict[str, LineAugment | None] = {AS_IT_IS: None}
    steps |= {name: replace(bare, **{name: 1.0}) for name in LINE_STEPS}  # type: ignore[arg-type]
    return steps | {name: replace(bare, degrade=one) for name, one in _degradations(settings.degrade).items()}


def page_steps(settings: PageAugment) -> dict[str, PageAugment | None]:
    """Each change of `settings` alone and for every page, after None for the page as it is.

    A change that they leave out is shown at its default strength. "crop" has the scale, which shows in nothing else.
    """
    bare = replace(NO_PAGE_AUGMENT, crop=_WHOLE, tries=0)
    rotate = settings.rotate if settings.rotate != (0, 0) else PageAugment().rotate
    alone: tuple[PageAugment, ...] = (
        replace(bare, copy_paste=settings.copy_paste or CopyPaste()),
        replace(bare, fliplr=1.0),
        replace(bare, rotate=rotate, rotated=1.0),
        replace(bare, scale=settings.scale, crop=settings.crop, tries=settings.tries, least_side=settings.least_side),
        replace(bare, perspective=1.0, perspective_depth=settings.perspective_depth),
        replace(bare, colour=settings.colour or ColourJitter()),
    )
    steps: dict[str, PageAugment | None] = {AS_IT_IS: None}
    steps |= dict(zip(PAGE_STEPS, alone, strict=True))
    return steps | {name: replace(bare, degrade=one) for name, one in _degradations(settings.degrade).items()}


def _degradations(settings: Degrade | None) -> dict[str, Degrade]:
    bare = replace(NO_DEGRADE, ignore_over=(settings or NO_DEGRADE).ignore_over)
    return {name: replace(bare, **{name: 1.0}) for name in CHANCES}


def pick(size: int, count: int, seed: int) -> list[int]:
    """`count` different places of `size`, or all of them, in order."""
    chosen = np.random.default_rng(seed).choice(size, size=min(size, count), replace=False)
    return sorted(int(place) for place in chosen)


def show_lines(
    labels: Samples[LineSample],
    places: Sequence[int],
    steps: Mapping[str, LineAugment | None],
    *,
    columns: int,
    seed: int,
) -> Shown:
    """The lines of `places`, once for each step. With several steps each has rows of its own, under its name."""
    samples, skipped = _good(labels, places)
    tiles = []
    for (number, (step, settings)), (place, sample) in product(enumerate(steps.items()), enumerate(samples)):
        random = np.random.default_rng([seed, number, place])
        made = sample if settings is None else _changed_line(sample, samples, settings, random)
        tiles.append(line_tile(made, *_LINE, f"{step}: {made.text}" if len(steps) > 1 else None))
    return Shown(contact_sheet(tiles, _columns(columns, len(samples), len(steps))), tuple(skipped))


def show_pages(
    labels: Samples[PageSample],
    places: Sequence[int],
    steps: Mapping[str, PageAugment | None],
    *,
    columns: int,
    seed: int,
) -> Shown:
    """The pages of `places`, once for each step. With several steps each has rows of its own, under its name."""
    samples, skipped = _good(labels, places)
    tiles = []
    for (number, (step, settings)), (place, sample) in product(enumerate(steps.items()), enumerate(samples)):
        random = np.random.default_rng([seed, number, place])
        made = sample if settings is None else _changed_page(sample, samples, settings, random)
        tiles.append(page_tile(made, _PAGE, f"{step}: {len(made.texts)} regions" if len(steps) > 1 else None))
    return Shown(contact_sheet(tiles, _columns(columns, len(samples), len(steps))), tuple(skipped))


def _good(labels: Samples[LineSample] | Samples[PageSample], places: Sequence[int]) -> tuple[list, list[str]]:  # type: ignore[type-arg]
    samples, skipped = [], []
    for place in places:
        try:
            samples.append(labels[place])
        except BadSample as error:
            skipped.append(str(error))
    if not samples and skipped:
        raise ValueError(f"none of {len(skipped)} labels can be shown; the first: {skipped[0]}")
    return samples, skipped


def _columns(wanted: int, samples: int, steps: int) -> int:
    """So that the rows of one step hold nothing of the next."""
    return samples if steps > 1 else wanted


def _changed_line(
    sample: LineSample, samples: Sequence[LineSample], settings: LineAugment, random: np.random.Generator
) -> LineSample:
    if random.random() < settings.concat:
        others = [samples[i] for i in random.integers(len(samples), size=2)]
        sample = concat_lines(sample, others, _LONGEST, _RATIO)
    return augment_line(sample, settings, random)


def _changed_page(
    sample: PageSample, samples: Sequence[PageSample], settings: PageAugment, random: np.random.Generator
) -> PageSample:
    height, width = sample.image.shape[:2]
    whole = replace(settings, crop=(min(settings.crop[0], height), min(settings.crop[1], width)))
    own = settings if settings.tries else whole
    return augment_page(sample, own, random, samples[int(random.integers(len(samples)))])
