"""From what a user has to pictures: files, bytes, arrays, PIL images, PDF, TIFF pages, animations, folders, globs."""

from __future__ import annotations

import io
import math
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from zoo import images
from zoo.images import Channels, PictureError

DPI = 200  # of a good scan: 8 point text has 22 pixels a line, and an A4 page takes 12 MB
_SUFFIXES = "avif bmp dib gif ico jfif jp2 jpe jpeg jpg npy pbm pcx pdf pgm png pnm ppm tga tif tiff webp"
SUFFIXES = frozenset(f".{suffix}" for suffix in _SUFFIXES.split(" "))
ANIMATED = ("TIFF", "GIF", "WEBP", "PNG", "AVIF")  # of others, a second picture inside is a preview
PDF_TAIL = 65536  # bytes in which the end of a PDF is looked for; some have rubbish after it
pdfium_lock = threading.RLock()  # pdfium may be called by one thread at a time


@dataclass(frozen=True, eq=False)
class Picture:
    """One page of something readable.

    pixels: uint8 [H, W, 3] BGR; may be the caller's own array. source: its name for people. number: the page, from 1;
    pages: how many there are. dpi: at which a PDF page was drawn, None for other pages. reread: gives the pixels
    again; a file is opened anew, so that nothing but the caller's own object is kept alive. Raises PictureError.
    """

    pixels: np.ndarray
    source: str
    number: int
    pages: int
    dpi: float | None
    reread: Callable[[], np.ndarray]


@dataclass(frozen=True)
class _Origin:
    """Where the bytes of a document are: in a file, or here."""

    name: str
    path: Path | None = None
    data: bytes = field(default=b"", repr=False)

    def open(self) -> IO[bytes]:
        return images.open_file(self.path) if self.path else io.BytesIO(self.data)

    def read(self) -> bytes:
        return images.read_file(self.path) if self.path else self.data


def pictures(
    source: Any, *, pages: str | None = None, dpi: float = DPI, channels: Channels = "bgr"
) -> Iterator[Picture]:
    """The pages of a source, one at a time and each read when it is asked for.

    source: a path, bytes, an open binary file, an array (see images.from_array) or a PIL image (its current frame).
    What bytes and files hold is told by their content, not by a suffix: a picture, a PDF, a TIFF with pages, an
    animation (its frames are pages), or an array as numpy.save writes it.
    pages: such as "1,3-5,7-"; default all. dpi: at which PDF pages are drawn; a page that would have over 200 million
    pixels is drawn with fewer, with a warning. channels: the order of colours of an array.
    Raises PictureError (a ValueError) that names the source, when the page it concerns is asked for.
    """
    if not (isinstance(dpi, int | float) and 0 < dpi < math.inf):
        raise PictureError(f"dpi={dpi!r}: give a number above 0, such as {DPI}")
    if isinstance(source, np.ndarray):
        yield from _single("<array>", pages, lambda: images.from_array(source, channels, "<array>"))
    elif _is_pil(source):
        yield from _single("<PIL image>", pages, lambda: images.from_pil(source, "<PIL image>"))
    else:
        origin = _origin(source)
        with origin.open() as file:
            head = file.read(1024)
        if head.startswith(b"\x93NUMPY"):
            yield from _single(origin.name, pages, lambda: _npy(origin, channels))
        elif b"%PDF-" in head and not head.startswith((b"\xff\xd8", b"\x89PNG", b"II", b"MM", b"RIFF", b"GIF8")):
            yield from _pdf_pages(origin, pages, dpi)
        else:
            yield from _frames(origin, pages)


def _is_pil(source: Any) -> bool:
    module = sys.modules.get("PIL.Image")  # who has such an image has imported it
    return module is not None and isinstance(source, module.Image)


def _origin(source: Any) -> _Origin:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe can be read only once
            return _Origin(str(source), data=images.read_file(path))
        return _Origin(str(source), path)
    if isinstance(source, bytes | bytearray | memoryview):
        return _Origin("<bytes>", data=bytes(source))
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        name = name if isinstance(name, str) else "<file>"
        data = source.read()
        if not isinstance(data, bytes | bytearray):
            raise PictureError(f"{name}: is open as text; open it with mode 'rb'")
        return _Origin(name, data=bytes(data))
    raise PictureError(
        f"{type(source).__name__}: is nothing to read; give a path, bytes, an open binary file, a NumPy array or a PIL "
        "image"
    )


def _single(name: str, pages: str | None, read: Callable[[], np.ndarray]) -> Iterator[Picture]:
    for number in page_numbers(pages, 1, name):
        yield Picture(read(), name, number, 1, None, read)


def _npy(origin: _Origin, channels: Channels) -> np.ndarray:
    name = origin.name
    with origin.open() as file:
        try:
            shape, columns_first, dtype = _npy_header(file)
        except Exception as error:  # a damaged header raises nearly anything
            raise images.damaged(error, name) from None
        if dtype.hasobject:
            raise PictureError(f"{name}: holds Python objects, which are not unpickled; save an array of numbers")
        if len(shape) > 1:
            images.check_size(shape[0], shape[1], name)
        data = file.read()
    try:
        array = np.frombuffer(data, dtype, math.prod(shape)).reshape(shape, order="F" if columns_first else "C")
    except ValueError as error:
        raise images.damaged(error, name) from None
    return images.from_array(array, channels, name)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and type, without making the array, whose header may promise anything."""
    version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    return read(file)  # type: ignore[no-untyped-call, no-any-return]


def _frames(origin: _Origin, pages: str | None) -> Iterator[Picture]:
    """The pages of a TIFF, the frames of an animation, or the one picture of any other file."""
    with origin.open() as file, images.opened(file, origin.name) as image:
        count = _frame_count(image, file, origin.name)
        for number in page_numbers(pages, count, origin.name):
            again = _Frame(origin, number, count)
            # The image stays open, since a frame of an animation builds on those before it.
            yield Picture(again.of(image), origin.name, number, count, None, again)


def _frame_count(image: Any, file: IO[bytes], name: str) -> int:
    if image.format not in ANIMATED:
        return 1
    if image.format == "GIF":
        # Pillow takes a file that ends between two frames for a shorter animation.
        position = file.tell()
        file.seek(-min(64, file.seek(0, io.SEEK_END)), io.SEEK_END)
        ended = file.read().rstrip(b"\x00\r\n ").endswith(b";")
        file.seek(position)
        if not ended:
            raise images.damaged(EOFError("the end of the GIF is missing"), name)
    try:
        return int(getattr(image, "n_frames", 1))
    except Exception as error:  # each decoder has errors of its own
        raise images.damaged(error, name) from None


@dataclass(frozen=True)
class _Frame:
    origin: _Origin
    number: int
    count: int

    def __call__(self) -> np.ndarray:
        with self.origin.open() as file, images.opened(file, self.origin.name) as image:
            return self.of(image)

    def of(self, image: Any) -> np.ndarray:
        if self.count == 1:
            return images.decode(self.origin.read(), self.origin.name)
        name = f"{self.origin.name}, page {self.number}"
        try:
            image.seek(self.number - 1)
        except Exception as error:  # each decoder has errors of its own
            raise images.damaged(error, name) from None
        return images.from_pil(image, name)


def _pdf_pages(origin: _Origin, pages: str | None, dpi: float) -> Iterator[Picture]:
    with _pdf(origin) as document:
        with pdfium_lock:
            count = len(document)
        for number in page_numbers(pages, count, origin.name):
            with pdfium_lock:
                pixels, drawn = _draw_page(document, number, dpi, origin.name)
            again = _PdfPage(origin, number, drawn)
            yield Picture(pixels, origin.name, number, count, drawn, again)
            del pixels  # before the next is drawn


@dataclass(frozen=True)
class _PdfPage:
    origin: _Origin
    number: int
    dpi: float

    def __call__(self) -> np.ndarray:
        with _pdf(self.origin) as document, pdfium_lock:
            return _draw_page(document, self.number, self.dpi, self.origin.name)[0]


@contextmanager
def _pdf(origin: _Origin) -> Iterator[Any]:
    """An open pypdfium2 document with at least one page, and its forms ready to be drawn. Raises PictureError."""
    import pypdfium2

    _check_end(origin)
    with pdfium_lock:
        try:
            document = pypdfium2.PdfDocument(origin.path or origin.data)
        except pypdfium2.PdfiumError as error:
            if "assword" in str(error):
                raise PictureError(f"{origin.name}: needs a password; save it without one") from None
            raise images.damaged(error, origin.name) from None
    try:
        with pdfium_lock:
            _check_pages(document, origin.name)
        yield document
    finally:
        with pdfium_lock:
            document.close()


def _check_pages(document: Any, name: str) -> None:
    import pypdfium2

    try:
        document.init_forms()  # else what was typed into a form is not drawn
    except pypdfium2.PdfiumError as error:
        raise images.damaged(error, name) from None
    if len(document) == 0:
        raise PictureError(f"{name}: is a PDF without pages")


def _check_end(origin: _Origin) -> None:
    """PictureError for a PDF that was cut short: pdfium mends it, and pages that were lost would go unnoticed."""
    with origin.open() as file:
        file.seek(-min(PDF_TAIL, file.seek(0, io.SEEK_END)), io.SEEK_END)
        if b"startxref" not in file.read():
            raise images.damaged(EOFError("the end of the PDF is missing"), origin.name)


def _draw_page(document: Any, number: int, dpi: float, source: str) -> tuple[np.ndarray, float]:
    """Pixels of a page upright as a viewer shows it, and the dots per inch at which it was drawn."""
    import pypdfium2

    name = f"{source}, page {number}"
    page = bitmap = None
    try:
        page = document[number - 1]
        width, height = page.get_size()  # in points of 1/72 inch, after the page's own rotation
        fitting = _fitting_dpi(width, height)
        if dpi > fitting:
            warnings.warn(f"{name}: is so large that it is drawn at {fitting:.0f} dpi, not {dpi:g}", stacklevel=2)
            dpi = fitting
        bitmap = page.render(scale=dpi / 72)
        pixels = bitmap.to_numpy()
        # The array keeps the bitmap's memory, which is Python's own, beyond the closing of the bitmap.
        return images.from_array(pixels[..., :3] if pixels.ndim == 3 else pixels, name=name), dpi
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise images.damaged(error, name) from None
    finally:
        for one in (bitmap, page):
            if one is not None:
                one.close()


def _fitting_dpi(width: float, height: float) -> float:
    """The most dots per inch at which a page of so many points has no more pixels than are read."""
    # pdfium rounds both sides up: (w s + 1) (h s + 1) <= MAX_PIXELS, solved for the scale s.
    area, half = max(width * height, 1e-6), (width + height) / 2
    return 72 * (math.sqrt(half * half + area * (images.MAX_PIXELS - 1)) - half) / area


def page_numbers(pages: str | None, count: int, source: str) -> list[int]:
    """The pages that a range such as "1,3-5,7-" names, in its order, each once. Raises PictureError."""
    if pages is None:
        return list(range(1, count + 1))
    if not isinstance(pages, str):
        raise PictureError(f"{source}: pages={pages!r}; give text such as '1,3-5,7-'")
    numbers: dict[int, None] = {}
    for part in pages.split(","):
        found = re.fullmatch(r"\s*(\d{0,9})\s*(-?)\s*(\d{0,9})\s*", part)
        if not found or not (found[1] or found[3]):
            raise PictureError(f"{source}: pages={pages!r}: {part!r} is no page or range; give such as '1,3-5,7-'")
        first = int(found[1] or 1)
        last = int(found[3] or max(first, count)) if found[2] else first
        if not 1 <= first <= last:
            raise PictureError(
                f"{source}: pages={pages!r}: {part.strip()!r} runs backwards or from 0; pages start at 1"
            )
        if last > count:
            has = f"it has {count} page{'s' * (count > 1)}"
            raise PictureError(f"{source}: pages={pages!r}: {part.strip()!r} is not there; {has}")
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)


def files(paths: Iterable[str | Path]) -> list[Path]:
    """The files that paths, folders and globs name, each once; those of a folder or glob in natural order.

    A folder stands for the pictures and documents directly in it that are not hidden, told by their suffix; `**` in a
    glob reaches deeper. A file named itself is taken whatever its suffix.
    Raises PictureError for a path that is not there and for a folder or glob without pictures.
    """
    found: dict[Path, None] = {}
    for given in [paths] if isinstance(paths, str | Path) else paths:
        path = Path(given)
        if path.is_dir():
            found |= dict.fromkeys(_inside(path))
        elif path.exists():
            found[path] = None
        elif any(sign in str(given) for sign in "*?["):
            found |= dict.fromkeys(_glob(str(given)))
        else:
            what = "is an address; download it and give the file" if "://" in str(given) else "no such file or folder"
            raise PictureError(f"{given}: {what}")
    return list(found)


def _inside(folder: Path) -> list[Path]:
    try:
        inside = [path for path in folder.iterdir() if _is_readable(path)]
    except OSError as error:
        raise PictureError(f"{folder}: this folder cannot be read: {error.strerror}") from None
    if not inside:
        raise PictureError(
            f"{folder}: this folder holds no picture or PDF; for those in its folders give '{folder}/**'"
        )
    return sorted(inside, key=natural)


def _glob(pattern: str) -> list[Path]:
    from glob import glob

    inside = [path for path in map(Path, glob(pattern, recursive=True)) if _is_readable(path)]
    if not inside:
        raise PictureError(f"{pattern}: matches no picture or PDF")
    return sorted(inside, key=natural)


def _is_readable(path: Path) -> bool:
    # Hidden ones are not meant, such as the "._scan.jpg" that macOS leaves next to "scan.jpg" on other disks.
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def natural(path: Path) -> tuple[list[list[tuple[int, str]]], str]:
    """A sorting key that puts page2 before page10, and a folder's files together."""
    parts = []
    for part in path.parts:
        # Splitting by digits leaves numbers at the odd places.
        pieces = enumerate(re.split(r"(\d+)", part))
        parts.append([(int(piece), "") if i % 2 else (-1, piece.lower()) for i, piece in pieces])
    return parts, str(path)
