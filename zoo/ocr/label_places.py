"""Which format labels have, told by their content, and where their pictures lie. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from zoo import documents
from zoo.ocr import label_json
from zoo.ocr.label_files import Archive, Database, Folder, TextLines
from zoo.ocr.label_formats import (
    DatabaseLines,
    IcdarPages,
    LineLabel,
    Listed,
    ListLines,
    ListPages,
    NamedLines,
    PageLabel,
    Source,
    TableLines,
    table_columns,
)
from zoo.ocr.samples import BadSample

Kind = Literal["pages", "lines"]
LINE_FORMATS = ("auto", "paddle", "tsv", "lmdb", "names")
PAGE_FORMATS = ("auto", "paddle", "icdar", "sroie", "label-studio", "coco")
SUFFIXES = documents.SUFFIXES - {".pdf", ".npy"}
LINE_LISTS = ("labels.tsv", "rec_gt.txt", "lines.txt", "labels.txt", "train.txt")  # names of a list in its folder
PAGE_LISTS = ("Label.txt", "pages.txt", "labels.txt", "train.txt")
HEAD = 1 << 20  # bytes of a file that are looked at for its format
LOOKED_AT = 20  # lines or files that decide a format, and where the pictures are
LINES_LOOKED_FOR = (
    f"a list `path TAB text`, a table with a first line such as `file TAB text`, an LMDB (data.mdb), or a folder or "
    f"zip with one of {', '.join(LINE_LISTS)} in it. For pictures whose names are the texts give a pattern: '(.+)'"
)
PAGES_LOOKED_FOR = (
    f"a list `path TAB [{{...}}]` (or {', '.join(PAGE_LISTS)} in a folder), a folder of .txt or .csv with "
    "x1,y1,x2,y2,x3,y3,x4,y4,text, a Label Studio export or a COCO-Text file (JSON)"
)


def kind_of(path: Path) -> Kind:
    """Whether a file or folder holds labels of pages or of lines. Raises ValueError where neither is known."""
    if page_format(path):
        return "pages"
    if line_format(path, None):
        return "lines"
    _there(path)
    raise ValueError(
        f"{path}: holds no labels that are known here. Looked for: pages: {PAGES_LOOKED_FOR}; lines: {LINES_LOOKED_FOR}"
    )


def lines_at(path: Path, root: Path | None, format: str, pattern: str | None) -> Source[LineLabel]:
    """The source behind `labels.open_lines`."""
    _known(format, LINE_FORMATS)
    _there(path)
    if format == "auto":
        if path.is_file() and page_format(path) == "paddle":
            raise ValueError(f"{path}: holds regions of pages, not lines; give a list `path TAB text`")
        format = line_format(path, pattern)
        if not format:
            raise ValueError(f"{path}: holds no labels of lines that are known here; looked for {LINES_LOOKED_FOR}")
    if format == "lmdb":
        return DatabaseLines(Database(path))
    if format == "names":
        return _named(path, pattern)
    if path.suffix.lower() == ".zip":
        archive = Archive(path)
        member = _member(archive)
        return _listed_lines(TextLines(f"{path}/{member}", archive.open(member).read()), archive, format)
    lines = TextLines(_list_in(path, LINE_LISTS, "lines") if path.is_dir() else path)
    file = Path(lines.path)
    pictures = _pictures(root, _first_pictures(lines, format == "tsv"), _folders(file), file)
    return _listed_lines(lines, pictures, format)


def _listed_lines(lines: TextLines, pictures: Folder | Archive, format: str) -> Source[LineLabel]:
    columns = table_columns(_head(lines))
    if columns is None and format == "tsv":
        raise ValueError(f"{lines.path}:1: names no columns; a first line such as `file TAB text` is meant")
    if columns is not None:
        return TableLines(lines, pictures, columns)
    return ListLines(Listed(lines), pictures)


def _named(path: Path, pattern: str | None) -> NamedLines:
    if path.suffix.lower() == ".zip":
        archive = Archive(path)
        names = [name for name in archive.names() if Path(name).suffix.lower() in SUFFIXES]
        return NamedLines(sorted(names, key=_natural), archive, pattern)
    if not path.is_dir():
        raise ValueError(f"{path}: is a file; texts in names of pictures need a folder or zip of pictures")
    return NamedLines(_picture_names(path), Folder(path), pattern)


def _picture_names(folder: Path) -> list[str]:
    names = [one.name for one in folder.iterdir() if one.suffix.lower() in SUFFIXES and not one.name.startswith(".")]
    return sorted(names, key=_natural)


def _natural(name: str) -> Any:
    return documents.natural(Path(name))


def line_format(path: Path, pattern: str | None) -> str:
    """A format of LINE_FORMATS, "" for none."""
    if path.is_dir():
        if (path / "data.mdb").is_file():
            return "lmdb"
        if pattern is not None:
            return "names"
        return "paddle" if _lists(path, LINE_LISTS, "lines") else ""
    if path.suffix.lower() == ".zip":
        return "names" if pattern is not None else "paddle"
    lines = _text(path)
    if lines is None or not len(lines):
        return "paddle" if lines is not None else ""
    if table_columns(_head(lines)):
        return "tsv"
    return "paddle" if any("\t" in line for line in _first(lines)) else ""


def pages_at(path: Path, root: Path | None, format: str) -> Source[PageLabel]:
    """The source behind `labels.open_pages`."""
    _known(format, PAGE_FORMATS)
    _there(path)
    if format == "auto":
        format = page_format(path)
        if not format:
            raise ValueError(f"{path}: holds no labels of pages that are known here; looked for {PAGES_LOOKED_FOR}")
    if format in ("icdar", "sroie"):
        return _icdar(path, root)
    if format == "paddle":
        lines = TextLines(_list_in(path, PAGE_LISTS, "pages") if path.is_dir() else path)
        file = Path(lines.path)
        return ListPages(Listed(lines), _pictures(root, _first_pictures(lines, False), _folders(file), file))
    content = label_json.read_json(path)
    if format == "coco":
        records, parse = label_json.coco_records(content, path), label_json.coco_page
    else:
        records, parse = label_json.label_studio_records(content, path), label_json.label_studio_page
    source = label_json.JsonPages(format, records, Folder(path.parent), parse)
    names = [name for name in (_picture_of(source, index) for index in range(min(LOOKED_AT, len(source)))) if name]
    return label_json.JsonPages(format, records, _pictures(root, names, _folders(path), path), parse)


def _picture_of(source: Source[PageLabel], index: int) -> str:
    try:
        return source.entry(index).picture
    except BadSample:  # it says so when it is asked for
        return ""


def page_format(path: Path) -> str:
    """A format of PAGE_FORMATS, "" for none."""
    if path.is_dir():
        if _lists(path, PAGE_LISTS, "pages"):
            return "paddle"
        return "icdar" if _has_boxes(label_files_in(path)) else ""
    if path.suffix.lower() == ".json":
        return label_json.json_format(label_json.read_json(path))
    lines = _text(path)
    if lines is None:
        return ""
    if any(_is_regions(line) for line in _first(lines)):
        return "paddle"
    return "icdar" if _has_boxes([path]) else ""


def _is_regions(line: str) -> bool:
    """Whether a line is a path and something that begins as the regions of a page do."""
    rest = line.partition("\t")[2].lstrip()
    return rest.startswith("[") and (rest[1:].lstrip()[:1] == "{" or rest.rstrip() == "[]")


def label_files_in(folder: Path) -> list[Path]:
    """The .txt or .csv files of a folder, or of its folder `box`, in natural order."""
    found = [one for one in folder.iterdir() if one.suffix.lower() in (".txt", ".csv") and one.is_file()]
    inner = folder / "box"
    if not _has_boxes(found) and inner.is_dir():
        found = [one for one in inner.iterdir() if one.suffix.lower() in (".txt", ".csv")]
    return sorted(found, key=documents.natural)


def _has_boxes(files: Sequence[Path]) -> bool:
    """Whether a line of the first files begins with eight numbers."""
    for file in files[:LOOKED_AT]:
        lines = _text(file)
        for line in _first(lines) if lines is not None else ():
            fields = line.split(",", 8)
            if len(fields) == 9 and all(_is_number(number) for number in fields[:8]):
                return True
    return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _icdar(path: Path, root: Path | None) -> IcdarPages:
    files = label_files_in(path) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: holds no .txt or .csv with regions")
    if named := [file for file in files if file.name.startswith("gt_")]:  # what else is there is a readme or a list
        files = named
    stems = [file.stem.removeprefix("gt_") for file in files]
    folder = files[0].parent
    name = folder.name
    beside = [name.replace("gt", new) for new in ("images", "img", "imgs")] if "gt" in name else []
    beside += ["images", "img", "imgs"]
    folders = [root] if root else [folder, folder / "images", *(folder.parent / one for one in beside if one != name)]
    for place in folders:
        names = {Path(one).stem: one for one in _picture_names(place)} if place.is_dir() else {}
        if any(stem in names for stem in stems):
            # Of a picture that is missing the name is not known, so the label's own stands for it.
            pairs = tuple((file, names.get(stem, stem)) for file, stem in zip(files, stems, strict=True))
            return IcdarPages(pairs, Folder(place))
    tried = ", ".join(dict.fromkeys(str(place) for place in folders))
    raise ValueError(f"{files[0]}: no picture {stems[0]}.* in {tried}; give root, the folder of the pictures")


def _pictures(root: Path | None, names: Iterable[str], folders: Sequence[Path], file: Path) -> Folder | Archive:
    """Where the pictures of a label file lie: `root`, else the first place that holds one of `names`."""
    if root is not None:
        _there(root)
        return Archive(root) if root.is_file() else Folder(root)
    first = list(names)
    for folder in folders:
        pictures = Folder(folder)
        if any(pictures.has(name) for name in first):
            return pictures
    beside = file.with_suffix(".zip")
    if beside != file and beside.is_file() and any(Archive(beside).has(name) for name in first):
        return Archive(beside)
    return Folder(file.parent)


def _folders(file: Path) -> list[Path]:
    # PPOCRLabel writes its list into the folder of the pictures, with that folder's name before each of theirs.
    return [file.parent, file.parent / "images", file.parent.parent]


def _first_pictures(lines: TextLines, is_table: bool) -> list[str]:
    names = []
    columns = table_columns(_head(lines))
    for line in _first(lines):
        cells = line.split("\t")
        name = cells[columns[0]] if columns and len(cells) > columns[0] else cells[0]
        names += _json_list(name) or [name]
    return names


def _json_list(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _first(lines: TextLines) -> list[str]:
    """The first lines, those that are text."""
    found = []
    for row in range(min(LOOKED_AT, len(lines))):
        try:
            found.append(lines[row])
        except BadSample:  # it says so when it is asked for
            continue
    return found


def _head(lines: TextLines) -> str:
    """The first line; "" where there is none, or it alone is not text. Raises BadSample where none of the first is."""
    readable = _first(lines)
    if len(lines) and not readable:
        return lines[0]
    try:
        return lines[0] if len(lines) else ""
    except BadSample:  # it says so when it is asked for
        return ""


def _text(path: Path) -> TextLines | None:
    """The first lines of a text file; None for what is no file of text."""
    if not path.is_file() or path.suffix.lower() in SUFFIXES:
        return None
    with path.open("rb") as file:
        head = file.read(HEAD)
    if len(head) == HEAD:
        head = head[: head.rfind(b"\n") + 1]
    if b"\x00" in head[:1024] and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return None
    return TextLines(path, head)


def _member(archive: Archive) -> str:
    """The list of labels in a zip."""
    names = archive.names()
    lists = [name for name in names if Path(name).name in LINE_LISTS]
    lists = lists or [name for name in names if Path(name).suffix.lower() in (".tsv", ".txt")]
    if len(lists) != 1:
        raise ValueError(f"{archive.file}: holds {len(lists)} lists of labels; one labels.tsv is meant")
    return lists[0]


def _lists(folder: Path, names: Sequence[str], kind: Kind) -> list[Path]:
    """Those of the files that are lists of pages, or of lines."""
    there = [folder / name for name in names if (folder / name).is_file()]
    pages = [file for file in there if page_format(file) == "paddle"]
    return pages if kind == "pages" else [file for file in there if file not in pages]


def _list_in(folder: Path, names: Sequence[str], kind: Kind) -> Path:
    if not (lists := _lists(folder, names, kind)):
        raise ValueError(f"{folder}: holds no list of {kind} named {', '.join(names)}; give the file itself")
    return lists[0]


def _there(path: Path) -> None:
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")


def _known(format: str, formats: Sequence[str]) -> None:
    if format not in formats:
        raise ValueError(f"format={format!r}: is not known; give one of {', '.join(formats)}")
