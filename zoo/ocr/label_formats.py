"""Labels as PaddleOCR, ICDAR, tables, LMDB and file names have them, each read entry by entry. No torch.

A source gives for each index what one label says, without the picture, and raises BadSample, which begins with
file:line, for one that cannot be read. Whether what it says makes sense is judged by `labels` and `label_check`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from zoo.ocr.label_files import Archive, Database, Folder, Pictures, TextLines
from zoo.ocr.samples import BadSample

IGNORED = ("###", "*")  # transcriptions of what cannot be read; PaddleOCR's DetLabelEncode
# Names of a table's columns, first come first served, for what holds the picture and what holds the text.
PICTURE_COLUMNS = ("file", "path", "image", "picture", "img", "filename", "file_name", "image_path", "name")
TEXT_COLUMNS = ("text", "label", "transcription", "expected", "words", "word", "gt", "sentence")
Repair = tuple[str, str]  # its kind, and the message that begins with the place


@dataclass(frozen=True, eq=False)
class Region:
    """Text in a picture. polygon_xy: float32 [n, 2], pixels of the upright picture; n may still be too few.

    ignored: neither to be learned nor counted. more: what else PPOCRLabel keeps of it, such as "difficult".
    """

    polygon_xy: np.ndarray
    text: str
    ignored: bool
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PageLabel:
    """What is said of a page. name: file:line. picture: its name among the source's pictures.

    size: (width, height) of the picture that the labels were made on, where the format says it.
    """

    name: str
    picture: str
    regions: tuple[Region, ...]
    size: tuple[int, int] | None = None
    repaired: tuple[Repair, ...] = ()


@dataclass(frozen=True)
class LineLabel:
    """What is said of a line's picture. name: file:line. picture: its name among the source's pictures."""

    name: str
    picture: str
    text: str


Label = TypeVar("Label", PageLabel, LineLabel, covariant=True)


class Source(Protocol[Label]):
    """Labels of one format by index. repaired: what of the source as a whole was put right in reading."""

    @property
    def format(self) -> str: ...
    @property
    def pictures(self) -> Pictures: ...
    @property
    def repaired(self) -> tuple[Repair, ...]: ...
    def __len__(self) -> int: ...
    def entry(self, index: int, /) -> Label: ...
    def name(self, index: int, /) -> str: ...


class Listed:
    """`path TAB rest` lines. A path that is a JSON list stands for several pictures with the same label.

    Each of those is a sample of its own (PaddleOCR draws one of them at random). Raises BadSample for a line with
    fewer or more than two fields.
    """

    def __init__(self, lines: TextLines) -> None:
        self.lines = lines
        self._several: dict[int, tuple[str, ...]] = {}
        for row in lines.lists:
            if paths := _paths(lines, int(row)):
                self._several[int(row)] = paths
        self._rows: np.ndarray | None = None
        if self._several:
            counts = np.ones(len(lines), np.int64)
            counts[list(self._several)] = [len(paths) for paths in self._several.values()]
            self._rows = np.repeat(np.arange(len(lines), dtype=np.int32), counts)

    def __len__(self) -> int:
        return len(self.lines) if self._rows is None else len(self._rows)

    def place(self, index: int) -> str:
        """file:line."""
        return self.lines.place(self._row(index))

    def fields(self, index: int) -> tuple[str, str]:
        """The path and the rest."""
        row = self._row(index)
        parts = self.lines[row].split("\t")
        if len(parts) != 2:
            what = "no tab" if len(parts) == 1 else f"{len(parts) - 1} tabs"
            raise BadSample(f"{self.lines.place(row)}: has {what}; a path, one tab and its label are meant")
        if row in self._several:
            assert self._rows is not None
            return self._several[row][index - int(np.searchsorted(self._rows, row))], parts[1]
        return parts[0], parts[1]

    def _row(self, index: int) -> int:
        return index if self._rows is None else int(self._rows[index])


def _paths(lines: TextLines, row: int) -> tuple[str, ...]:
    """The paths of a line that begins with a JSON list of them; none for other lines."""
    try:
        paths = json.loads(lines[row].split("\t")[0])
    except ValueError:  # a name that begins with a bracket, or a line that `fields` refuses
        return ()
    return tuple(paths) if isinstance(paths, list) and all(isinstance(path, str) for path in paths) else ()


@dataclass(frozen=True)
class ListLines:
    """PaddleOCR's recognition list: `path TAB text`."""

    listed: Listed
    pictures: Pictures
    format: str = "paddle"

    @property
    def repaired(self) -> tuple[Repair, ...]:
        return self.listed.lines.repaired

    def __len__(self) -> int:
        return len(self.listed)

    def name(self, index: int) -> str:
        return self.listed.place(index)

    def entry(self, index: int) -> LineLabel:
        path, text = self.listed.fields(index)
        return LineLabel(self.name(index), path, text)


@dataclass(frozen=True)
class TableLines:
    """A table with tabs whose first line names its columns. columns: those of the picture and of the text."""

    lines: TextLines
    pictures: Pictures
    columns: tuple[int, int]
    format: str = "tsv"

    @property
    def repaired(self) -> tuple[Repair, ...]:
        return self.lines.repaired

    def __len__(self) -> int:
        return len(self.lines) - 1

    def name(self, index: int) -> str:
        return self.lines.place(index + 1)

    def entry(self, index: int) -> LineLabel:
        cells = self.lines[index + 1].split("\t")
        wanted = len(self.lines[0].split("\t"))
        if len(cells) != wanted:
            raise BadSample(f"{self.name(index)}: has {len(cells)} columns, the first line has {wanted}")
        return LineLabel(self.name(index), cells[self.columns[0]], cells[self.columns[1]])


def table_columns(head: str) -> tuple[int, int] | None:
    """The columns of picture and text that a table's first line names; None if it names none."""
    names = [name.strip().lower() for name in head.split("\t")]
    picture = [names.index(name) for name in PICTURE_COLUMNS if name in names]
    text = [names.index(name) for name in TEXT_COLUMNS if name in names]
    return (picture[0], text[0]) if picture and text else None


@dataclass(frozen=True)
class DatabaseLines:
    """PaddleOCR's LMDB: image-000000001 and label-000000001, counted from 1 to num-samples."""

    pictures: Database
    format: str = "lmdb"
    repaired: tuple[Repair, ...] = ()

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        count = self.pictures.get("num-samples")
        if count is None or not count.isdigit():
            raise ValueError(f"{self.pictures.folder}: its key num-samples holds {count!r}; a number is meant")
        return int(count)

    def name(self, index: int) -> str:
        return f"{self.pictures.folder}:{index + 1}"

    def entry(self, index: int) -> LineLabel:
        text = self.pictures.get(f"label-{index + 1:09}")
        if text is None:
            raise BadSample(f"{self.name(index)}: the base holds no label-{index + 1:09}")
        try:
            return LineLabel(self.name(index), f"image-{index + 1:09}", text.decode("utf-8"))
        except UnicodeDecodeError:
            raise BadSample(f"{self.name(index)}: its label is not UTF-8") from None


class NamedLines:
    """Pictures whose names say the text.

    pattern: a regular expression that a name without its suffix matches as a whole; the text is its group `text`, else
    its first group, else all of it. Raises ValueError for a pattern that is none.
    """

    format = "names"
    repaired: tuple[Repair, ...] = ()

    def __init__(self, names: Sequence[str], pictures: Folder | Archive, pattern: str | None) -> None:
        try:
            self._pattern = re.compile(pattern or "(?P<text>.+)", re.DOTALL)
        except re.error as error:
            raise ValueError(f"pattern={pattern!r}: is no regular expression: {error}") from None
        self._names = tuple(names)
        self.pictures = pictures
        self._where = pictures.root if isinstance(pictures, Folder) else pictures.file

    def __len__(self) -> int:
        return len(self._names)

    def name(self, index: int) -> str:
        return f"{self._where / self._names[index]}"

    def entry(self, index: int) -> LineLabel:
        stem = Path(self._names[index]).stem
        if (found := self._pattern.fullmatch(stem)) is None:
            raise BadSample(f"{self.name(index)}: the name {stem!r} does not match pattern={self._pattern.pattern!r}")
        if is_broken(stem):
            raise BadSample(f"{self.name(index)!r}: its name is not UTF-8; rename the file")
        group = "text" if "text" in self._pattern.groupindex else min(1, self._pattern.groups)
        return LineLabel(self.name(index), self._names[index], found[group] or "")


@dataclass(frozen=True)
class ListPages:
    """PaddleOCR's and PPOCRLabel's detection list: `path TAB [{"transcription": "", "points": [[x, y], ...]}]`."""

    listed: Listed
    pictures: Pictures
    format: str = "paddle"

    @property
    def repaired(self) -> tuple[Repair, ...]:
        return self.listed.lines.repaired

    def __len__(self) -> int:
        return len(self.listed)

    def name(self, index: int) -> str:
        return self.listed.place(index)

    def entry(self, index: int) -> PageLabel:
        path, text = self.listed.fields(index)
        name = self.name(index)
        try:
            items = json.loads(text)
        except (ValueError, RecursionError) as error:  # of lists in lists in lists
            raise BadSample(f"{name}: its regions are no JSON: {error}") from None
        if not isinstance(items, list):
            raise BadSample(f"{name}: its regions are {items!r:.40}; a JSON list is meant")
        return PageLabel(name, path, tuple(_region(item, f"{name}: region {i}") for i, item in enumerate(items, 1)))


def is_broken(text: str) -> bool:
    """Whether a text has halves of characters, as JSON may, and names of files that are not UTF-8: no file holds it."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _region(item: Any, place: str) -> Region:
    if not isinstance(item, dict) or "transcription" not in item or "points" not in item:
        raise BadSample(f"{place} is {item!r:.60}; an object with transcription and points is meant")
    more = {key: value for key, value in item.items() if key not in ("transcription", "points")}
    return region_of(item["points"], item["transcription"], place, more)


def region_of(points: Any, text: Any, place: str, more: Mapping[str, Any] | None = None) -> Region:
    """A region from points [[x, y], ...] of pixels and its text. Raises BadSample that begins with `place`."""
    if not isinstance(text, str):
        raise BadSample(f"{place} has the transcription {text!r:.40}; a text is meant")
    if is_broken(text):
        raise BadSample(f"{place} has the transcription {text!r:.40}, in which half of a character is missing")
    try:
        with np.errstate(over="ignore"):  # it becomes infinite, which is refused below
            polygon = np.asarray(points, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise BadSample(f"{place} has the points {points!r:.60}; a list of [x, y] is meant") from None
    if polygon.size == 0:
        polygon = polygon.reshape(0, 2)
    if polygon.ndim != 2 or polygon.shape[1] != 2:
        raise BadSample(f"{place} has points of shape {list(polygon.shape)}; a list of [x, y] is meant")
    if not np.isfinite(polygon).all():
        raise BadSample(f"{place} has points that are not finite")
    return Region(polygon, text, text in IGNORED, more or {})


@dataclass(frozen=True)
class IcdarPages:
    """One text file a picture, one region a line: `x1,y1,x2,y2,x3,y3,x4,y4,text`; the text may hold commas.

    ICDAR 2015 (gt_img_1.txt) and SROIE (001.txt or .csv) alike. files: (label file, name of its picture).
    """

    files: tuple[tuple[Path, str], ...]
    pictures: Pictures
    format: str = "icdar"
    repaired: tuple[Repair, ...] = ()

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        return str(self.files[index][0])

    def entry(self, index: int) -> PageLabel:
        file, picture = self.files[index]
        try:
            lines = TextLines(file)
        except ValueError as error:
            raise BadSample(str(error)) from None
        return PageLabel(self.name(index), picture, tuple(_icdar_regions(lines)), repaired=lines.repaired)


def _icdar_regions(lines: TextLines) -> Iterator[Region]:
    for row in range(len(lines)):
        fields = lines[row].split(",", 8)
        if len(fields) < 9:
            raise BadSample(f"{lines.place(row)}: has {len(fields)} fields; x1,y1,x2,y2,x3,y3,x4,y4,text are meant")
        try:
            numbers = [float(number) for number in fields[:8]]
        except ValueError:
            raise BadSample(f"{lines.place(row)}: {','.join(fields[:8])!r:.60} are no eight numbers") from None
        points = [numbers[i : i + 2] for i in range(0, 8, 2)]
        yield region_of(points, fields[8], f"{lines.place(row)}: its region")
