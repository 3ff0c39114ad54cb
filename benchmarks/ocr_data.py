"""The labelled pictures that the OCR benchmark reads: ICDAR2015 test, SROIE receipts, Chinese screenshots.

The sets are not part of the project. They lie in one folder (by default `shared/data` beside the repository), in the
layouts named at each function; each has its own SOURCE.txt.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NOT_READABLE = ("###", "*")
"""Transcriptions that mean "do not care" (ICDAR2015 task 4.1; PaddleOCR's label files)."""

DEFAULT_FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledLine:
    """One labelled region. polygon_xy: float64 [4, 2], pixels of the picture. ignored: nobody is marked for it."""

    polygon_xy: np.ndarray
    text: str
    ignored: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledPicture:
    """One picture with its regions, in the order of the label file."""

    path: Path
    lines: tuple[LabelledLine, ...]


def load(name: str, *, folder: Path = DEFAULT_FOLDER, pictures: int | None = None) -> list[LabelledPicture]:
    """The pictures of the set `name`, a key of SETS. pictures: at most so many, spread evenly over the set.

    Raises ValueError for an unknown set, an absent folder or a label that cannot be read (with file and line).
    """
    if name not in SETS:
        raise ValueError(f"set {name!r} is not one of {', '.join(SETS)}")
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; give the folder of the labelled sets with --data")
    return spread(SETS[name](folder), pictures)


def spread(pictures: list[LabelledPicture], count: int | None) -> list[LabelledPicture]:
    """`count` of the pictures at even distances, the first one included; all of them if there are fewer."""
    if count is None or count >= len(pictures):
        return pictures
    if count < 1:
        raise ValueError(f"pictures={count}: give at least 1")
    return [pictures[index * len(pictures) // count] for index in range(count)]


def load_icdar2015(folder: Path) -> list[LabelledPicture]:
    """Street photos, words. `ocr_icdar2015/test_images/img_N.jpg` with `test_gt/gt_img_N.txt`."""
    root = folder / "ocr_icdar2015"
    paths = sorted((root / "test_images").glob("img_*.jpg"), key=lambda path: int(path.stem.removeprefix("img_")))
    return [_picture_with_rows(path, root / "test_gt" / f"gt_{path.stem}.txt") for path in paths]


def load_sroie(folder: Path) -> list[LabelledPicture]:
    """Scanned receipts, lines. `ocr_sroie/img/N.jpg` with `box/N.csv`."""
    root = folder / "ocr_sroie"
    return [
        _picture_with_rows(path, root / "box" / f"{path.stem}.csv") for path in sorted((root / "img").glob("*.jpg"))
    ]


def load_screens(folder: Path) -> list[LabelledPicture]:
    """Chinese screenshots, lines; those that `ocr_zh_screens/split.tsv` calls test. `Label.txt` is PPOCRLabel's.

    A line that is marked "difficult" counts like any other: all of them are transcribed.
    """
    root = folder / "ocr_zh_screens"
    rows = (row.split("\t") for row in (root / "split.tsv").read_text(encoding="utf-8").splitlines() if row)
    wanted = {name for name, part in rows if part == "test"}
    pictures = []
    for row in (root / "Label.txt").read_text(encoding="utf-8").split("\n"):
        if row.strip():
            name, _, label = row.partition("\t")
            if name in wanted:
                pictures.append(LabelledPicture(path=root / name, lines=tuple(map(_screen_line, json.loads(label)))))
    return pictures


def parse_rows(text: str, where: str) -> tuple[LabelledLine, ...]:
    """Lines `x1,y1,x2,y2,x3,y3,x4,y4,transcription`; the transcription may itself hold commas.

    where: the file's name, for the ValueError that a malformed line raises. A byte order mark and CRLF are accepted.
    """
    lines = []
    for number, row in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        row = row.removesuffix("\r")
        if not row.strip():
            continue
        fields = row.split(",", 8)
        try:
            polygon_xy = np.array([float(field) for field in fields[:8]]).reshape(4, 2)
            transcription = fields[8]
        except (ValueError, IndexError):
            raise ValueError(f"{where}, line {number}: not eight numbers and a text: {row!r}") from None
        lines.append(_line(polygon_xy, transcription))
    return tuple(lines)


def _line(polygon_xy: np.ndarray, text: str) -> LabelledLine:
    return LabelledLine(polygon_xy=polygon_xy, text=text, ignored=text.strip() in NOT_READABLE)


def _screen_line(label: dict[str, object]) -> LabelledLine:
    return _line(np.array(label["points"], dtype=np.float64), str(label["transcription"]))


def _picture_with_rows(path: Path, label: Path) -> LabelledPicture:
    return LabelledPicture(path=path, lines=parse_rows(label.read_text(encoding="utf-8"), str(label)))


SETS: dict[str, Callable[[Path], list[LabelledPicture]]] = {
    "icdar2015": load_icdar2015,
    "sroie": load_sroie,
    "screens": load_screens,
}
