"""Pictures as arrays: decode, compose, resize, normalise, warp, draw. The only copy, used by training and inference.

A picture is uint8 [H, W, 3] in BGR, contiguous, as OpenCV has it, unless a docstring says otherwise.
OpenCV and Pillow are imported by the functions that need them, so that importing this costs only NumPy.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

MAX_PIXELS = 200_000_000
MAX_SIDE = 1_000_000  # a longer one is a damaged header, and would keep a decoder busy for minutes
# What Pillow is asked to try; not EPS or WMF, which start other programs. HEIF is there if the user has pillow-heif.
FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "GIF", "BMP", "DIB", "PPM", "JPEG2000", "AVIF", "HEIF", "ICO", "PCX", "TGA")
NEARLY_WHITE = 224  # a pixel with every channel from here on is not told from white paper
VANISHED = 0.02  # the share of what is visible that white paper must show, else the ground is black
WARP_SIDE = 32_000  # OpenCV warps no picture with a side of 32767 pixels or more
ORIENTATION = 0x0112  # the EXIF and TIFF tag

Channels = Literal["bgr", "rgb"]


class PictureError(ValueError):
    """A picture that cannot be read: says which, what is wrong with it, and what would do."""


def decode(data: bytes | str | Path, name: str = "") -> np.ndarray:
    """The first picture of an image file, upright, as a person would see it on white paper.

    data: the bytes of the file, or its path. name: what errors call it; default the path, or "picture".
    EXIF orientation is applied. Transparent pixels show white; black where the visible content is itself nearly white
    and would vanish (a deviation from PaddleOCR, which takes white always and loses white text). Values of 16 bits
    are scaled to 8 as `from_array` says, CMYK and palettes become colours, ICC profiles are not applied.
    Raises PictureError for what is missing, empty, cut short, no picture, or over 200 million pixels.
    """
    if isinstance(data, str | Path):
        name, data = name or str(data), read_file(data)
    with opened(io.BytesIO(data), name or "picture") as image:
        pixels = _decode_plain(image, data)
        return from_pil(image, name or "picture") if pixels is None else pixels


def read_file(path: str | Path) -> bytes:
    """The bytes of a file. Raises PictureError where there is none or it may not be read."""
    with open_file(path) as file:
        return file.read()


def open_file(path: str | Path) -> IO[bytes]:
    """The file, open for reading. Raises PictureError where there is none or it may not be read."""
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        what = "is an address; download it and give the file" if "://" in str(path) else "no such file"
    except IsADirectoryError:
        what = "is a folder; give its pictures, or list them with documents.files"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise PictureError(f"{path}: {what}")


def opened(file: IO[bytes], name: str) -> ImageFile:
    """A Pillow image of which the header is read and its size checked, not yet the pixels. Raises PictureError."""
    from PIL import Image, UnidentifiedImageError

    Image.init()
    known = [one for one in FORMATS if one in Image.OPEN]
    try:
        with _pillow_limit_off():
            image = Image.open(file, formats=known)
    except UnidentifiedImageError:
        file.seek(0)
        raise PictureError(f"{name}: {_what_instead(file.read(512))}") from None
    except Exception as error:  # a damaged header raises nearly anything
        raise damaged(error, name) from None
    check_size(image.height, image.width, name)
    return image


@contextmanager
def _pillow_limit_off() -> Iterator[None]:
    """Pillow's own limit of 179 million pixels out of the way while any thread reads, since ours is checked."""
    from PIL import Image

    global _readers, _limit_of_pillow
    with _readers_lock:
        if not _readers:
            _limit_of_pillow, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        _readers += 1
    try:
        yield
    finally:
        with _readers_lock:
            _readers -= 1
            if not _readers:
                Image.MAX_IMAGE_PIXELS = _limit_of_pillow


_readers_lock = threading.Lock()
_readers = 0
_limit_of_pillow: int | None = None


def _what_instead(head: bytes) -> str:
    """Why bytes that no decoder knows are no picture, in words for their owner."""
    if not head:
        return "is empty (0 bytes)"
    if head[4:12] in (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftypmif1", b"ftypmsf1"):
        return "is a HEIC photo, which is not read here; save it as JPEG"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<svg", b"<?xml", b"<!doctype", b"<html")):
        return "is a web page or drawing in text form, no picture; save it as PNG"
    return "is no picture that is known here, or its first bytes are damaged; give a JPEG, PNG, TIFF, WebP, GIF or BMP"


def damaged(error: Exception, name: str) -> PictureError:
    """What a decoder's error says to the owner of the file."""
    why = " ".join(str(error).split())[:160] or type(error).__name__
    return PictureError(f"{name}: is cut short or damaged ({why}); save or download it again")


def check_size(height: int, width: int, name: str) -> None:
    """Raises PictureError for a picture without pixels, or with more than are read."""
    if height < 1 or width < 1:
        raise PictureError(f"{name}: has no pixels ({width} x {height})")
    if height * width > MAX_PIXELS or max(height, width) > MAX_SIDE:
        raise PictureError(
            f"{name}: has {width} x {height} = {height * width / 1e6:.0f} million pixels; "
            f"at most {MAX_PIXELS // 10**6} million are read, {MAX_SIDE} on a side: cut it into pieces or shrink it"
        )


def _decode_plain(image: ImageFile, data: bytes) -> np.ndarray | None:
    """A whole 8-bit grey or colour JPEG or PNG by OpenCV, which takes two thirds of Pillow's time; None for others.

    Whole: OpenCV before release 5 gives a JPEG that was cut short as a picture with a grey rest.
    """
    import cv2

    if image.mode not in ("L", "RGB") or "transparency" in image.info or _is_deep(image):
        return None
    is_jpeg = image.format in ("JPEG", "MPO")  # MPO: a photo with others after it, as telephones make them
    if is_jpeg:
        whole = data[-64:].rstrip(b"\x00").endswith(b"\xff\xd9")
    else:
        # EXIF after the pixels, where Pillow would first have to decode all of them to reach it.
        late = "exif" not in image.info and (b"eXIf" in data or b"Raw profile type exif" in data)
        whole = image.format == "PNG" and data[-8:-4] == b"IEND" and not late
    if not whole:
        return None
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    return None if pixels is None else _upright(pixels, _orientation(image) if is_jpeg or "exif" in image.info else 1)


def from_pil(image: Image, name: str = "picture") -> np.ndarray:
    """The picture that a Pillow image shows, or its current frame, upright and on white as `decode` says.

    Raises PictureError where its file turns out to be cut short or damaged.
    """
    check_size(image.height, image.width, name)
    try:
        deep = _file_of(image) if _is_deep(image) else b""
        with _pillow_limit_off():
            image.load()  # turns a TIFF upright, and takes its orientation away
        pixels = _sixteen_bits(image, deep) if deep else None
        if pixels is None:
            pixels = _array_of(image, name)
        return _upright(from_array(pixels, channels="rgb", name=name), _orientation(image))
    except (PictureError, MemoryError):
        raise
    except Exception as error:  # each decoder has errors of its own
        raise damaged(error, name) from None


def _array_of(image: Image, name: str) -> np.ndarray:
    """[H, W] of grey, or RGB, or RGBA values of a loaded image."""
    if image.mode == "LAB":
        raise PictureError(f"{name}: has LAB colours, which are not read here; save it as RGB")
    if image.mode in ("I;16", "I;16L", "I;16B", "I;16N", "F", "L") and "transparency" not in image.info:
        return np.asarray(image)
    if image.mode == "I":  # 32 bits, in which older releases of Pillow also give 16
        values = np.asarray(image)
        if values.min() >= 0:
            return (values >> max(0, int(values.max()).bit_length() - 16)).astype(np.uint16)
        return values  # which from_array refuses
    if image.mode == "La":  # Pillow turns it into no other
        image = image.convert("LA")
    if image.mode in ("LA", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return np.asarray(image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def _is_deep(image: Image) -> bool:
    """Whether a file has colours of 16 bits, of which Pillow keeps the upper 8: black, if 12 of them are in use."""
    tiles = getattr(image, "tile", None) or []
    return image.mode in ("RGB", "RGBA", "LA", "RGBX") and any(";16" in str(tile[3]) for tile in tiles)


def _file_of(image: Image) -> bytes:
    """The whole file behind an image that is not yet loaded, if it is of a kind that OpenCV reads with 16 bits."""
    if (file := getattr(image, "fp", None)) is None or image.format not in ("PNG", "TIFF"):
        return b""
    position = file.tell()
    file.seek(0)
    data = file.read()
    file.seek(position)
    return data


def _sixteen_bits(image: Image, data: bytes) -> np.ndarray | None:
    """uint16 [H, W, C] grey or RGB(A) of a loaded image that was `_is_deep`, by OpenCV; None where it cannot."""
    import cv2

    frame = (image.tell(), image.tell() + 1)
    _, pages = cv2.imdecodemulti(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED, range=frame)
    if len(pages) != 1 or pages[0].dtype != np.uint16 or pages[0].shape[:2] != (image.height, image.width):
        return None
    pixels = pages[0].reshape(image.height, image.width, -1)
    return pixels[..., {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]]


def _orientation(image: Image) -> int:
    try:
        return image.getexif().get(ORIENTATION, 1)
    except Exception:  # a damaged EXIF block; the picture itself may be whole, and then stands as it is stored
        return 1


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """The picture as it is to be seen. Source: EXIF 2.3, tag 274: which edge the first row and first column are."""
    import cv2

    if orientation in (5, 6, 7, 8):
        pixels = cv2.transpose(pixels)
    rows, columns = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    if rows or columns:
        pixels = cv2.flip(pixels, -1 if rows and columns else int(columns))
    return pixels


def from_array(array: np.ndarray, channels: Channels = "bgr", name: str = "array") -> np.ndarray:
    """A picture from an array [H, W] or [H, W, C]: C 1 grey, 2 grey and alpha, 3 colours, 4 colours and alpha.

    channels: the order of the colours. Alpha is straight, and composed as `decode` says; where it is 0 everywhere,
    as screen grabbers leave it, it is taken for unused.
    bool: False is black. uint8: as it is, and not copied where it is already BGR. uint16: shifted right until the
    largest value fits 8 bits, so 16-bit, 12-bit and 10-bit pictures use the whole range and values up to 255 stay.
    float: 0..1 where the largest value is at most 1, else 0..255.
    Raises PictureError for another shape or type, and for values that are not finite or out of range.
    """
    if channels not in ("bgr", "rgb"):
        raise PictureError(f"{name}: channels={channels!r}; give 'bgr' or 'rgb'")
    array = np.asarray(array)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4):
        hint = "; transpose(1, 2, 0) it" if array.ndim == 3 and array.shape[0] in (1, 3, 4) else ""
        raise PictureError(f"{name}: has shape {array.shape}; give one picture, [H, W] or [H, W, 1 to 4]{hint}")
    check_size(array.shape[0], array.shape[1], name)
    pixels = _to_uint8(array, name)
    colour = pixels[..., :1] if pixels.shape[2] < 3 else pixels[..., :3]
    if colour.shape[2] == 1:
        colour = np.repeat(colour, 3, axis=2)
    elif channels == "rgb":
        colour = colour[..., ::-1]
    return np.ascontiguousarray(colour if pixels.shape[2] % 2 else _composed(colour, pixels[..., -1]))


def _to_uint8(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:  # in either byte order
        return (array >> max(0, int(array.max()).bit_length() - 8)).astype(np.uint8)
    if array.dtype.kind != "f":
        raise PictureError(f"{name}: has type {array.dtype}; give uint8, uint16, bool or float")
    low, high = float(array.min()), float(array.max())
    if not 0 <= low <= high <= 255:  # false for NaN too
        raise PictureError(f"{name}: has values from {low:g} to {high:g}; give 0..1 or 0..255")
    if 1 < high <= 2:  # black, if it were 0..255; more likely 0..1 after a filter that overshoots
        raise PictureError(f"{name}: has values up to {high:g}, neither 0..1 nor 0..255; clip them to 0..1")
    return np.rint(array * (255.0 if high <= 1 else 1.0)).astype(np.uint8)


def _composed(colour: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Colours [H, W, 3] with straight alpha [H, W] on white; on black where white would show nearly none of them."""
    if alpha.min() == 255 or not alpha.any():
        return colour
    white = _over(colour, alpha, 255)
    darkest = np.minimum(np.minimum(white[..., 0], white[..., 1]), white[..., 2])
    shown = int(alpha[darkest < NEARLY_WHITE].sum(dtype=np.int64))
    return white if shown >= VANISHED * int(alpha.sum(dtype=np.int64)) else _over(colour, alpha, 0)


def _over(colour: np.ndarray, alpha: np.ndarray, ground: int) -> np.ndarray:
    weight = alpha[..., None].astype(np.uint16)
    return ((colour * weight + ground * (255 - weight) + 127) // 255).astype(np.uint8)


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The picture at (height, width), bilinear as PaddleOCR resizes; the picture itself where it has that size."""
    import cv2

    return image if image.shape[:2] == size else cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_LINEAR)


def normalise(image: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...], scale: float) -> np.ndarray:
    """float32 [1, 3, H, W] of (value * scale - mean) / std of a uint8 picture, channels in its own order."""
    import cv2

    assert image.dtype == np.uint8, image.dtype
    result = np.empty((1, 3, *image.shape[:2]), np.float32)
    for channel, plane in enumerate(cv2.split(image)):
        cv2.LUT(plane, _table(mean[channel], std[channel], scale), dst=result[0, channel])
    return result


@lru_cache(maxsize=32)
def _table(mean: float, std: float, scale: float) -> np.ndarray:
    """float32 [256]: the normalised value of each possible one, so that no picture of floats is made on the way."""
    return ((np.arange(256) * scale - mean) / std).astype(np.float32)


def pad_edges(image: np.ndarray, room: int) -> np.ndarray:
    """The picture with its edge pixels repeated `room` pixels outwards on all sides."""
    import cv2

    return cv2.copyMakeBorder(image, room, room, room, room, cv2.BORDER_REPLICATE)


def warp_quad(image: np.ndarray, quad_xy: np.ndarray) -> np.ndarray:
    """What lies inside a quad [4, 2] (from its top left, clockwise), made a rectangle of its longer edges.

    Beyond the picture its edge pixels go on. A tall one is not turned here. Of a picture with a side over 32000 pixels
    only the part around the quad is warped, and shrunk to 32000 where even that is longer: OpenCV warps none larger.
    Source: PaddleOCR tools/infer/utility.py, get_rotate_crop_image.
    """
    import cv2

    quad = np.asarray(quad_xy, np.float32)
    if max(image.shape[:2]) > WARP_SIDE:
        image, quad = _around(image, quad)
    width = max(1, int(max(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[2] - quad[3]))))
    height = max(1, int(max(np.linalg.norm(quad[0] - quad[3]), np.linalg.norm(quad[1] - quad[2]))))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(quad, corners)
    return cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def _around(image: np.ndarray, quad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The part of a picture around a quad, with the few pixels more that the cubic kernel sees, and the quad in it."""
    limit = np.array([image.shape[1], image.shape[0]])
    low = np.clip(np.floor(quad.min(axis=0)).astype(int) - 4, 0, limit - 1)
    high = np.clip(np.ceil(quad.max(axis=0)).astype(int) + 5, low + 1, limit)
    part = image[low[1] : high[1], low[0] : high[0]]
    ratio = min(1.0, WARP_SIDE / max(part.shape[:2]))
    size = (max(1, round(part.shape[0] * ratio)), max(1, round(part.shape[1] * ratio)))
    scale = np.array([size[1] / part.shape[1], size[0] / part.shape[0]], np.float32)
    return resize(part, size), (quad - low.astype(np.float32)) * scale


def draw_quads(
    image: np.ndarray, quads_xy: Iterable[np.ndarray], colours: Iterable[tuple[int, int, int]], thickness: int = 2
) -> np.ndarray:
    """A copy of the picture with polygons [N, 2] outlined; colours: one BGR triple for each."""
    import cv2

    drawn = image.copy()
    for quad, colour in zip(quads_xy, colours, strict=True):
        cv2.polylines(drawn, [np.rint(quad).astype(np.int32)], True, colour, thickness, cv2.LINE_AA)
    return drawn


def encode(image: np.ndarray, suffix: str = ".jpg", quality: int = 90) -> bytes:
    """The picture as the bytes of an image file. Raises PictureError for a format or size that cannot be written."""
    import cv2

    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix.lower() in (".jpg", ".jpeg") else []
    try:
        done, data = cv2.imencode(suffix, image, options)
    except cv2.error:
        done = False
    if not done:
        raise PictureError(
            f"a picture of {image.shape[1]} x {image.shape[0]} cannot be written as {suffix!r}; try .png"
        )
    return data.tobytes()
