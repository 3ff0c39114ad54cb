"""How long the detection targets of one training crop take, on one core; the aim is 10 ms for 640 x 640 and 50 texts.

python benchmarks/ocr_targets.py [--repeats 50] [--texts 50] [--side 640]
"""

from __future__ import annotations

import argparse
import statistics
import time

import cv2
import numpy as np

from zoo.ocr.targets import det_targets


def main() -> None:
    """Prints the median and the slowest time for text in rows, turned words, and polygons of 12 points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--texts", type=int, default=50)
    parser.add_argument("--side", type=int, default=640)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    random = np.random.default_rng(0)
    print(f"{arguments.texts} texts in {arguments.side} x {arguments.side} pixels, one core, ms per crop")
    for name, corners, degrees in (("level", 4, 0.0), ("turned", 4, 30.0), ("curved", 12, 10.0)):
        pages = [page(arguments.texts, arguments.side, corners, degrees, random) for _ in range(arguments.repeats)]
        times = [timed(polygons, arguments.side) for polygons in pages]
        print(f"{name:8s} median {statistics.median(times):6.2f}   slowest {max(times):6.2f}")


def page(count: int, side: int, corners: int, degrees: float, random: np.random.Generator) -> list[np.ndarray]:
    """Polygons of words 40 to 160 pixels wide and 14 to 34 high, turned by up to so many degrees."""
    upper = np.linspace(0, 1, corners // 2)
    outline = np.concatenate([np.stack([upper, 0 * upper], 1), np.stack([upper[::-1], 1 + 0 * upper], 1)])
    made = []
    for _ in range(count):
        size = random.uniform([40, 14], [160, 34])
        points = (outline - 0.5) * size
        if corners > 4:
            points[:, 1] += 6 * np.cos(np.pi * (outline[:, 0] - 0.5))
        angle = np.deg2rad(random.uniform(-degrees, degrees))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        made.append((points @ turn.T + random.uniform(60, side - 60, 2)).astype(np.float32))
    return made


def timed(polygons: list[np.ndarray], side: int) -> float:
    """Milliseconds for the maps of one crop."""
    ignored = np.zeros(len(polygons), bool)
    start = time.perf_counter()
    det_targets(polygons, ignored, (side, side))
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
