"""What training does to a line's picture, and how lines of several sizes make batches. No torch.

Source: PaddleOCR ppocr/data/imaug/rec_img_aug.py (RecAug, RecConAug, RecResizeImg), ppocr/data/multi_scale_sampler.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from zoo import images
from zoo.ocr import tia
from zoo.ocr.degrade import Degrade, degrade_line
from zoo.ocr.predict import LINE_HEIGHT, line_tensor
from zoo.ocr.samples import LineSample
from zoo.ocr.settings import FORBID

LEAST = 20  # pixels; lines lower or narrower are neither bent nor cropped
WIDTH_MULTIPLE = 8  # pixels; widths of batches are rounded up to it


@dataclass(frozen=True, kw_only=True)
class LineAugment:
    """How often a training line is changed, as shares of the lines, and how much. The defaults are PP-OCRv3's.

    tia: bent and stretched in so many segments (lowest, highest). perspective: seen from a side; PaddleOCR does it
        to the lines it bends. crop: 1 to 8 pixels cut from above or below.
    blur: Gaussian of 5 pixels, sigma 1. colour: brightness by up to colour_strength. jitter: smeared by up to a
        hundredth of its shorter side. noise: normal, of noise_sigma in values of 0..255. invert: light for dark.
    concat: joined with other lines (`concat_lines`). degrade: what paper and camera do to it; None for nothing.
    The published strengths of colour and noise change next to nothing; 0.3 and 8 can be seen.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    tia: float = 0.4
    segments: tuple[int, int] = (3, 6)
    perspective: float = 0.4
    crop: float = 0.4
    blur: float = 0.4
    colour: float = 0.4
    colour_strength: float = 0.001
    jitter: float = 0.4
    noise: float = 0.4
    noise_sigma: float = 0.16
    invert: float = 0.4
    concat: float = 0.5
    degrade: Degrade | None = None

    def __post_init__(self) -> None:
        for name in ("tia", "perspective", "crop", "blur", "colour", "jitter", "noise", "invert", "concat"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"augment.{name}={getattr(self, name)!r}: give a share from 0 to 1")
        if not 1 <= self.segments[0] <= self.segments[1]:
            raise ValueError(f"augment.segments={self.segments!r}: give the lowest and the highest number, 1 or more")
        if not 0 <= self.colour_strength <= 1 or self.noise_sigma < 0:
            raise ValueError("augment.colour_strength must be from 0 to 1, augment.noise_sigma 0 or more")


NO_LINE_AUGMENT = LineAugment(
    tia=0, perspective=0, crop=0, blur=0, colour=0, jitter=0, noise=0, invert=0, concat=0
)  # to be changed in one place, with `dataclasses.replace`


def augment_line(sample: LineSample, settings: LineAugment, random: np.random.Generator) -> LineSample:
    """The line with everything that chance picks done to it; its text stays, and stays whole."""
    if settings.degrade is not None:
        sample = degrade_line(sample, settings.degrade, random)
    image = _bent(sample.image, settings, random)
    if random.random() < settings.blur:
        image = blur(image)
    if random.random() < settings.colour:
        image = recolour(image, settings.colour_strength, random)
    if random.random() < settings.jitter:
        image = jitter(image, random)
    if random.random() < settings.noise:
        image = add_noise(image, settings.noise_sigma, random)
    if random.random() < settings.invert:
        image = 255 - image
    return replace(sample, image=image)


def _bent(image: np.ndarray, settings: LineAugment, random: np.random.Generator) -> np.ndarray:
    if min(image.shape[:2]) < LEAST:
        return image
    if random.random() < settings.tia:
        low, high = settings.segments
        image = tia.distort(image, int(random.integers(low, high + 1)), random)
        image = tia.stretch(image, int(random.integers(low, high + 1)), random)
    if random.random() < settings.perspective:
        image = tia.perspective(image, random)
    return crop(image, random) if random.random() < settings.crop else image


def crop(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The line without its first or last 1 to 8 rows; no more than a sixth of them, which PaddleOCR does not heed."""
    height = image.shape[0]
    rows = min(int(random.integers(1, 9)), height // 6)
    return image[rows:] if random.random() < 0.5 else image[: height - rows]


def blur(image: np.ndarray) -> np.ndarray:
    """The line out of focus."""
    import cv2

    return cv2.GaussianBlur(image, (5, 5), 1)


def recolour(image: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """The line brighter or darker by up to a share of its values."""
    import cv2

    gain = 1 + random.uniform(-strength, strength)
    return cv2.LUT(image, np.clip(np.rint(np.arange(256) * gain), 0, 255).astype(np.uint8))


def jitter(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The line over itself, moved right and down by up to a hundredth of its shorter side."""
    height, width = image.shape[:2]
    shift = int(random.random() * min(height, width) * 0.01)
    if not shift:
        return image
    moved = image.copy()
    for step in range(1, shift + 1):
        moved[step:, step:] = image[:-step, :-step]
    return moved


def add_noise(image: np.ndarray, sigma: float, random: np.random.Generator) -> np.ndarray:
    """The line with normal noise, of its own in each channel."""
    noise = random.standard_normal(image.shape, np.float32) * np.float32(sigma)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


def concat_lines(first: LineSample, others: Sequence[LineSample], max_length: int, max_ratio: float) -> LineSample:
    """The line with others joined on at its right, up to the first that would make it too long.

    max_length: characters that the whole may have. max_ratio: width over height of the whole.
    """
    pictures, texts = [first], first.text
    ratio = _ratio(first)
    for other in others:
        ratio += _ratio(other)
        if len(texts) + len(other.text) > max_length or ratio > max_ratio:
            break
        pictures.append(other)
        texts += other.text
    if len(pictures) == 1:
        return first
    parts = [images.resize(p.image, (LINE_HEIGHT, max(1, round(LINE_HEIGHT * _ratio(p))))) for p in pictures]
    return LineSample(np.concatenate(parts, axis=1), texts, " + ".join(p.name for p in pictures))


def _ratio(sample: LineSample) -> float:
    return float(sample.image.shape[1] / sample.image.shape[0])


def fit_line(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """float32 [3, height, width] in -1..1: the line at that height, its ratio kept, zeros to its right.

    A line that is longer is squeezed into the width.
    """
    return line_tensor(image, width, height)[0]


def bucket_batches(
    ratios: np.ndarray,
    *,
    scales: Sequence[tuple[int, int]],
    first_batch: int,
    seed: int,
    epoch: int,
    rank: int,
    world: int,
    drop_last: bool = True,
) -> list[tuple[int, int, np.ndarray]]:
    """One process's batches of an epoch: height and width of the pictures, and int64 [N] places in `ratios`.

    ratios: float [lines], width over height. scales: (width, height) in pixels; they take turns. Lines of similar
    ratio go together: a batch is as wide as its longest line at the scale's height, in steps of 8 pixels, but not
    wider than the scale. It has as many lines as keep the number of pixels of `first_batch` lines at the first scale.
    The batches depend on nothing but seed and epoch; every process gets as many, of the same sizes. What fills no
    batch, a few lines that differ from epoch to epoch, is left out; without drop_last it is filled up with repetitions.
    """
    _check_buckets(scales, first_batch, rank, world)
    random = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    widest = max(width / height for width, height in scales)
    buckets = np.ceil(np.minimum(ratios, widest)).clip(1)
    order = random.permutation(len(ratios))
    order = order[np.argsort(-buckets[order], kind="stable")]
    order = np.roll(order, random.integers(len(order)) if len(order) else 0)  # so that what is left out differs
    pixels = scales[0][0] * scales[0][1] * first_batch
    batches: list[tuple[int, int, np.ndarray]] = []
    start = 0
    while start < len(order):
        scale = scales[len(batches) % len(scales)]
        width, part = _next_batch(ratios, order[start:], scale, pixels, world)
        wanted = max(1, pixels // (width * scale[1])) * world
        start += len(part)
        if len(part) < wanted:
            if drop_last:
                break
            part = np.resize(part, wanted)
        batches.append((scale[1], width, part[rank::world]))
    return [batches[i] for i in random.permutation(len(batches))]


def _next_batch(
    ratios: np.ndarray, rest: np.ndarray, scale: tuple[int, int], pixels: int, world: int
) -> tuple[int, np.ndarray]:
    """Width of the next batch and the first of the rest that go into it: no more than the pixels allow."""
    width = _batch_width(ratios[rest[:1]], scale)
    while True:
        part = rest[: max(1, pixels // (width * scale[1])) * world]
        needed = _batch_width(ratios[part], scale)
        if needed <= width:
            return width, part
        width = needed


def _batch_width(ratios: np.ndarray, scale: tuple[int, int]) -> int:
    longest = int(np.ceil(scale[1] * ratios.max() / WIDTH_MULTIPLE)) * WIDTH_MULTIPLE
    return min(scale[0], max(longest, WIDTH_MULTIPLE))


def _check_buckets(scales: Sequence[tuple[int, int]], first_batch: int, rank: int, world: int) -> None:
    if not scales or any(width < 1 or height < 1 for width, height in scales):
        raise ValueError(f"scales={list(scales)!r}: give one (width, height) in pixels or more")
    if first_batch < 1:
        raise ValueError(f"first_batch={first_batch}: give 1 or more")
    if not 0 <= rank < world:
        raise ValueError(f"rank={rank} of world={world}: give a rank from 0 up to the number of processes")
