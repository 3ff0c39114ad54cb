"""Tiny labelled sets made by the tests: printed words as lines and as pages, in PaddleOCR's label formats."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

WORDS = ("ab", "cab", "bad", "dab", "ace", "bed", "fee", "fad")


def word(text: str, height: int = 40) -> np.ndarray:
    """Black on white, uint8 [height, w, 3]."""
    picture = np.full((height, 12 + 24 * len(text), 3), 255, np.uint8)
    cv2.putText(picture, text, (6, height - 12), cv2.FONT_HERSHEY_SIMPLEX, 1.0, (0, 0, 0), 2)
    return picture


def lines(folder: Path, words: tuple[str, ...] = WORDS) -> Path:
    """lines.txt with a picture for each word."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, text in enumerate(words):
        cv2.imwrite(str(folder / f"line{number}.png"), word(text))
        rows.append(f"line{number}.png\t{text}")
    (folder / "lines.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "lines.txt"


def pages(folder: Path, count: int = 4, side: int = 160) -> Path:
    """pages.txt; each picture has two words."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        page = np.full((side, side, 3), 200, np.uint8)
        regions = []
        for place, text in enumerate((WORDS[number], WORDS[number + 1])):
            top, picture = 20 + 70 * place, word(text)
            height, width = picture.shape[:2]
            page[top : top + height, 10 : 10 + width] = picture
            corners = [[10, top], [10 + width, top], [10 + width, top + height], [10, top + height]]
            regions.append({"transcription": text, "points": corners})
        cv2.imwrite(str(folder / f"page{number}.png"), page)
        rows.append(f"page{number}.png\t{json.dumps(regions)}")
    (folder / "pages.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "pages.txt"


def dictionary(folder: Path, characters: str = "abcdef") -> Path:
    """letters.txt, one character a line."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "letters.txt").write_text("\n".join(characters) + "\n", encoding="utf-8")
    return folder / "letters.txt"
