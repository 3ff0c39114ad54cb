"""Small sets of labels with pictures, for the tests of labels. Every picture is 100 wide and 60 high unless said."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

SQUARE = [[10, 10], [50, 10], [50, 30], [10, 30]]


def picture(file: Path, width: int = 100, height: int = 60, grey: int = 120) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(file), np.full((height, width, 3), grey, np.uint8))
    return file


def listed(file: Path, *lines: str) -> Path:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def region(text: str, points: list[list[float]] | None = None) -> dict[str, object]:
    return {"transcription": text, "points": SQUARE if points is None else points}


def page(path: str, *regions: dict[str, object]) -> str:
    return f"{path}\t{json.dumps(regions, ensure_ascii=False)}"
