"""Bends a line of text as handwriting and photos bend it: moved control points, and a turned plane. No torch.

Source: Luo et al. 2020, "Learn to Augment" (the control points); Schaefer et al. 2006, "Image Deformation Using Moving
Least Squares" (how the picture follows them, rigid variant); PaddleOCR ppocr/data/imaug/text_image_aug/augment.py.
Coordinates count from the edges of pixels: a picture reaches from (0, 0) to (width, height).
"""

from __future__ import annotations

import numpy as np

STEP = 8  # pixels between the places at which the deformation is worked out; between them it is linear
INWARDS = 0.25  # of the height, that the upper and the lower outline move inwards at most
LEAST_END = 0.5  # of the height, that the lower end of a tilted line keeps


def distort(image: np.ndarray, segments: int, random: np.random.Generator) -> np.ndarray:
    """The line, uint8 [h, w, 3], with the outline of each of its segments moved by up to a third of its width.

    Unlike PaddleOCR's, the upper and lower outlines move inwards only, and not past a quarter of the height: there a
    long line moves up and down by more than its height, and loses text.
    """
    height, width = image.shape[:2]
    cut = width / segments
    side, depth = cut / 3, min(cut / 3, height * INWARDS)
    xs = np.repeat(np.arange(segments + 1) * cut, 2)
    ys = np.tile([0.0, float(height)], segments + 1)
    moved_x = xs + random.uniform(-side / 2, side / 2, len(xs))
    moved_x[:2] = random.uniform(0, side, 2)
    moved_x[-2:] = width - random.uniform(0, side, 2)
    moved_y = ys + random.uniform(0, depth, len(ys)) * np.tile([1, -1], segments + 1)
    return warp(image, np.stack([xs, ys], axis=1), np.stack([moved_x, moved_y], axis=1))


def stretch(image: np.ndarray, segments: int, random: np.random.Generator) -> np.ndarray:
    """The line with its segments wider and narrower: the cuts move by up to 0.4 of a segment; the ends stay."""
    height, width = image.shape[:2]
    cut = width / segments
    xs = np.arange(segments + 1) * cut
    moved = xs + random.uniform(-0.4 * cut, 0.4 * cut, len(xs))
    moved[0], moved[-1] = 0, width
    return warp(image, _both_edges(xs, height), _both_edges(moved, height))


def _both_edges(xs: np.ndarray, height: int) -> np.ndarray:
    """float64 [2n, 2]: points at the upper and at the lower edge."""
    return np.concatenate([np.stack([xs, np.full(len(xs), y)], axis=1) for y in (0.0, float(height))])


def perspective(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The line seen from a side: each of its ends is lower, by up to half.

    A deviation from PaddleOCR, which moves four control points and can leave nothing of an end.
    """
    import cv2

    height, width = image.shape[:2]
    tops, bottoms = random.uniform(0, height / 2, (2, 2))
    excess = np.maximum((tops + bottoms) / (height * (1 - LEAST_END)), 1)
    (left_top, right_top), (left_bottom, right_bottom) = tops / excess, height - bottoms / excess
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    to = np.array([[0, left_top], [width, right_top], [width, right_bottom], [0, left_bottom]], np.float32)
    matrix = cv2.getPerspectiveTransform(corners - 0.5, to - 0.5)
    return cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def warp(image: np.ndarray, points_xy: np.ndarray, moved_xy: np.ndarray) -> np.ndarray:
    """The picture with points [n, 2] carried to where `moved_xy` says, and the rest with them; its size stays.

    Beyond the picture its edge pixels go on.
    """
    import cv2

    height, width = image.shape[:2]
    # A cell more on each side, so that enlarging the grid needs no guess at the border.
    xs = (np.arange(-1, -(-width // STEP) + 1) + 0.5) * STEP
    ys = (np.arange(-1, -(-height // STEP) + 1) + 0.5) * STEP
    found = deformed((xs[None, :] + 1j * ys[:, None]).ravel(), _complex(moved_xy), _complex(points_xy))
    maps = []
    for values in (found.real, found.imag):
        grid = values.reshape(len(ys), len(xs)).astype(np.float32)
        full = cv2.resize(grid, (len(xs) * STEP, len(ys) * STEP), interpolation=cv2.INTER_LINEAR)
        maps.append(full[STEP : STEP + height, STEP : STEP + width] - np.float32(0.5))
    return cv2.remap(image, maps[0], maps[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def deformed(places: np.ndarray, points: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Where places [m] go when points [n] go to `moved` [n] by moving least squares; all complex, x + iy.

    For each place the rotation and shift that fit the points best, the nearer ones counting more; as complex numbers
    the best rotation is the direction of one weighted sum.
    """
    apart = places[:, None] - points[None, :]
    weights = 1 / (apart.real**2 + apart.imag**2 + 1e-6)
    weights /= weights.sum(axis=1, keepdims=True)
    centre, moved_centre = weights @ points, weights @ moved
    rotation = (weights * np.conj(points[None] - centre[:, None]) * (moved[None] - moved_centre[:, None])).sum(axis=1)
    size = np.abs(rotation)
    direction = np.where(size > 1e-12, rotation / np.maximum(size, 1e-12), 1)
    return moved_centre + (places - centre) * direction


def _complex(points_xy: np.ndarray) -> np.ndarray:
    return points_xy[:, 0] + 1j * points_xy[:, 1]
