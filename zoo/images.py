"""Pictures as arrays: decode, compose, resize, normalise, warp, draw. The only copy, used by training and inference.

A picture is uint8 [H, W, 3] in BGR, contiguous, as OpenCV has it, unless a docstring says otherwise.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 200_000_000
Channels = Literal["bgr", "rgb"]


class PictureError(ValueError):
    """A picture that cannot be read: says which, what is wrong with it, and what would do."""


def decode(data: bytes, name: str) -> np.ndarray:
    """The first picture in the bytes of an image file, upright, as a person would see it on white paper.

    EXIF orientation is applied. Transparent pixels show white, or black where the visible content is itself nearly
    white and would vanish. 16-bit values are scaled to 8 bits, CMYK and palettes become colours. name: for errors.
    Raises PictureError for what is empty, cut short, no picture, or over 200 million pixels.
    """
    if not data:
        raise PictureError(f"{name}: is empty (0 bytes)")
    if _plain_jpeg(data):
        return _decode_plain(data, name)
    with opened(data, name) as image:
        return from_pil(image, name)


def opened(data: bytes, name: str) -> Image:
    """A Pillow image whose size has been checked and whose pixels are not yet decoded. Raises PictureError."""
    from PIL import Image, UnidentifiedImageError

    # Our own limit holds, and is an error rather than a warning.
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        image = Image.open(io.BytesIO(data))
    except UnidentifiedImageError:
        raise PictureError(
            f"{name}: is no picture known here (JPEG, PNG, TIFF, WebP, GIF, BMP, PDF...)"
        ) from None
    except Exception as error:  # a damaged header raises nearly anything
        raise PictureError(f"{name}: is damaged: {_short(error)}") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    check_size(image.height, image.width, name)
    return image


def check_size(height: int, width: int, name: str) -> None:
    """PictureError for a picture without pixels, or with more than can be read."""
    if height * width > MAX_PIXELS:
        raise PictureError(
            f"{name}: has {width} x {height} = {height * width / 1e6:.0f} million pixels; "
            f"at most {MAX_PIXELS // 10**6} million are read: cut it into pieces or shrink it"
        )
    if height < 1 or width < 1:
        raise PictureError(f"{name}: has no pixels ({width} x {height})")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _plain_jpeg(data: bytes) -> bool:
    """A whole grey or YCbCr JPEG, which OpenCV decodes and turns faster than Pillow; it would take half a one too."""
    return data[:3] == b"\xff\xd8\xff" and data.rstrip(b"\x00")[-2:] == b"\xff\xd9" and b"Adobe" not in data[:4096]


def _decode_plain(data: bytes, name: str) -> np.ndarray:
    import cv2

    with opened(data, name):  # the header alone, for the size
        pass
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise PictureError(f"{name}: is a damaged JPEG; save or download it again")
    return image


def from_pil(image: Image, name: str = "picture") -> np.ndarray:
    """A Pillow image, upright and on white. Raises PictureError where its file turns out to be cut short or damaged."""
    from PIL import ImageOps

    check_size(image.height, image.width, name)
    try:
        image.load()
        image = ImageOps.exif_transpose(image)
    except Exception as error:  # each decoder has errors of its own
        raise PictureError(f"{name}: is cut short or damaged: {_short(error)}") from None
    if image.mode in ("I;16", "I;16L", "I;16B", "I;16N", "I", "F"):
        return from_array(_wide(np.asarray(image)), name=name)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return from_array(np.asarray(image.convert("RGBA")), channels="rgb", name=name)
    return np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1])


def _wide(values: np.ndarray) -> np.ndarray:
    """Whole numbers of more than 8 bits as uint16 where they fit; 32-bit and float values keep their type."""
    if values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= 65535:
        return values.astype(np.uint16)
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def from_array(array: np.ndarray, *, channels: Channels = "bgr", name: str = "array") -> np.ndarray:
    """A picture from an array [H, W], [H, W, 1], [H, W, 3] or [H, W, 4] (the fourth is alpha, straight).

    channels: the order of the first three. bool: False is black. uint8 as it is. uint16: a full 16-bit picture is
    divided by 257; one whose largest value is below 4096, such as 10 or 12 bits of a camera, by its own range (the
    power of two above that value). float: 0..1 where no value is over 1, else 0..255.
    Raises PictureError for another shape or type, for values that are not finite or out of range.
    """
    if channels not in ("bgr", "rgb"):
        raise PictureError(f"{name}: channels={channels!r}; give 'bgr' or 'rgb'")
    array = np.asarray(array)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise PictureError(f"{name}: has shape {array.shape}; give [H, W], [H, W, 1], [H, W, 3] or [H, W, 4]")
    check_size(array.shape[0], array.shape[1], name)
    pixels = _to_uint8(array, name)
    if pixels.shape[2] == 1:
        return np.ascontiguousarray(np.repeat(pixels, 3, axis=2))
    if pixels.shape[2] == 4:
        pixels = _composed(pixels)
    return np.ascontiguousarray(pixels[..., ::-1] if channels == "rgb" else pixels)


def _to_uint8(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype == np.uint16:
        largest = int(array.max())
        if 255 < largest < 4096:
            return (array.astype(np.uint32) * 255 // ((1 << largest.bit_length()) - 1)).astype(np.uint8)
        return array.astype(np.uint8) if largest <= 255 else (array // 257).astype(np.uint8)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise PictureError(f"{name}: has values that are not finite (NaN or infinity)")
        low, high = float(array.min()), float(array.max())
        if low < 0 or high > 255:
            raise PictureError(f"{name}: has values from {low:g} to {high:g}; give 0..1 or 0..255")
        return np.rint(array * (255 if high <= 1 else 1)).astype(np.uint8)
    raise PictureError(f"{name}: has type {array.dtype}; give uint8, uint16, bool or float")


def _composed(pixels: np.ndarray) -> np.ndarray:
    """[H, W, 4] with straight alpha on white; on black where what is visible is nearly white and would vanish."""
    colour, alpha = pixels[..., :3], pixels[..., 3:].astype(np.uint16)
    if alpha.min() == 255:
        return np.ascontiguousarray(colour)
    weight = int(alpha.sum(dtype=np.int64))
    shown = (colour.min(axis=2).astype(np.int64) * alpha[..., 0]).sum() / weight if weight else 0
    ground = 0 if shown > 235 else 255
    return ((colour * alpha + ground * (255 - alpha) + 127) // 255).astype(np.uint8)


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The picture at (height, width), bilinear as the reference resizes."""
    import cv2

    return image if image.shape[:2] == size else cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_LINEAR)


def normalise(image: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...], scale: float) -> np.ndarray:
    """float32 [1, 3, H, W] of (value * scale - mean) / std, channels in the picture's own order."""
    height, width = image.shape[:2]
    result = np.empty((1, 3, height, width), np.float32)
    for channel in range(3):
        # One multiplication and one addition into place, without temporaries.
        np.multiply(image[..., channel], np.float32(scale / std[channel]), out=result[0, channel])
        result[0, channel] -= np.float32(mean[channel] / std[channel])
    return result


def pad_edges(image: np.ndarray, room: int) -> np.ndarray:
    """The picture with its edge pixels repeated `room` pixels outwards on all sides."""
    import cv2

    return cv2.copyMakeBorder(image, room, room, room, room, cv2.BORDER_REPLICATE)


def warp_quad(image: np.ndarray, quad_xy: np.ndarray) -> np.ndarray:
    """What lies inside a quad [4, 2] (from its top left, clockwise), made a rectangle of its longer edges.

    Source: PaddleOCR tools/infer/utility.py, get_rotate_crop_image. The warp looks only at the part of the picture
    around the quad, which gives the same pixels and keeps large pictures cheap.
    """
    import cv2

    width = max(1, int(max(np.linalg.norm(quad_xy[0] - quad_xy[1]), np.linalg.norm(quad_xy[2] - quad_xy[3]))))
    height = max(1, int(max(np.linalg.norm(quad_xy[0] - quad_xy[3]), np.linalg.norm(quad_xy[1] - quad_xy[2]))))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(np.asarray(quad_xy, np.float32), corners)
    return cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def draw_quads(image: np.ndarray, quads_xy: Any, colours: Any, thickness: int = 2) -> np.ndarray:
    """A copy of the picture with the quads [N, 4, 2] outlined; colours: one BGR triple for each."""
    import cv2

    drawn = image.copy()
    for quad, colour in zip(quads_xy, colours, strict=True):
        cv2.polylines(drawn, [np.rint(quad).astype(np.int32)], True, colour, thickness, cv2.LINE_AA)
    return drawn


def encode(image: np.ndarray, suffix: str = ".jpg", quality: int = 90) -> bytes:
    """The picture as the bytes of an image file."""
    import cv2

    done, data = cv2.imencode(suffix, image, [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else [])
    assert done, suffix
    return data.tobytes()


def write(image: np.ndarray, path: Path) -> None:
    """Writes the picture in the format of the path's suffix; any Unicode path."""
    path.write_bytes(encode(image, path.suffix))
