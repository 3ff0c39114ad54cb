"""Labels of one format into another: pages to PaddleOCR, ICDAR, Label Studio and COCO; lines to lists, zip and LMDB."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from zoo.images import PictureError
from zoo.ocr.label_files import Archive, Pictures, counted, lmdb_module
from zoo.ocr.label_formats import IGNORED, LineLabel, Region, is_broken
from zoo.ocr.labels import LineLabels, PageLabels, area
from zoo.ocr.samples import BadSample

PAGE_TARGETS = ("paddle", "icdar", "label-studio", "coco")
LINE_TARGETS = ("paddle", "tsv", "zip", "lmdb")
FOLDERS = ("icdar", "lmdb")  # the others are written as one file
BATCH = 1000  # lines in one transaction of an LMDB
FIRST_SIZE = 1 << 28  # bytes of an LMDB to begin with; it grows


@dataclass(frozen=True)
class Written:
    """How many labels were written, and a message, beginning with its place, for each that was not."""

    count: int
    skipped: tuple[str, ...]


class _Page(NamedTuple):
    """A page to be written. path: of its picture, from the folder of the labels."""

    path: str
    regions: tuple[Region, ...]
    size: tuple[int, int]


def convert_pages(labels: PageLabels, out: Path, to: str) -> Written:
    """Writes pages as `to`, one of PAGE_TARGETS; `out` is a folder for icdar, else a file. Pictures stay in place.

    A page that is broken, or that the format cannot hold, is left out and named. ValueError for an unknown format, and
    for an `out` that is what is converted, or a folder where a file is meant.
    """
    writers: dict[str, Callable[[Iterable[_Page], Path], None]] = {
        "paddle": _write_paddle,
        "icdar": _write_icdar,
        "label-studio": _write_label_studio,
        "coco": _write_coco,
    }
    if to not in writers:
        raise ValueError(f"to={to!r}: pages are written as {', '.join(PAGE_TARGETS)}")
    _check_target(labels, out, to)
    skipped: list[str] = []
    pages = _pages(labels, out if to == "icdar" else out.parent, to, skipped)
    writers[to](pages, out)
    return Written(len(labels) - len(skipped), tuple(skipped))


def _pages(labels: PageLabels, folder: Path, to: str, skipped: list[str]) -> Iterator[_Page]:
    stems: dict[str, str] = {}
    for index in counted(range(len(labels)), len(labels), "Converting"):
        try:
            entry = labels.regions(index)
            path = listed_path(labels.pictures(index), entry.picture, folder)
            if to == "icdar":
                _check_icdar(entry.name, entry.regions)
                _check_alone(entry.name, Path(path).stem, stems)
            size = entry.size or (labels.size(index) if to in ("label-studio", "coco") else (0, 0))
        except BadSample as error:
            skipped.append(str(error))
            continue
        yield _Page(path, entry.regions, size)


def _check_target(labels: PageLabels | LineLabels, out: Path, to: str) -> None:
    """Raises ValueError where the labels cannot be written to `out`, before anything is."""
    if out.is_dir() and to not in FOLDERS:
        raise ValueError(f"{out}: is a folder; to={to} writes a file")
    if out.exists() and not out.is_dir() and to in FOLDERS:
        raise ValueError(f"{out}: is a file; to={to} writes a folder")
    read = [Path(labels.name(0).rpartition(":")[0] or labels.name(0))] if len(labels) else []
    read += [source.pictures.file for source in labels.sources if isinstance(source.pictures, Archive)]
    if out.is_file() and any(out.resolve() in (file.resolve(), *file.resolve().parents) for file in read):
        raise ValueError(f"{out}: is what is converted; give another name")


def _check_icdar(name: str, regions: Sequence[Region]) -> None:
    for number, region in enumerate(regions, start=1):
        if len(region.polygon_xy) != 4:
            raise BadSample(f"{name}: region {number} has {len(region.polygon_xy)} points; ICDAR's text holds 4")
        if "\n" in region.text or region.text.endswith("\r"):
            raise BadSample(f"{name}: region {number} has a line break in its text, which ICDAR's cannot hold")


def _check_alone(name: str, stem: str, stems: dict[str, str]) -> None:
    if stem in stems:
        raise BadSample(f"{name}: its label would be gt_{stem}.txt, which is that of {stems[stem]}; rename the picture")
    stems[stem] = name


def listed_path(pictures: Pictures, name: str, folder: Path) -> str:
    """A picture as a list in `folder` names it: from there, with slashes; inside an archive its own name.

    Raises BadSample for a name that a list cannot hold.
    """
    if is_broken(name):
        raise BadSample(f"{name!r}: its name is not UTF-8; rename the file")
    path = pictures.path(name)
    return name if path is None else Path(os.path.relpath(path, folder)).as_posix()


def paddle_page(path: str, regions: Sequence[Region]) -> str:
    """A line of PaddleOCR's detection list. Ignored regions say ###, or * where they did."""
    items = [
        {
            "transcription": said(region),
            "points": points_of(region.polygon_xy),
            "difficult": False,  # which PPOCRLabel asks of every region
            **region.more,
        }
        for region in regions
    ]
    return f"{path}\t{json.dumps(items, ensure_ascii=False)}\n"


def paddle_line(entry: LineLabel, path: str) -> str:
    """A line of PaddleOCR's recognition list. Raises BadSample for what it cannot hold."""
    for what, text in (("path", path), ("text", entry.text)):
        if any(sign in text for sign in "\t\n") or text.endswith("\r"):
            raise BadSample(f"{entry.name}: its {what} {text!r:.60} has a tab or line break, which a list cannot hold")
    return f"{path}\t{entry.text}\n"


def said(region: Region) -> str:
    """The transcription that PaddleOCR needs to see a region as the label means it."""
    return region.text if not region.ignored or region.text in IGNORED else IGNORED[0]


def points_of(polygon_xy: np.ndarray) -> list[list[float]]:
    """Points as short as float32 allows, whole numbers as such."""
    return [[_number(value) for value in point] for point in np.asarray(polygon_xy, np.float32)]


def _number(value: np.float32) -> float:
    return int(value) if value == int(value) else float(str(value))


def _write_paddle(pages: Iterable[_Page], out: Path) -> None:
    with written(out) as file:
        for page in pages:
            file.write(paddle_page(page.path, page.regions))


def _write_icdar(pages: Iterable[_Page], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for page in pages:
        with written(out / f"gt_{Path(page.path).stem}.txt") as file:
            for region in page.regions:
                numbers = [str(value) for point in points_of(region.polygon_xy) for value in point]
                file.write(f"{','.join(numbers)},{said(region)}\n")


def _write_label_studio(pages: Iterable[_Page], out: Path) -> None:
    """Tasks with polygons; pictures as Label Studio's local storage serves them."""
    tasks = [_task(number, page) for number, page in enumerate(pages, start=1)]
    with written(out) as file:
        json.dump(tasks, file, ensure_ascii=False, indent=1)


def _task(number: int, page: _Page) -> dict[str, Any]:
    results = []
    for index, region in enumerate(page.regions, start=1):
        scale = 100 / np.array(page.size, np.float64)
        value = {"points": (region.polygon_xy * scale).tolist(), "closed": True}
        same = {
            "id": f"{number}-{index}",
            "to_name": "image",
            "original_width": page.size[0],
            "original_height": page.size[1],
            "image_rotation": 0,
        }
        shape = {**value, "polygonlabels": ["Ignored" if region.ignored else "Text"]}
        results.append({**same, "from_name": "label", "type": "polygonlabels", "value": shape})
        text = {**value, "text": [said(region)]}
        results.append({**same, "from_name": "transcription", "type": "textarea", "value": text})
    address = f"/data/local-files/?d={quote(page.path)}"
    return {"id": number, "data": {"image": address}, "annotations": [{"result": results}]}


def _write_coco(pages: Iterable[_Page], out: Path) -> None:
    """COCO's lists, with COCO-Text's utf8_string and legibility in each annotation."""
    pictures: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, page in enumerate(pages, start=1):
        pictures.append({"id": number, "file_name": page.path, "width": page.size[0], "height": page.size[1]})
        for region in page.regions:
            annotations.append(_annotation(len(annotations) + 1, number, region))
    content = {"images": pictures, "annotations": annotations, "categories": [{"id": 1, "name": "text"}]}
    with written(out) as file:
        json.dump(content, file, ensure_ascii=False)


def _annotation(number: int, picture: int, region: Region) -> dict[str, Any]:
    polygon = region.polygon_xy
    low, high = (polygon.min(axis=0), polygon.max(axis=0)) if len(polygon) else (np.zeros(2), np.zeros(2))
    return {
        "id": number,
        "image_id": picture,
        "category_id": 1,
        "iscrowd": 0,
        "bbox": [_number(np.float32(value)) for value in (*low, *(high - low))],
        "area": area(polygon),
        "segmentation": [[value for point in points_of(polygon) for value in point]],
        "utf8_string": said(region),
        "legibility": "illegible" if region.ignored else "legible",
    }


def convert_lines(labels: LineLabels, out: Path, to: str) -> Written:
    """Writes lines as `to`, one of LINE_TARGETS: "zip" and "lmdb" hold the pictures' own bytes, lists only name them.

    A line that is broken, or that the format cannot hold, is left out and named. ValueError as for pages.
    """
    writers: dict[str, Callable[[LineLabels, Path, list[str]], None]] = {
        "paddle": _write_list,
        "tsv": _write_table,
        "zip": _write_zip,
        "lmdb": _write_lmdb,
    }
    if to not in writers:
        raise ValueError(f"to={to!r}: lines are written as {', '.join(LINE_TARGETS)}")
    _check_target(labels, out, to)
    skipped: list[str] = []
    writers[to](labels, out, skipped)
    return Written(len(labels) - len(skipped), tuple(skipped))


def _write_list(labels: LineLabels, out: Path, skipped: list[str], head: str = "") -> None:
    with written(out) as file:
        file.write(head)
        for index in counted(range(len(labels)), len(labels), "Converting"):
            try:
                entry = labels.entry(index)
                file.write(paddle_line(entry, listed_path(labels.pictures(index), entry.picture, out.parent)))
            except BadSample as error:
                skipped.append(str(error))


def _write_table(labels: LineLabels, out: Path, skipped: list[str]) -> None:
    _write_list(labels, out, skipped, head="file\ttext\n")


class _Line(NamedTuple):
    entry: LineLabel
    data: bytes


def _lines(labels: LineLabels, skipped: list[str]) -> Iterator[_Line]:
    """Lines with the bytes of their pictures."""
    for index in counted(range(len(labels)), len(labels), "Converting"):
        try:
            entry = labels.entry(index)
            try:
                with labels.pictures(index).open(entry.picture) as file:
                    data = file.read()
            except PictureError as error:
                raise BadSample(f"{entry.name}: {error}") from None
        except BadSample as error:
            skipped.append(str(error))
            continue
        yield _Line(entry, data)


def _write_zip(labels: LineLabels, out: Path, skipped: list[str]) -> None:
    """Pictures by number, and labels.tsv."""
    listed = []
    with _whole(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:  # pictures are compressed
        for number, line in enumerate(_lines(labels, skipped)):
            name = f"{number:08}{Path(line.entry.picture).suffix or '.jpg'}"
            try:
                listed.append(paddle_line(line.entry, name))
            except BadSample as error:
                skipped.append(str(error))
                continue
            archive.writestr(name, line.data)
        archive.writestr("labels.tsv", "".join(listed), zipfile.ZIP_DEFLATED)


def _write_lmdb(labels: LineLabels, out: Path, skipped: list[str]) -> None:
    """PaddleOCR's keys, counted from 1. Raises ValueError where there is a base already."""
    lmdb = lmdb_module()
    if (out / "data.mdb").exists():
        raise ValueError(f"{out}: holds an LMDB already; give a new folder")
    out.mkdir(parents=True, exist_ok=True)
    base = lmdb.open(str(out), map_size=FIRST_SIZE)
    batch: list[tuple[bytes, bytes]] = []
    count = 0
    for count, line in enumerate(_lines(labels, skipped), start=1):
        batch.append((f"image-{count:09}".encode(), line.data))
        batch.append((f"label-{count:09}".encode(), line.entry.text.encode()))
        if len(batch) >= 2 * BATCH:
            _put(base, batch)
            batch = []
    _put(base, [*batch, (b"num-samples", str(count).encode())])
    base.close()


def _put(base: Any, pairs: Sequence[tuple[bytes, bytes]]) -> None:
    """All of the pairs in one transaction; a base that is full is doubled."""
    full = lmdb_module().MapFullError
    while True:
        try:
            with base.begin(write=True) as transaction:
                for key, value in pairs:
                    transaction.put(key, value)
            return
        except full:
            base.set_mapsize(2 * base.info()["map_size"])


@contextmanager
def written(out: Path) -> Iterator[Any]:
    """A text file that takes its name when it is whole."""
    with _whole(out) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Where to write what then becomes `out`; it goes where that fails."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    try:
        yield part
        part.replace(out)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
