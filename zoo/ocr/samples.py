"""What a labelled page and a labelled line are, as every reader of labels gives them and every augmentation takes them.

No torch: the same samples serve the checks, the contact sheets and the training loader.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class BadSample(ValueError):
    """A sample that cannot be used; its message begins with file:line (or the picture) and says what is wrong."""


@dataclass(frozen=True)
class PageSample:
    """A picture with its text regions.

    image: uint8 [H, W, 3] BGR. polygons_xy: one float32 [n >= 3, 2] each, pixels of the image. texts: one each.
    ignored: bool [len(polygons_xy)], regions that must be neither learned nor counted ("###" and "*").
    name: file:line or file, for messages.
    """

    image: np.ndarray
    polygons_xy: tuple[np.ndarray, ...]
    texts: tuple[str, ...]
    ignored: np.ndarray
    name: str


@dataclass(frozen=True)
class LineSample:
    """A line's picture, uint8 [h, w, 3] BGR, what it says, and its name for messages."""

    image: np.ndarray
    text: str
    name: str
