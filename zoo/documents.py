"""From what a user has to pictures: files, bytes, arrays, PIL images, PDF, TIFF pages, animations, folders, globs."""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo import images
from zoo.images import Channels, PictureError

DPI = 200  # a good scan; text of 6 points is 17 pixels tall
_SUFFIXES = "bmp dib gif jfif jpe jpeg jpg jp2 npy pbm pdf pgm png pnm ppm tga tif tiff webp"
SUFFIXES = frozenset(f".{suffix}" for suffix in _SUFFIXES.split(" "))
_pdfium = threading.RLock()  # pdfium may be called by one thread at a time


@dataclass(frozen=True)
class Picture:
    """One page of something readable.

    pixels: uint8 [H, W, 3] BGR. source: its name for people. number: the page, from 1; pages: how many there are.
    dpi: of a PDF page as drawn here. reread: gives the pixels again; a file is opened anew, nothing is kept alive.
    """

    pixels: np.ndarray
    source: str
    number: int
    pages: int
    dpi: float | None
    reread: Callable[[], np.ndarray]


def pictures(
    source: Any, *, pages: str | None = None, dpi: float = DPI, channels: Channels = "bgr"
) -> Iterator[Picture]:
    """The pages of a source, one at a time.

    source: a path, bytes, an open binary file, an array or a PIL image. What bytes hold is told by their content, not
    by a suffix. pages: such as "1,3-5,7-", default all. dpi: at which PDF pages are drawn. channels: of an array.
    Raises PictureError (a ValueError) that names the source.
    """
    if isinstance(source, np.ndarray):
        yield from _single("<array>", pages, lambda: images.from_array(source, channels=channels))
    elif isinstance(source, str | Path):
        path = Path(source)
        yield from _from_bytes(lambda: read_file(path), str(source), pages, dpi, channels)
    elif isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
        yield from _from_bytes(lambda: data, "<bytes>", pages, dpi, channels)
    elif hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, bytes):
            raise PictureError(f"{_name(source)}: is open as text; open it with mode 'rb'")
        yield from _from_bytes(lambda: data, _name(source), pages, dpi, channels)
    elif hasattr(source, "convert") and hasattr(source, "getexif"):
        yield from _single("<PIL image>", pages, lambda: images.from_pil(source.copy(), "<PIL image>"))
    else:
        raise PictureError(
            f"{type(source).__name__}: is nothing to read; give a path, bytes, an open binary file, a NumPy array or a "
            "PIL image"
        )


def _name(file: Any) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "<file>"


def read_file(path: Path) -> bytes:
    """The bytes of a file. Raises PictureError where there is none or it may not be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PictureError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise PictureError(f"{path}: is a folder; give its pictures, or let documents.files list them") from None
    except (OSError, ValueError) as error:
        raise PictureError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _single(source: str, pages: str | None, read: Callable[[], np.ndarray]) -> Iterator[Picture]:
    for number in page_numbers(pages, 1, source):
        yield Picture(read(), source, number, 1, None, read)


def _from_bytes(
    read: Callable[[], bytes], source: str, pages: str | None, dpi: float, channels: Channels
) -> Iterator[Picture]:
    data = read()
    if b"%PDF-" in data[:1024]:
        yield from _pdf_pages(read, data, source, pages, dpi)
    elif data[:6] == b"\x93NUMPY":
        yield from _single(source, pages, lambda: _npy(read(), source, channels))
    else:
        yield from _frames(read, data, source, pages)


def _npy(data: bytes, source: str, channels: Channels) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise PictureError(f"{source}: is a damaged .npy file: {error}") from None
    return images.from_array(array, channels=channels, name=source)


def _frames(read: Callable[[], bytes], data: bytes, source: str, pages: str | None) -> Iterator[Picture]:
    """The pages of a TIFF, the frames of an animation, or the one picture of any other file."""
    if data[:3] == b"\xff\xd8\xff" or not data:  # a JPEG is one picture; a second one inside is a preview
        yield from _single(source, pages, lambda: images.decode(read(), source))
        return
    with images.opened(data, source) as image:
        count = int(getattr(image, "n_frames", 1))
    for number in page_numbers(pages, count, source):
        again = _Frame(read, source, number, count)
        yield Picture(again.of(data), source, number, count, None, again)


@dataclass(frozen=True)
class _Frame:
    read: Callable[[], bytes]
    source: str
    number: int
    count: int

    def __call__(self) -> np.ndarray:
        return self.of(self.read())

    def of(self, data: bytes) -> np.ndarray:
        if self.count == 1:
            return images.decode(data, self.source)
        name = f"{self.source}, page {self.number}"
        with images.opened(data, self.source) as image:
            try:
                image.seek(self.number - 1)
            except Exception as error:  # each decoder has errors of its own
                raise PictureError(f"{name}: is cut short or damaged: {error}") from None
            return images.from_pil(image, name)


def _pdf_pages(read: Callable[[], bytes], data: bytes, source: str, pages: str | None, dpi: float) -> Iterator[Picture]:
    with _pdfium:
        document = _open_pdf(data, source)
        count = len(document)
    try:
        for number in page_numbers(pages, count, source):
            with _pdfium:
                pixels, drawn = _draw_page(document, number, dpi, source)
            yield Picture(pixels, source, number, count, drawn, _PdfPage(read, source, number, dpi))
            del pixels  # one page at a time
    finally:
        with _pdfium:
            document.close()


@dataclass(frozen=True)
class _PdfPage:
    read: Callable[[], bytes]
    source: str
    number: int
    dpi: float

    def __call__(self) -> np.ndarray:
        with _pdfium:
            document = _open_pdf(self.read(), self.source)
            try:
                return _draw_page(document, self.number, self.dpi, self.source)[0]
            finally:
                document.close()


def _open_pdf(data: bytes, source: str) -> Any:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        what = "needs a password; save it without one" if "assword" in str(error) else f"is a damaged PDF: {error}"
        raise PictureError(f"{source}: {what}") from None
    if len(document) == 0:
        document.close()
        raise PictureError(f"{source}: is a PDF without pages")
    return document


def _draw_page(document: Any, number: int, dpi: float, source: str) -> tuple[np.ndarray, float]:
    import pypdfium2

    name = f"{source}, page {number}"
    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError as error:
        raise PictureError(f"{name}: is damaged: {error}") from None
    try:
        width, height = page.get_size()  # in points of 1/72 inch
        largest = 72 * (images.MAX_PIXELS / max(width * height, 1e-6)) ** 0.5
        if dpi > largest:
            warnings.warn(f"{name}: drawn at {largest:.0f} dots an inch, not {dpi:g}: it is too large", stacklevel=2)
            dpi = largest
        bitmap = page.render(scale=dpi / 72, rev_byteorder=False, prefer_bgrx=False)
        array = bitmap.to_numpy()
        pixels = images.from_array(array[..., :3] if array.ndim == 3 else array, name=name)
        pixels = pixels.copy() if pixels.base is not None else pixels
        bitmap.close()
        return pixels, dpi
    except pypdfium2.PdfiumError as error:
        raise PictureError(f"{name}: cannot be drawn: {error}") from None
    finally:
        page.close()


def page_numbers(pages: str | None, count: int, source: str) -> list[int]:
    """The pages that a range such as "1,3-5,7-" names, in its order, each once. Raises PictureError."""
    if pages is None:
        return list(range(1, count + 1))
    numbers: dict[int, None] = {}
    for part in pages.split(","):
        found = re.fullmatch(r"\s*(\d*)\s*(-?)\s*(\d*)\s*", part)
        if not found or not (found[1] or found[3]):
            raise PictureError(f"{source}: pages={pages!r}: {part!r} is no page or range; give such as 1,3-5,7-")
        first = int(found[1] or 1)
        last = int(found[3] or count) if found[2] else first
        if not 1 <= first <= last or last > count:
            has = f"it has {count} page{'s' * (count > 1)}"
            raise PictureError(f"{source}: pages={pages!r}: {part.strip()!r} is not there; {has}")
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)


def files(paths: Iterable[str | Path]) -> list[Path]:
    """The files that paths, folders and globs name, each once; those of a folder or glob in natural order.

    A folder stands for the pictures and documents directly in it; `**` in a glob reaches deeper. Raises PictureError
    for a path that is not there and for a folder or glob without pictures.
    """
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = sorted((p for p in path.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file()), key=natural)
            if not inside:
                raise PictureError(f"{given}: this folder holds no picture or PDF")
            found |= dict.fromkeys(inside)
        elif path.exists():
            found[path] = None
        elif any(sign in str(given) for sign in "*?["):
            found |= dict.fromkeys(_glob(str(given)))
        else:
            raise PictureError(f"{given}: no such file or folder")
    return list(found)


def _glob(pattern: str) -> list[Path]:
    from glob import glob

    matched = [Path(name) for name in glob(pattern, recursive=True)]
    inside = sorted((p for p in matched if p.is_file() and p.suffix.lower() in SUFFIXES), key=natural)
    if not inside:
        raise PictureError(f"{pattern}: matches no picture or PDF")
    return inside


def natural(path: Path) -> list[tuple[int, int, str]]:
    """A sorting key that puts page2 before page10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.lower()) for part in re.split(r"(\d+)", str(path))]
