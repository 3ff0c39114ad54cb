"""Texts of one page pasted into another, turned by any angle, where they cover no text. No torch.

Source: PaddleOCR ppocr/data/imaug/copy_paste.py. Coordinates count from the edges of pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from zoo import images
from zoo.ocr.samples import PageSample
from zoo.ocr.settings import FORBID

LEAST = 4  # pixels; a text with a shorter side is not pasted


@dataclass(frozen=True, kw_only=True)
class CopyPaste:
    """ratio: of the other page's texts that are pasted; one at least, and at most `limit`. tries: places for each."""

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    ratio: float = 0.2
    limit: int = 30
    tries: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1 or self.limit < 1 or self.tries < 0:
            raise ValueError("augment.copy_paste: give a ratio from 0 to 1, a limit of 1 or more, tries of 0 or more")


def copy_paste(sample: PageSample, paste: PageSample, settings: CopyPaste, random: np.random.Generator) -> PageSample:
    """The page with texts of another page. Only regions of four corners are pasted, and none that is ignored.

    A text for which no place is found is left out. Unlike PaddleOCR's a turned text lies in the picture as a whole.
    """
    fitting = [i for i, p in enumerate(paste.polygons_xy) if len(p) == 4 and not paste.ignored[i]]
    count = max(1, min(int(settings.ratio * len(paste.polygons_xy)), settings.limit))
    chosen = [fitting[i] for i in random.permutation(len(fitting))[:count]]
    image = sample.image.copy() if chosen else sample.image
    polygons, texts = list(sample.polygons_xy), list(sample.texts)
    for index in chosen:
        quad = _pasted(image, paste.image, paste.polygons_xy[index], polygons, settings.tries, random)
        if quad is not None:
            polygons.append(quad)
            texts.append(paste.texts[index])
    ignored = np.concatenate([sample.ignored, np.zeros(len(polygons) - len(sample.polygons_xy), bool)])
    return replace(sample, image=image, polygons_xy=tuple(polygons), texts=tuple(texts), ignored=ignored)


def _pasted(
    image: np.ndarray,
    other: np.ndarray,
    quad_xy: np.ndarray,
    taken: list[np.ndarray],
    tries: int,
    random: np.random.Generator,
) -> np.ndarray | None:
    """Draws the text in a quad of another picture into this one, in place; where it lies now, or None."""
    import cv2

    sides = np.hypot(*(np.roll(quad_xy, -1, axis=0) - quad_xy).T)
    if sides.min() < LEAST or sides.max() > 2 * max(image.shape[:2]):
        return None
    crop = images.warp_quad(other, quad_xy)
    angle = np.deg2rad(random.integers(360))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    height, width = crop.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]]) @ turn.T
    shift = -corners.min(axis=0)
    corners += shift
    size = np.ceil(corners.max(axis=0) - 1e-6).astype(int)
    place = _place(size, image, taken, tries, random)
    if place is None:
        return None
    middles = turn @ [0.5, 0.5] + shift - 0.5  # OpenCV counts from the middles of pixels
    matrix = np.concatenate([turn, middles[:, None]], axis=1)
    bounds = (int(size[0]), int(size[1]))
    turned = cv2.warpAffine(crop, matrix, bounds, borderMode=cv2.BORDER_REPLICATE)
    alpha = cv2.warpAffine(np.full((height, width), 255, np.uint8), matrix, bounds)[..., None].astype(np.float32) / 255
    left, top = place
    part = image[top : top + bounds[1], left : left + bounds[0]]
    part[:] = np.rint(part * (1 - alpha) + turned * alpha).astype(np.uint8)
    return (corners + place).astype(np.float32)


def _place(
    size: np.ndarray, image: np.ndarray, taken: list[np.ndarray], tries: int, random: np.random.Generator
) -> tuple[int, int] | None:
    """Left and top of a free place of that (width, height), of which none overlaps the bounds of a text."""
    room = np.array([image.shape[1], image.shape[0]]) - size
    if (room < 0).any():
        return None
    low = np.array([p.min(axis=0) for p in taken]).reshape(-1, 2)
    high = np.array([p.max(axis=0) for p in taken]).reshape(-1, 2)
    for _ in range(tries):
        at = random.integers(0, room + 1)
        if not ((low < at + size).all(axis=1) & (high > at).all(axis=1)).any():
            return int(at[0]), int(at[1])
    return None
