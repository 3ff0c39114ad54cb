"""A seal as stamps leave it on paper: a ring or a frame, a star, and signs that are no real writing. No torch."""

from __future__ import annotations

import numpy as np

FINE = 3  # times larger that it is drawn, for smooth edges


def draw_seal(size: int, random: np.random.Generator) -> np.ndarray:
    """uint8 [size, size]: how much ink is where, 255 at most.

    The signs are made of chance strokes, so that a detector is not taught that real writing in a seal is none.
    """
    import cv2

    side = size * FINE
    plate: np.ndarray = np.zeros((side, side), np.uint8)
    if random.random() < 0.7:
        _round_plate(plate, random)
    else:
        _square_plate(plate, random)
    turn = cv2.getRotationMatrix2D((side / 2, side / 2), random.uniform(-25, 25), 0.96)
    plate = cv2.warpAffine(plate, turn, (side, side))
    seal = cv2.resize(plate, (size, size), interpolation=cv2.INTER_AREA)
    return np.rint(seal * _worn(size, random)).astype(np.uint8)


def _round_plate(plate: np.ndarray, random: np.random.Generator) -> None:
    import cv2

    side = len(plate)
    middle = (side // 2, side // 2)
    thick = max(1, round(side * random.uniform(0.02, 0.045)))
    cv2.circle(plate, middle, round(side * 0.46), 255, thick, cv2.LINE_AA)
    if random.random() < 0.3:
        cv2.circle(plate, middle, round(side * 0.41), 255, max(1, thick // 3), cv2.LINE_AA)
    cv2.fillPoly(plate, [_star(side, side * random.uniform(0.1, 0.16))], 255, cv2.LINE_AA)
    signs = int(random.integers(6, 15))
    for angle in np.linspace(-np.pi * 1.15, np.pi * 0.15, signs):
        at = np.array([np.cos(angle), np.sin(angle)]) * side * 0.33 + side / 2
        _sign(plate, at, side * min(0.15, 1.2 / signs), angle + np.pi / 2, random)


def _star(side: int, radius: float) -> np.ndarray:
    """int32 [10, 2]: a star of five points, one of them up."""
    angles = np.arange(10) * np.pi / 5 - np.pi / 2
    away = np.where(np.arange(10) % 2 == 0, radius, radius * 0.382)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * away[:, None] + side / 2
    return np.rint(points).astype(np.int32)


def _square_plate(plate: np.ndarray, random: np.random.Generator) -> None:
    import cv2

    side = len(plate)
    edge, count = round(side * 0.12), int(random.integers(2, 4))
    thick = max(1, round(side * random.uniform(0.02, 0.05)))
    cv2.rectangle(plate, (edge, edge), (side - edge, side - edge), 255, thick, cv2.LINE_AA)
    cell = (side - 2 * edge) / count
    for row in range(count):
        for column in range(count):
            at = np.array([column + 0.5, row + 0.5]) * cell + edge
            _sign(plate, at, cell * 0.75, 0.0, random)


def _sign(plate: np.ndarray, at: np.ndarray, size: float, angle: float, random: np.random.Generator) -> None:
    """A few straight strokes, level and upright ones mostly, in a square of that size."""
    import cv2

    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    for _ in range(int(random.integers(4, 8))):
        ends = random.uniform(-0.5, 0.5, (2, 2))
        if random.random() < 0.8:
            axis = int(random.integers(2))
            ends[1, axis] = ends[0, axis]
        first, second = (tuple(int(v) for v in np.rint(turn @ (end * size) + at)) for end in ends)
        cv2.line(plate, first, second, 255, max(1, round(size * 0.1)), cv2.LINE_AA)


def _worn(size: int, random: np.random.Generator) -> np.ndarray:
    """float32 [size, size] from 0 to 1: where the ink took badly."""
    import cv2

    cells = max(2, size // 12)
    spots = cv2.resize(random.random((cells, cells), np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
    grain = random.random((size, size), np.float32)
    return np.clip(1.15 - 0.7 * np.clip(spots, 0, 1) ** 2 - 0.35 * grain, 0, 1)
