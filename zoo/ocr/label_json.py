"""Page labels of which one JSON file holds all: Label Studio's export and COCO-Text. No torch.

Such a file is read as a whole; a million regions take about a gigabyte.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from zoo.ocr.label_files import Pictures
from zoo.ocr.label_formats import IGNORED, PageLabel, Region, Repair, region_of
from zoo.ocr.samples import BadSample

_UPLOADED = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the name of an uploaded file


@dataclass(frozen=True)
class Record:
    """One page of a JSON file. place: for messages."""

    place: str
    values: Mapping[str, Any]
    regions: Sequence[Any] = ()


@dataclass(frozen=True)
class JsonPages:
    """The pages of a JSON file; `parse` makes one of a record, given the pictures to choose a name from."""

    format: str
    records: Sequence[Record]
    pictures: Pictures
    parse: Callable[[Record, Pictures], PageLabel]
    repaired: tuple[Repair, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    def name(self, index: int) -> str:
        return self.records[index].place

    def entry(self, index: int) -> PageLabel:
        record = self.records[index]
        try:
            return self.parse(record, self.pictures)
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise BadSample(f"{record.place}: is not as {self.format} has it: {what}") from None
        except ValueError as error:
            raise error if isinstance(error, BadSample) else BadSample(f"{record.place}: {error}") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises ValueError that names the place of the mistake."""
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: is no JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ValueError(f"{path}: is no labels: its lists or objects lie in one another too deeply") from None


def json_format(content: Any) -> str:
    """ "label-studio", "coco", or "" for what is neither."""
    if isinstance(content, dict) and ("anns" in content or "annotations" in content):
        return "coco"
    tasks = isinstance(content, list) and all(isinstance(one, dict) and "data" in one for one in content)
    return "label-studio" if tasks and content else ""


# Label Studio. Source: its documentation, "Task format" and "Units of image annotations".


def label_studio_records(content: Any, path: Path) -> list[Record]:
    """A record for each task. Raises ValueError for what is no full JSON export."""
    if not isinstance(content, list):
        raise ValueError(f"{path}: is no Label Studio export, which is a list of tasks; export as JSON")
    records = []
    for number, task in enumerate(content, start=1):
        if not isinstance(task, dict) or "data" not in task:
            raise ValueError(f"{path}: task {number} has no data; export as JSON, not as JSON-MIN")
        records.append(Record(f"{path}: task {task.get('id', number)}", task))
    return records


def label_studio_page(record: Record, pictures: Pictures) -> PageLabel:
    """The regions of a task: rectangles and polygons in percent of the picture, texts by the same id."""
    results = _annotation(record)["result"]
    texts: dict[str, list[str]] = {}
    for one in results:
        if one["type"] == "textarea":
            said = one["value"]["text"]
            texts.setdefault(one["id"], []).extend([said] if isinstance(said, str) else said)
    regions, size = [], None
    for one in results:
        if "points" in one["value"] or "width" in one["value"]:
            if one["type"] == "textarea":  # it repeats the shape that it belongs to
                continue
            size = (int(one["original_width"]), int(one["original_height"]))
            regions.append(_label_studio_region(one, texts.pop(one["id"], [""]), size, record.place))
    return PageLabel(record.place, _label_studio_picture(record, pictures), tuple(regions), size)


def _annotation(record: Record) -> Mapping[str, Any]:
    """The one annotation that counts."""
    task = record.values
    given = [one for one in task["annotations"] if not one.get("was_cancelled")]
    truths = [one for one in given if one.get("ground_truth")]
    chosen: list[Mapping[str, Any]] = truths or given
    if not chosen:
        raise BadSample(f"{record.place}: has no annotation")
    if len(chosen) > 1:
        raise BadSample(f"{record.place}: has {len(chosen)} annotations; mark one as ground truth in Label Studio")
    return chosen[0]


def _label_studio_region(one: Mapping[str, Any], texts: list[str], size: tuple[int, int], place: str) -> Region:
    where = f"{place}: region {one['id']}"
    if len(texts) > 1:
        raise BadSample(f"{where} has {len(texts)} texts; keep one in Label Studio")
    if one.get("image_rotation"):
        raise BadSample(f"{where} was drawn on the picture turned by {one['image_rotation']}; save the picture so")
    value = one["value"]
    x_unit, y_unit = size[0] / 100, size[1] / 100
    if "points" in value:
        points = [(x * x_unit, y * y_unit) for x, y in value["points"]]
    else:
        turn = math.radians(value.get("rotation", 0))
        left, top = value["x"] * x_unit, value["y"] * y_unit
        width, height = value["width"] * x_unit, value["height"] * y_unit
        cos, sin = math.cos(turn), math.sin(turn)
        corners = ((0, 0), (width, 0), (width, height), (0, height))
        # Clockwise as one looks at it, about the top left corner, in pixels: percents are not square.
        points = [(left + x * cos - y * sin, top + x * sin + y * cos) for x, y in corners]
    return region_of(points, texts[0], where)


def _label_studio_picture(record: Record, pictures: Pictures) -> str:
    """The first of the names that a task's address may mean which is there; the plain name if none is."""
    data = record.values["data"]
    known = [key for key in ("image", "ocr", "img", "captioning") if key in data]
    keys = known or [key for key, value in data.items() if isinstance(value, str)]
    if len(keys) != 1:
        raise BadSample(f"{record.place}: its data are {list(data)}; one picture is meant, under the key image")
    address = urlsplit(data[keys[0]])
    local = parse_qs(address.query)["d"][0] if "d" in parse_qs(address.query) else ""
    path = local or unquote(address.path).lstrip("/")
    plain = path.rsplit("/", 1)[-1]
    names = list(dict.fromkeys((path, plain, _UPLOADED.sub("", plain))))
    there = [name for name in names if pictures.has(name)]
    return there[0] if there else (path if local else plain)


# COCO-Text (imgs, anns), TextOCR (the same with points), and COCO (images, annotations) with a text in each.


def coco_records(content: Any, path: Path) -> list[Record]:
    """A record for each picture, also for those without text. Raises ValueError for what is no COCO."""
    pictures, annotations = _values(content, "imgs", "images", path), _values(content, "anns", "annotations", path)
    by_picture: dict[Any, list[Any]] = {}
    for one in annotations:
        if not isinstance(one, dict) or "image_id" not in one:
            raise ValueError(f"{path}: an annotation is {one!r:.60}; an object with image_id is meant")
        by_picture.setdefault(one["image_id"], []).append(one)
    records = []
    for one in pictures:
        if not isinstance(one, dict) or "id" not in one:
            raise ValueError(f"{path}: a picture is {one!r:.60}; an object with id is meant")
        records.append(Record(f"{path}: picture {one['id']}", one, by_picture.pop(one["id"], ())))
    if by_picture:
        raise ValueError(
            f"{path}: {len(by_picture)} annotated pictures are not listed, such as {next(iter(by_picture))}"
        )
    return records


def _values(content: Any, first: str, second: str, path: Path) -> Sequence[Any]:
    if not isinstance(content, dict) or (first not in content and second not in content):
        raise ValueError(f"{path}: has neither {first} nor {second}, as COCO-Text and COCO have")
    values = content[first if first in content else second]
    if not isinstance(values, dict | list):
        raise ValueError(f"{path}: its {first} or {second} are {values!r:.40}; a list or an object is meant")
    return list(values.values()) if isinstance(values, dict) else values


def coco_page(record: Record, pictures: Pictures) -> PageLabel:
    """The regions of a picture; what is illegible is ignored."""
    one = record.values
    size = (int(one["width"]), int(one["height"])) if "width" in one and "height" in one else None
    regions = tuple(_coco_region(each, record.place) for each in record.regions)
    return PageLabel(record.place, one["file_name"], regions, size)


def _coco_region(one: Mapping[str, Any], place: str) -> Region:
    where = f"{place}: region {one['id']}"
    text = one.get("utf8_string", "")
    region = region_of(_coco_points(one), text, where)
    illegible = "legibility" in one and one["legibility"] != "legible"
    if illegible or one.get("ignore"):
        return Region(region.polygon_xy, text or IGNORED[0], True)
    return region


def _coco_points(one: Mapping[str, Any]) -> list[Sequence[float]]:
    """The outline, or the box of a region without one, of several pieces, or of run lengths."""
    outlines = [one[key] for key in ("segmentation", "mask", "polygon", "points") if one.get(key)]
    flat = outlines[0] if outlines else None
    if isinstance(flat, list) and isinstance(flat[0], list):
        flat = flat[0] if len(flat) == 1 else None
    if isinstance(flat, list):
        if len(flat) % 2:
            raise ValueError(f"region {one['id']} has {len(flat)} coordinates, an odd number")
        return [flat[i : i + 2] for i in range(0, len(flat), 2)]
    left, top, width, height = one["bbox"]
    return [(left, top), (left + width, top), (left + width, top + height), (left, top + height)]
