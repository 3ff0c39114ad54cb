"""Labels a folder of pictures with a reader, for PPOCRLabel to show and a person to correct. No torch.

Source of the files' form: PFCCLab/PPOCRLabel, PPOCRLabel.py. Its names of pictures are `folder/picture`. When it saves,
it drops from Label.txt what fileState.txt does not list as confirmed by a person, but keeps Cache.cach, which it reads
as well; so the labels are written to both, and fileState.txt lists only what is asked for as confirmed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zoo import documents, images
from zoo.ocr.label_convert import paddle_line, paddle_page, written
from zoo.ocr.label_files import counted
from zoo.ocr.label_formats import LineLabel, Region, is_broken
from zoo.ocr.label_places import SUFFIXES
from zoo.ocr.labels import open_pages
from zoo.ocr.samples import BadSample, PageSample

if TYPE_CHECKING:
    from zoo.ocr.page import Page
    from zoo.ocr.pipeline import Reader

LABELS, CACHE, STATES = "Label.txt", "Cache.cach", "fileState.txt"
CROPS, CROP_LABELS = "crop_img", "rec_gt.txt"
QUALITY = 95


@dataclass(frozen=True)
class Labelled:
    """What became of a folder. new: pictures labelled now; before: those that had labels; skipped: why each was."""

    new: int
    before: int
    skipped: tuple[str, ...]


def prelabel(folder: Path, reader: Reader, *, confirmed: bool = False) -> Labelled:
    """Reads the pictures directly in a folder that have no labels yet, and adds theirs; those that are there stay.

    A label is on the disk as soon as its picture is read, so that a run that was stopped goes on where it was.
    confirmed: whether fileState.txt shall say that a person has seen them.
    Raises ValueError for a folder that is none, holds no picture, or whose label files are broken.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: is no folder; give the folder of the pictures")
    pictures = documents.files([folder])
    known = set(_known(folder / LABELS)) | set(_known(folder / CACHE))
    todo = [picture for picture in pictures if _key(folder, picture) not in known]
    (folder / STATES).touch()
    skipped, new = [], 0
    for picture in counted(todo, len(todo), "Labelling"):
        try:
            if picture.suffix.lower() not in SUFFIXES:
                raise ValueError(f"{picture}: is no picture that PPOCRLabel shows; save its pages as pictures")
            if is_broken(picture.name) or any(sign in picture.name for sign in "\t\r\n"):
                raise ValueError(f"{str(picture)!r}: its name cannot stand in Label.txt; rename the file")
            page = reader(picture)
        except (ValueError, OSError) as error:
            skipped.append(str(error))
            continue
        except MemoryError:
            skipped.append(f"{picture}: not enough memory for this picture")
            continue
        line = paddle_page(_key(folder, picture), regions_of(page))
        _append(folder / CACHE, line)
        _append(folder / LABELS, line)
        if confirmed:
            _append(folder / STATES, f"{picture.resolve()}\t1\n")
        new += 1
    return Labelled(new, len(pictures) - len(todo), tuple(skipped))


def regions_of(page: Page) -> list[Region]:
    """The lines of a page as regions; whole pixels inside the picture, as PPOCRLabel draws them."""
    last = np.array([page.width - 1, page.height - 1])
    return [
        Region(np.clip(np.rint(line.polygon_xy), 0, last).astype(np.float32), line.text, ignored=False)
        for line in page.lines
    ]


def crops(folder: Path) -> Labelled:
    """Cuts every region of Label.txt out of its picture, as PPOCRLabel exports them: crop_img and rec_gt.txt, anew.

    Regions that are ignored or empty are not cut. Raises ValueError where there is no Label.txt.
    """
    labels = open_pages(folder / LABELS, root=folder.resolve().parent, format="paddle")
    (folder / CROPS).mkdir(exist_ok=True)
    skipped, new = [], 0
    taken: dict[str, str] = {}
    with written(folder / CROP_LABELS) as file:
        for index in counted(range(len(labels)), len(labels), "Cutting"):
            try:
                picture = Path(labels.regions(index).picture)
                first = taken.setdefault(picture.stem, picture.name) == picture.name
                lines = _cut(folder, picture.stem if first else picture.name, labels[index])
            except BadSample as error:
                skipped.append(str(error))
                continue
            file.writelines(lines)
            new += len(lines)
    return Labelled(new, 0, tuple(skipped))


def _cut(folder: Path, stem: str, sample: PageSample) -> list[str]:
    """Writes the crops of a page, and gives their lines of rec_gt.txt."""
    from zoo.ocr.pipeline import cut

    lines = []
    for number, (polygon, text) in enumerate(zip(sample.polygons_xy, sample.texts, strict=True)):
        if sample.ignored[number] or not text.strip():
            continue
        name = f"{CROPS}/{stem}_crop_{number}.jpg"
        line = paddle_line(LineLabel(f"{sample.name}: region {number + 1}", name, text), name)
        crop = cut(sample.image, polygon if len(polygon) == 4 else _around(polygon)).image
        (folder / name).write_bytes(images.encode(crop, ".jpg", QUALITY))
        lines.append(line)
    return lines


def _around(polygon_xy: np.ndarray) -> np.ndarray:
    """The smallest turned rectangle around a polygon, float32 [4, 2], from its top left, clockwise."""
    import cv2

    from zoo.ocr.postprocess import order_corners

    return order_corners(cv2.boxPoints(cv2.minAreaRect(polygon_xy)))


def _key(folder: Path, picture: Path) -> str:
    return f"{folder.resolve().name}/{picture.name}"


def _known(file: Path) -> list[str]:
    """The pictures that a label file names. A last line that was cut short is taken away, to be made anew.

    Raises ValueError, with file:line, for another that is broken: PPOCRLabel would not open the folder.
    """
    if not file.exists():
        return []
    data = file.read_bytes()
    whole = data.rfind(b"\n") + 1
    *lines, last = data.split(b"\n")
    names = []
    for number, line in enumerate(lines, start=1):
        if line.rstrip(b"\r") and (name := _name(line)) is None:
            raise ValueError(f"{file}:{number}: is no line `picture TAB JSON`; mend it, or take it out")
        elif line.rstrip(b"\r"):
            names.append(str(name))
    if last and (name := _name(last)) is not None:
        _append(file, "\n")
        names.append(name)
    elif last:
        with file.open("r+b") as target:
            target.truncate(whole)
    return names


def _name(line: bytes) -> str | None:
    """The picture of a line; None where the line is broken or cut short."""
    try:
        name, tab, regions = line.decode("utf-8-sig").partition("\t")
        json.loads(regions)
    except ValueError:
        return None
    return name if tab else None


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8", newline="\n") as target:
        target.write(line)
