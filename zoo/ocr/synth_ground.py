"""Grounds, and colours of ink that can be told from them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from zoo import images
from zoo.ocr.synth_settings import GROUNDS

PAPER_SCALES = (4, 16, 64, 192)  # pixels of the blotches of paper


def luminance(bgr: np.ndarray) -> np.ndarray:
    """Relative luminance 0..1 of BGR values 0..255 [..., 3]. Source: WCAG 2.1, relative luminance."""
    value = np.asarray(bgr, np.float32) / 255
    linear = np.where(value <= 0.03928, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.0722, 0.7152, 0.2126], np.float32)


def contrast(one: float, other: float) -> float:
    """The contrast ratio of two luminances, 1 to 21. Source: WCAG 2.1, contrast ratio."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def ink_on(ground: np.ndarray, least: float, random: np.random.Generator) -> np.ndarray | None:
    """A BGR colour with at least that contrast to nearly all of the ground; None where the ground has no such."""
    low, high = np.percentile(luminance(ground.reshape(-1, 3)[:: max(1, ground.size // 6000)]), (3, 97))
    dull = random.random() < 0.6  # most of what is printed is nearly black, or white
    for attempt in range(12):
        extreme = dull or attempt > 8
        colour = random.integers(0, 256, 3)
        if extreme:
            colour = (
                random.integers(0, 40, 3) if contrast(0.0, low) > contrast(1.0, high) else random.integers(225, 256, 3)
            )
        light = float(luminance(colour))
        if not low <= light <= high and min(contrast(light, low), contrast(light, high)) >= least:
            return colour
    return None


def ground(height: int, width: int, folder: Path | None, random: np.random.Generator) -> np.ndarray:
    """uint8 [height, width, 3]: a part of one of the folder's pictures, or one of GROUNDS."""
    if folder is not None:
        return _photo(height, width, folder, random)
    kind = GROUNDS[int(random.choice(len(GROUNDS), p=(0.4, 0.15, 0.15, 0.3)))]
    light = random.random() < 0.8
    colour = (random.integers(200, 256, 3) if light else random.integers(0, 90, 3)).astype(np.float32)
    if light and random.random() < 0.6:  # paper is white or nearly so
        colour = np.float32(random.integers(235, 256)) + random.uniform(-6, 0, 3).astype(np.float32)
    base = np.broadcast_to(colour, (height, width, 3))
    if kind == "gradient":
        base = base + _gradient(height, width, random)[..., None] * random.uniform(-60, 60, 3).astype(np.float32)
    elif kind == "noise":
        base = base + random.normal(0, random.uniform(2, 9), (height, width, 1)).astype(np.float32)
    elif kind == "paper":
        base = base + _paper(height, width, random)[..., None]
    return np.clip(np.rint(base), 0, 255).astype(np.uint8)


def _gradient(height: int, width: int, random: np.random.Generator) -> np.ndarray:
    """float32 [height, width] from 0 to 1 in a random direction."""
    angle = random.uniform(0, 2 * np.pi)
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    slope = np.float32(np.cos(angle)) * columns / width + np.float32(np.sin(angle)) * rows / height
    return (slope - slope.min()) / max(float(np.ptp(slope)), 1e-6)


def _paper(height: int, width: int, random: np.random.Generator) -> np.ndarray:
    """float32 [height, width]: blotches of several sizes and a fine grain, in grey levels."""
    import cv2

    result = random.normal(0, 1.5, (height, width)).astype(np.float32)
    for scale in PAPER_SCALES:
        coarse = random.normal(0, random.uniform(0.5, 3), (height // scale + 2, width // scale + 2)).astype(np.float32)
        result += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return result


def _photo(height: int, width: int, folder: Path, random: np.random.Generator) -> np.ndarray:
    pictures = _pictures(folder)
    picture = images.decode(pictures[int(random.integers(len(pictures)))])
    scale = max(height / picture.shape[0], width / picture.shape[1], float(random.uniform(0.3, 1)))
    size = (max(height, round(picture.shape[0] * scale)), max(width, round(picture.shape[1] * scale)))
    picture = images.resize(picture, size)
    top, left = int(random.integers(size[0] - height + 1)), int(random.integers(size[1] - width + 1))
    return picture[top : top + height, left : left + width].copy()


@lru_cache(4)
def _pictures(folder: Path) -> tuple[Path, ...]:
    kinds = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
    found = tuple(sorted(p for p in folder.rglob("*") if p.suffix.lower() in kinds))
    if not found:
        raise ValueError(f"backgrounds {folder}: no picture there; give a folder with {', '.join(kinds)}")
    return found
