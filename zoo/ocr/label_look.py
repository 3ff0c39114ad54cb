"""What is wrong with one label, and what it looks like cleaned. No torch.

Each finding says what was done with it in the cleaned list: "left out", "ignored" (a region that becomes ###, neither
learned nor counted), "repaired", or "noted" (kept as it is). The first two are bad.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from zoo import images
from zoo.ocr.label_convert import listed_path, paddle_line, paddle_page
from zoo.ocr.label_files import Pictures, upright_size
from zoo.ocr.label_formats import IGNORED, LineLabel, PageLabel, Region
from zoo.ocr.labels import SMALLEST, LineLabels, PageLabels, area, wrong_size
from zoo.ocr.samples import BadSample

Done = Literal["left out", "ignored", "repaired", "noted"]
BAD: tuple[Done, ...] = ("left out", "ignored")
CLIPPED = 2.0  # pixels that a point may lie out of the picture and still be moved to its edge without harm
INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")  # Unicode categories of what no picture shows


class Finding(NamedTuple):
    """Something about a label. place: file:line. kind: what it is counted as."""

    place: str
    kind: str
    what: str
    done: Done


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a label must keep to. max_length: characters of a text; charset: those that may occur; None: any.

    decode: pictures are read as a whole, and compared by their bytes; else only their headers are read.
    """

    max_length: int | None = None
    charset: frozenset[str] | None = None
    decode: bool = False


@dataclass
class Looked:
    """One label looked at. cleaned: its line in the cleaned list, "" if it is left out.

    picture, content, text: 8 bytes that stand for the picture's place, its bytes and what is said of it; 0: not known.
    """

    findings: list[Finding] = field(default_factory=list)
    cleaned: str = ""
    picture: int = 0
    content: int = 0
    text: int = 0
    unknown: Counter[str] = field(default_factory=Counter)


def look(labels: LineLabels | PageLabels, first: int, last: int, rules: Rules, folder: Path) -> list[Looked]:
    """The labels from `first` to before `last`. folder: from where the cleaned list names pictures."""
    return [_Look(labels, index, rules).at(folder) for index in range(first, last)]


class _Look:
    """One label being looked at."""

    def __init__(self, labels: LineLabels | PageLabels, index: int, rules: Rules) -> None:
        self.labels, self.index, self.rules = labels, index, rules
        self.name = labels.name(index)
        self.pictures = labels.pictures(index)
        self.looked = Looked()
        self.kept = True

    def find(self, kind: str, what: str, done: Done) -> None:
        self.looked.findings.append(Finding(self.name, kind, what.removeprefix(f"{self.name}: "), done))

    def refuse(self, kind: str, what: str) -> None:
        """The label as a whole is left out."""
        self.find(kind, what, "left out")
        self.kept = False

    def at(self, folder: Path) -> Looked:
        try:
            entry = self.labels.entry(self.index)
        except BadSample as error:
            self.refuse("broken label", str(error))
            return self.looked
        picture = _found(self.pictures, entry.picture)
        if picture != entry.picture:
            self.find("path", f"{entry.picture!r} is not there, but {picture!r} is", "repaired")
            entry = replace(entry, picture=picture)
        size = self.size(entry.picture)
        cleaned = self.line(entry) if isinstance(entry, LineLabel) else self.page(entry, size)
        path = self.pictures.path(picture)
        place = path.resolve() if path and "\0" not in picture else f"{self.pictures}: {picture}"
        self.looked.picture = _key(str(place))
        said = entry.text if isinstance(entry, LineLabel) else paddle_page("", entry.regions)
        self.looked.text = _key(said)
        if self.kept:
            self.clean(cleaned, folder)
        return self.looked

    def clean(self, entry: LineLabel | PageLabel, folder: Path) -> None:
        try:
            path = listed_path(self.pictures, entry.picture, folder)
            if isinstance(entry, LineLabel):
                self.looked.cleaned = paddle_line(entry, path)
            else:
                self.looked.cleaned = paddle_page(path, entry.regions)
        except BadSample as error:
            self.refuse("not for a list", str(error))

    def size(self, picture: str) -> tuple[int, int] | None:
        """Width and height; None where the picture cannot be read, which is then a finding."""
        if not self.pictures.has(picture):
            self.refuse("missing picture", f"{str(self.pictures.path(picture) or picture)!s:.300}: no such file")
            return None
        try:
            with self.pictures.open(picture) as file:
                if not self.rules.decode:
                    return upright_size(file, picture)
                data = file.read()
            self.looked.content = _key(data)
            height, width = images.decode(data, picture).shape[:2]
        except images.PictureError as error:
            self.refuse("unreadable picture", str(error))
            return None
        return width, height

    def line(self, entry: LineLabel) -> LineLabel:
        if not entry.text.strip():
            self.refuse("empty text", f"nothing is said of {entry.picture}")
            return entry
        for kind, what, done in self.text(entry.text, "left out"):
            self.find(kind, what, done)
            self.kept = self.kept and done != "left out"
        return entry

    def text(self, text: str, bad: Done) -> Iterator[tuple[str, str, Done]]:
        """(kind, what, done) of each thing about a text; done: `bad` or "noted"."""
        if self.rules.max_length is not None and len(text) > self.rules.max_length:
            yield "too long text", f"{len(text)} characters, {self.rules.max_length} are the most: {text!r:.60}", bad
        if self.rules.charset is not None:
            others = [character for character in text if character not in self.rules.charset]
            self.looked.unknown.update(others)
            if others:
                yield "outside the charset", f"{', '.join(map(repr, dict.fromkeys(others)))} in {text!r:.60}", bad
        if any(unicodedata.category(character) in INVISIBLE or character == "\ufffd" for character in text):
            yield "invisible characters", f"{text!r:.80}", "noted"
        if text != text.strip():
            yield "spaces at an end", f"{text!r:.60}", "noted"
        if len(text) > 2 and text[0] == text[-1] == '"':
            yield "quotes around the text", f"{text!r:.60}", "noted"

    def page(self, entry: PageLabel, size: tuple[int, int] | None) -> PageLabel:
        for kind, message in entry.repaired:
            self.find(kind, message, "repaired")
        if size is not None and entry.size is not None and entry.size != size:
            self.refuse("size", wrong_size(entry.picture, entry.size, size))
            size = None  # and nothing is known of what lies out of the picture
        if not entry.regions:
            self.find("no regions", f"{entry.picture} has none", "noted")
        cleaned = [self.region(number, region, size) for number, region in enumerate(entry.regions, start=1)]
        return replace(entry, regions=tuple(region for region in cleaned if region is not None))

    def region(self, number: int, region: Region, size: tuple[int, int] | None) -> Region | None:
        """The region cleaned; None where it is left out."""
        where = f"region {number}"
        count = len(region.polygon_xy)
        if count < 3:
            self.find("under 3 points", f"{where} has {count}", "left out")
            return None
        hull = _hull(region.polygon_xy)
        if area(hull) < SMALLEST:
            self.find("zero area", f"{where} {_points(region.polygon_xy)}", "left out")
            return None
        if _crosses(region.polygon_xy):
            self.find("edges that cross", f"{where} {_points(region.polygon_xy)}", "ignored")
            region = replace(region, polygon_xy=hull, text=IGNORED[0], ignored=True)
        inside = region if size is None else self.inside(where, region, size)
        return inside if inside is None or inside.ignored else self.region_text(where, inside)

    def region_text(self, where: str, region: Region) -> Region:
        if not region.text.strip():
            self.find("empty text", f"{where} says nothing", "ignored")
            return replace(region, text=IGNORED[0], ignored=True)
        bad = False
        for kind, what, done in self.text(region.text, "ignored"):
            self.find(kind, f"{where}: {what}", done)
            bad = bad or done == "ignored"
        return replace(region, text=IGNORED[0], ignored=True) if bad else region

    def inside(self, where: str, region: Region, size: tuple[int, int]) -> Region | None:
        """The region with its points moved into the picture; itself where they are; None where nothing is left."""
        limit = np.array(size, np.float32)
        out = float(max((-region.polygon_xy).max(), (region.polygon_xy - limit).max()))
        if out <= 0:
            return region
        what = f"{where} reaches {out:g} pixels out of the picture of {size[0]} x {size[1]}"
        clipped = replace(region, polygon_xy=np.clip(region.polygon_xy, 0, limit))
        if area(clipped.polygon_xy) < SMALLEST:
            self.find("out of the picture", f"{what}, nothing of it is in", "left out")
            return None
        self.find("out of the picture", what, "repaired" if out <= CLIPPED else "ignored")
        return clipped if out <= CLIPPED else replace(clipped, text=IGNORED[0], ignored=True)


def _points(polygon_xy: np.ndarray) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in polygon_xy[:8])


def _hull(polygon_xy: np.ndarray) -> np.ndarray:
    """The convex polygon around the points, float32 [n, 2]."""
    import cv2

    return cv2.convexHull(np.asarray(polygon_xy, np.float32))[:, 0]


def _crosses(polygon_xy: np.ndarray) -> bool:
    """Whether the outline crosses itself, as when corners are listed from left to right in both rows."""
    from shapely import LinearRing

    return not LinearRing(polygon_xy).is_simple


def _key(data: str | bytes) -> int:
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") or 1


def _found(pictures: Pictures, name: str) -> str:
    """The name itself, or where there is no such picture, one without quotes and spaces around it or backslashes."""
    if pictures.has(name):
        return name
    plain = name.strip().strip("\"'").strip()
    for other in (plain, plain.replace("\\", "/")):
        if other not in ("", name) and pictures.has(other):
            return other
    return name
