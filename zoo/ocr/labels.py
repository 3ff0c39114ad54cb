"""Labelled pages and lines of every format, for training, checks and conversion: `open_pages`, `open_lines`. No torch.

Samples are read when asked for: what is kept of a list of millions of lines is 16 bytes each. Everything can be pickled
for the workers of a loader. Pictures are read by `images.decode`, so EXIF orientation is applied, as PPOCRLabel shows
and PaddleOCR trains them; coordinates are pixels of the upright picture.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Generic, overload

import numpy as np

from zoo import images
from zoo.ocr import label_places
from zoo.ocr.label_files import Pictures, upright_size
from zoo.ocr.label_formats import Label, LineLabel, PageLabel, Repair, Source
from zoo.ocr.samples import BadSample, LineSample, PageSample

SMALLEST = 1.0  # square pixels; PaddleOCR's make_shrink_map ignores what is smaller


@dataclass(frozen=True)
class _Labels(Generic[Label]):
    """Sources one after another, by one index from 0."""

    sources: tuple[Source[Label], ...]
    _ends: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ends", list(accumulate(len(source) for source in self.sources)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def name(self, index: int) -> str:
        """file:line, or the label file where each page has one."""
        source, place = self._at(index)
        return source.name(place)

    def entry(self, index: int) -> Label:
        """The label as it stands; its picture is not read. Raises BadSample for a label that is broken."""
        source, place = self._at(index)
        return source.entry(place)

    def pictures(self, index: int) -> Pictures:
        """Where the picture of a sample lies."""
        return self._at(index)[0].pictures

    @property
    def repaired(self) -> tuple[Repair, ...]:
        """(kind, message) of what of the files as a whole was put right in reading."""
        return tuple(repair for source in self.sources for repair in source.repaired)

    def _at(self, index: int) -> tuple[Source[Label], int]:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"{index}: there are {size} samples")
        index %= size
        number = bisect_right(self._ends, index)
        return self.sources[number], index - (self._ends[number - 1] if number else 0)


class LineLabels(_Labels[LineLabel]):
    """Lines of text with their pictures, by index from 0."""

    def __getitem__(self, index: int) -> LineSample:
        """Raises BadSample for a line that cannot be used, and IndexError beyond the end."""
        source, place = self._at(index)
        entry = source.entry(place)
        if not entry.text:
            raise BadSample(f"{entry.name}: its text is empty")
        return LineSample(_pixels(source.pictures, entry), entry.text, entry.name)

    def label(self, index: int) -> str:
        """What a line says; its picture is not read. Raises BadSample for a label that is broken."""
        return self.entry(index).text


class PageLabels(_Labels[PageLabel]):
    """Pages with their text regions, by index from 0."""

    def __getitem__(self, index: int) -> PageSample:
        """Regions without area are ignored. Raises BadSample for a page that cannot be used, and IndexError.

        A page of which not one region has an area is one: it would be taught that there is no text in it.
        """
        source, place = self._at(index)
        entry = source.entry(place)
        for number, region in enumerate(entry.regions, start=1):
            if len(region.polygon_xy) < 3:
                raise BadSample(f"{entry.name}: region {number} has {len(region.polygon_xy)} points, fewer than 3")
        flat = [area(region.polygon_xy) < SMALLEST for region in entry.regions]
        if flat and all(flat):
            raise BadSample(f"{entry.name}: none of its {len(flat)} regions has an area")
        pixels = _pixels(source.pictures, entry)
        size = (pixels.shape[1], pixels.shape[0])
        if entry.size is not None and entry.size != size:
            raise BadSample(f"{entry.name}: {wrong_size(entry.picture, entry.size, size)}")
        return PageSample(
            image=pixels,
            polygons_xy=tuple(region.polygon_xy for region in entry.regions),
            texts=tuple(region.text for region in entry.regions),
            ignored=np.array([r.ignored or is_flat for r, is_flat in zip(entry.regions, flat, strict=True)], bool),
            name=entry.name,
        )

    def regions(self, index: int) -> PageLabel:
        """The regions as they are labelled; the picture is not read. Raises BadSample for a label that is broken."""
        return self.entry(index)

    def size(self, index: int) -> tuple[int, int]:
        """Width and height of a page's upright picture, from its header. Raises BadSample."""
        source, place = self._at(index)
        entry = source.entry(place)
        try:
            with source.pictures.open(entry.picture) as file:
                return upright_size(file, entry.picture)
        except images.PictureError as error:
            raise BadSample(f"{entry.name}: {error}") from None


def open_lines(path: Path, *, root: Path | None = None, format: str = "auto", pattern: str | None = None) -> LineLabels:
    """The labelled lines of a file or folder.

    format: "paddle" (`path TAB text`; also inside a zip with its pictures), "tsv" (a table whose first line names its
    columns), "lmdb", "names" (a folder or zip of pictures whose names are the texts), or "auto": told by the content;
    "names" only where a pattern is given.
    root: the folder or zip that picture paths begin at. Default: the first of the label file's own folder, its `images`
    folder, the folder above, and the zip of the same name, that holds one of the first pictures.
    pattern: of "names": a regular expression that a whole name without suffix matches; the text is its group `text`,
    else its first group, else the whole.
    Raises ValueError that says what was looked for.
    """
    return LineLabels((label_places.lines_at(Path(path), root, format, pattern),))


def open_pages(path: Path, *, root: Path | None = None, format: str = "auto") -> PageLabels:
    """The labelled pages of a file or folder.

    format: "paddle" (PaddleOCR and PPOCRLabel: `path TAB JSON`), "icdar" (a folder of gt_*.txt, or SROIE's), "sroie"
    (the same), "label-studio" (its JSON export), "coco" (COCO-Text, TextOCR, or COCO with texts), or "auto": told by
    the content.
    root: the folder or zip that picture paths begin at; default as for `open_lines`, and for ICDAR also the folders
    beside that of the labels: `x_images` for `x_gt`, `img` for `box`.
    Regions that say ### or * are ignored. Raises ValueError that says what was looked for.
    """
    return PageLabels((label_places.pages_at(Path(path), root, format),))


@overload
def join(labels: Sequence[LineLabels]) -> LineLabels: ...
@overload
def join(labels: Sequence[PageLabels]) -> PageLabels: ...
def join(labels: Sequence[LineLabels] | Sequence[PageLabels]) -> LineLabels | PageLabels:
    """Several as one, in their order. Raises ValueError for none, and for lines and pages mixed."""
    pages = [one for one in labels if isinstance(one, PageLabels)]
    lines = [one for one in labels if isinstance(one, LineLabels)]
    if pages and not lines:
        return PageLabels(tuple(source for one in pages for source in one.sources))
    if lines and not pages:
        return LineLabels(tuple(source for one in lines for source in one.sources))
    raise ValueError(f"{len(lines)} labels of lines and {len(pages)} of pages cannot be joined; give one kind")


def _pixels(pictures: Pictures, entry: LineLabel | PageLabel) -> np.ndarray:
    try:
        with pictures.open(entry.picture) as file:
            data = file.read()
        return images.decode(data, entry.picture)
    except images.PictureError as error:
        raise BadSample(f"{entry.name}: {error}") from None


def wrong_size(picture: str, labelled: tuple[int, int], size: tuple[int, int]) -> str:
    """What is wrong with a page whose labels were made on a picture of another size, both (width, height)."""
    turned = " (EXIF turns it)" if labelled == size[::-1] and size[0] != size[1] else ""
    return f"{picture} has {size[0]} x {size[1]} pixels{turned}, its labels are made for {labelled[0]} x {labelled[1]}"


def area(polygon_xy: np.ndarray) -> float:
    """Square pixels inside a polygon [n, 2]. Source: the shoelace formula."""
    x, y = np.asarray(polygon_xy, np.float64).T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
