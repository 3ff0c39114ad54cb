"""Where labels and their pictures lie: text files of millions of lines, folders, zip files, LMDB. No torch.

Everything here can be pickled for the workers of a loader; files are opened where they are read, once in a process.
"""

from __future__ import annotations

import io
import mmap
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import numpy as np

from zoo import images
from zoo.images import PictureError
from zoo.ocr.samples import BadSample

Handle = TypeVar("Handle")
Item = TypeVar("Item")
BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 22
TIFF_WIDTH, TIFF_HEIGHT = 256, 257  # TIFF 6.0, tags of the picture as it is stored


class PerProcess(Generic[Handle]):
    """Gives a handle that each process opens for itself, when it first asks for it."""

    def __init__(self, open_it: Callable[[], Handle]) -> None:
        self._open = open_it
        self._mine: tuple[int, Handle] | None = None

    def __call__(self) -> Handle:
        mine = self._mine
        if mine is None or mine[0] != os.getpid():
            mine = self._mine = (os.getpid(), self._open())
        return mine[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_open": self._open, "_mine": None}


@dataclass(frozen=True)
class _Index:
    """Where the lines are that hold anything: first byte, bytes without line end, number from 1.

    lists: indices of those that begin with a bracket.
    """

    starts: np.ndarray
    lengths: np.ndarray
    numbers: np.ndarray
    lists: np.ndarray
    returns: int
    blank: int
    bom: bool


class TextLines:
    """The lines of a UTF-8 text file that are not empty, each read when it is asked for: 16 bytes of memory a line.

    Lines end at line feeds alone, as PaddleOCR has it. A byte order mark and carriage returns at line ends are no part
    of them. data: the content of a file that lies in an archive.
    Raises ValueError for a file that is not there or is UTF-16, and BadSample for a line that is not UTF-8.
    """

    def __init__(self, path: Path | str, data: bytes | None = None) -> None:
        self.path = str(path)
        self._data = data
        try:
            with io.BytesIO(data) if data is not None else Path(path).open("rb") as file:
                self._index = _index(file, self.path)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
        self._bytes = PerProcess(partial(_content, self.path, data))

    def __len__(self) -> int:
        return len(self._index.starts)

    def __getitem__(self, index: int) -> str:
        start = int(self._index.starts[index])
        data = self._bytes()[start : start + int(self._index.lengths[index])]
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadSample(
                f"{self.place(index)}: is not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8"
            ) from None

    def place(self, index: int) -> str:
        """file:line."""
        return f"{self.path}:{self._index.numbers[index]}"

    @property
    def lists(self) -> np.ndarray:
        """Indices of the lines that begin with a bracket."""
        return self._index.lists

    @property
    def repaired(self) -> tuple[tuple[str, str], ...]:
        """(kind, message) of what of the file was put right in reading."""
        found = []
        if self._index.bom:
            found.append(("byte order mark", f"{self.path}:1: begins with a byte order mark"))
        if self._index.returns:
            found.append(("CRLF", f"{self.path}: {self._index.returns:,} lines end in CRLF"))
        if self._index.blank:
            found.append(("empty line", f"{self.path}: {self._index.blank:,} lines are empty"))
        return tuple(found)


def _content(path: str, data: bytes | None) -> bytes | mmap.mmap:
    if data is not None:
        return data
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _index(file: IO[bytes], name: str) -> _Index:
    head = file.read(3)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError(f"{name}: is UTF-16; save it as UTF-8")
    file.seek(0)
    stops, returns, brackets = _scan(file)
    starts = np.empty_like(stops)
    starts[0], starts[1:] = 0, stops[:-1] + 1
    if head == BOM:
        starts[0] = 3
    lengths = (stops - starts - returns).astype(np.int32)
    numbers = np.arange(1, len(stops) + 1, dtype=np.int32)
    full = lengths > 0
    # What follows the last line feed is no line if it is empty.
    blank = int(len(full) - full.sum()) - (not full[-1])
    if not full.all():
        starts, lengths, numbers = starts[full], lengths[full], numbers[full]
    lists = np.flatnonzero(np.isin(starts, brackets)) if len(brackets) else np.empty(0, np.int64)
    return _Index(starts, lengths, numbers, lists, int(returns[:-1].sum()), blank, head == BOM)


def _scan(file: IO[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of lines (int64, the last that of the file), whether each has a carriage return before it (bool), and
    brackets that may begin a line (int64).
    """
    stops, returns, brackets = [], [], []
    size, last = 0, 10
    while chunk := file.read(CHUNK):
        content = np.frombuffer(chunk, np.uint8)
        feeds = np.flatnonzero(content == 10)
        before = content[feeds - 1]  # of a feed that begins the chunk, the byte that ended the one before
        if len(feeds) and feeds[0] == 0:
            before[0] = last
        stops.append(feeds + size)
        returns.append(before == 13)
        found = np.flatnonzero(content == ord("["))
        earlier = np.where(found > 0, content[found - 1], last)
        # 0xbf ends a byte order mark, and characters after which no line begins: `_index` knows its starts.
        brackets.append(found[(earlier == 10) | (earlier == BOM[2])] + size)
        size, last = size + len(chunk), int(content[-1])
    ends = np.concatenate([*stops, np.array([size], np.int64)])
    return ends, np.concatenate([*returns, np.array([last == 13])]), np.concatenate([np.empty(0, np.int64), *brackets])


class Pictures(Protocol):
    """Pictures by name."""

    def open(self, name: str) -> IO[bytes]:
        """The file of a picture. Raises PictureError where there is none."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is such a picture."""
        ...

    def path(self, name: str) -> Path | None:
        """Where the picture lies; None inside an archive."""
        ...


@dataclass(frozen=True)
class Folder:
    """Pictures by their path from a folder; an absolute path stands as it is."""

    root: Path

    def open(self, name: str) -> IO[bytes]:
        return images.open_file(self.root / name)

    def has(self, name: str) -> bool:
        try:
            return (self.root / name).is_file()
        except (OSError, ValueError):  # a name that no file can have, such as one too long or with a NUL
            return False

    def path(self, name: str) -> Path:
        return self.root / name


@dataclass(frozen=True)
class Archive:
    """Pictures in a zip file."""

    file: Path
    _zip: PerProcess[zipfile.ZipFile] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zip", PerProcess(partial(_open_zip, self.file)))

    def names(self) -> list[str]:
        """Its files, without its folders."""
        return [info.filename for info in self._zip().infolist() if not info.is_dir()]

    def open(self, name: str) -> IO[bytes]:
        try:
            return io.BytesIO(self._zip().read(name))
        except KeyError:
            raise PictureError(f"{self.file}: holds no {name}") from None
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:  # RuntimeError: encrypted
            raise images.damaged(error, f"{self.file}: {name}") from None

    def has(self, name: str) -> bool:
        return name in self._zip().NameToInfo

    def path(self, name: str) -> None:
        return None


def _open_zip(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except zipfile.BadZipFile:
        raise ValueError(f"{file}: is no zip file, or is cut short; make it again") from None


@dataclass(frozen=True)
class Database:
    """Pictures and texts of an LMDB, keys as text."""

    folder: Path
    _base: PerProcess[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_base", PerProcess(partial(_open_lmdb, str(self.folder))))

    def get(self, key: str) -> bytes | None:
        """The value of a key; None where there is none."""
        with self._base().begin() as transaction:
            value: bytes | None = transaction.get(key.encode())
        return value

    def open(self, name: str) -> IO[bytes]:
        if (data := self.get(name)) is None:
            raise PictureError(f"{self.folder}: holds no {name}")
        return io.BytesIO(data)

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def path(self, name: str) -> None:
        return None


def lmdb_module() -> Any:
    """The package lmdb, which is no part of the light install. Raises ValueError that says how to get it."""
    try:
        import lmdb
    except ImportError:
        raise ValueError('LMDB needs the package lmdb: pip install lmdb, or "ppzoo[train]"') from None
    return lmdb


_bases: dict[tuple[str, int], Any] = {}  # LMDB allows a base to be open but once in a process


def _open_lmdb(folder: str) -> Any:
    lmdb = lmdb_module()
    key = (str(Path(folder).resolve()), os.getpid())
    for inherited in [other for other in _bases if other[1] != os.getpid()]:  # a fork's, not to be used here
        _bases.pop(inherited).close()
    if key not in _bases:
        try:
            base = lmdb.open(folder, readonly=True, lock=False, readahead=False, create=False)
        except lmdb.Error as error:
            raise ValueError(f"{folder}: is no LMDB that can be read: {error}") from None
        # Of a file cut short, reading what is not there would end the process without a word.
        wanted = (base.info()["last_pgno"] + 1) * base.stat()["psize"]
        if (there := (Path(folder) / "data.mdb").stat().st_size) < wanted:
            base.close()
            raise ValueError(f"{folder}: data.mdb is cut short: it has {there:,} bytes of {wanted:,}; copy it again")
        _bases[key] = base
    return _bases[key]


def upright_size(file: IO[bytes], name: str) -> tuple[int, int]:
    """Width and height of a picture as it is to be seen, from its header alone. Raises PictureError."""
    with images.opened(file, name) as image:
        width, height = image.size
        if (tags := getattr(image, "tag_v2", None)) is not None and {TIFF_WIDTH, TIFF_HEIGHT} <= set(tags):
            width, height = int(tags[TIFF_WIDTH]), int(tags[TIFF_HEIGHT])
        # Of a PNG without EXIF in front, Pillow would decode all pixels to look for one behind them.
        looked_for = image.format != "PNG" or "exif" in image.info
        try:
            orientation = image.getexif().get(images.ORIENTATION, 1) if looked_for else 1
        except Exception:  # a damaged EXIF block, which images.decode does not apply either
            orientation = 1
    return (height, width) if orientation in (5, 6, 7, 8) else (width, height)


def counted(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, with a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, total=total, description=what, console=Console(stderr=True), transient=True)
