"""What training does to a page: texts pasted in, mirrored, turned, resized, tilted, cropped, recoloured. No torch.

Source: PaddleOCR ppocr/data/imaug (copy_paste.py, iaa_augment.py, random_crop_data.py, ColorJitter.py) and the det
configs of PP-OCRv3, v4 and v6. All that moves pixels is put together into one map, so that a picture is sampled once;
PaddleOCR makes each step's picture, up to nine times as large as the page.
Coordinates count from the edges of pixels: a picture reaches from (0, 0) to (width, height).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from zoo import images
from zoo.ocr.degrade import Degrade, degrade_page
from zoo.ocr.paste import CopyPaste, copy_paste
from zoo.ocr.samples import PageSample
from zoo.ocr.settings import FORBID

LEAST_SCALED = 8  # pixels; no side is resized to fewer


@dataclass(frozen=True, kw_only=True)
class ColourJitter:
    """Brightness, contrast and saturation change by up to these shares, the hue by a share of the colour circle."""

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.7
    hue: float = 0.1

    def __post_init__(self) -> None:
        if not all(0 <= v <= 1 for v in (self.brightness, self.contrast, self.saturation)) or not 0 <= self.hue <= 0.5:
            raise ValueError("augment.colour: give shares from 0 to 1, and for the hue from 0 to 0.5")


@dataclass(frozen=True, kw_only=True)
class PageAugment:
    """What is done to a training page. The defaults are PP-OCRv4's.

    crop: (height, width) in pixels of what comes out. tries: crops drawn before the whole page is taken. least_side:
        share of the page's side that a crop has at least. copy_paste: texts of another page pasted in; None for none.
    fliplr: share of the pages that are mirrored. rotate: lowest and highest turn in degrees, of the share `rotated`
        of the pages. scale: lowest and highest factor of the page's size before the crop.
    perspective: share of the pages that are tilted, which moves each corner by up to perspective_depth / 2 of a side.
    colour, degrade: None for nothing.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    crop: tuple[int, int] = (640, 640)
    tries: int = 50
    least_side: float = 0.1
    copy_paste: CopyPaste | None = field(default_factory=CopyPaste)
    fliplr: float = 0.5
    rotate: tuple[float, float] = (-10.0, 10.0)
    rotated: float = 1.0
    scale: tuple[float, float] = (0.5, 3.0)
    perspective: float = 0.0
    perspective_depth: float = 0.3
    colour: ColourJitter | None = None
    degrade: Degrade | None = None

    def __post_init__(self) -> None:
        if min(self.crop) < 1:
            raise ValueError(f"augment.crop={self.crop!r}: give (height, width) in pixels, 1 or more")
        for name in ("fliplr", "rotated", "perspective", "perspective_depth", "least_side"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"augment.{name}={getattr(self, name)!r}: give a share from 0 to 1")
        if not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"augment.scale={self.scale!r}: give the lowest and the highest factor, over 0")
        if self.rotate[0] > self.rotate[1]:
            raise ValueError(f"augment.rotate={self.rotate!r}: give the lowest and the highest angle in degrees")
        if self.tries < 0:
            raise ValueError(f"augment.tries={self.tries!r}: give 0 or more")


PP_OCRV3 = PageAugment(crop=(960, 960))
PP_OCRV4 = PageAugment()
PP_OCRV6 = PageAugment(
    copy_paste=None, rotate=(-45, 45), rotated=0.5, scale=(0.1, 2), perspective=0.3, colour=ColourJitter()
)
# Nothing but a crop; to be changed in one place, with `dataclasses.replace`.
NO_PAGE_AUGMENT = PageAugment(copy_paste=None, fliplr=0, rotate=(0, 0), scale=(1, 1))


class Frame(NamedTuple):
    """How the page is seen. matrix: float64 [3, 3], from its pixels to those of a picture of width x height."""

    matrix: np.ndarray
    width: int
    height: int


def augment_page(
    sample: PageSample, settings: PageAugment, random: np.random.Generator, paste: PageSample | None = None
) -> PageSample:
    """A crop of the page with everything that chance picks done to it; black at the right and below where it is short.

    paste: the page of which texts are pasted in. Regions outside of the crop are gone. Those partly in it are cut to
    what can be seen of them, which PaddleOCR leaves to the targets; there they then reach into the black. In a mirrored
    page the corners keep their order, so that they run the other way round.
    """
    if settings.copy_paste is not None and paste is not None:
        sample = copy_paste(sample, paste, settings.copy_paste, random)
    frame = _seen(sample.image.shape[0], sample.image.shape[1], settings, random)
    moved = [move(polygon, frame.matrix) for polygon in sample.polygons_xy]
    learned = [polygon for polygon, is_ignored in zip(moved, sample.ignored, strict=True) if not is_ignored]
    frame = _cropped(frame, choose_crop(learned, frame.width, frame.height, settings, random), settings.crop)
    made = _taken(sample, frame)
    if settings.colour is not None:
        made = replace(made, image=jitter_colour(made.image, settings.colour, random))
    if settings.degrade is not None:
        made = degrade_page(made, settings.degrade, random)
    return replace(made, image=_padded(made.image, settings.crop))


# --- what moves the page ---------------------------------------------------------------------------------------------


def _seen(height: int, width: int, settings: PageAugment, random: np.random.Generator) -> Frame:
    """The page mirrored, turned, resized and tilted, as chance picks."""
    frame = Frame(np.eye(3), width, height)
    if random.random() < settings.fliplr:
        frame = mirrored(frame)
    if random.random() < settings.rotated:
        frame = turned(frame, random.uniform(*settings.rotate))
    frame = resized(frame, random.uniform(*settings.scale))
    return tilted(frame, settings.perspective_depth, random) if random.random() < settings.perspective else frame


def mirrored(frame: Frame) -> Frame:
    """Left and right changed."""
    return frame._replace(matrix=np.array([[-1, 0, frame.width], [0, 1, 0], [0, 0, 1.0]]) @ frame.matrix)


def turned(frame: Frame, degrees: float) -> Frame:
    """Turned about its middle, clockwise; what leaves the frame is lost, as in PaddleOCR."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.array([frame.width, frame.height]) / 2
    matrix = np.eye(3)
    matrix[:2, :2], matrix[:2, 2] = turn, middle - turn @ middle
    return frame._replace(matrix=matrix @ frame.matrix)


def resized(frame: Frame, factor: float) -> Frame:
    """Larger or smaller, both sides alike but for the rounding to pixels."""
    width, height = (max(LEAST_SCALED, round(side * factor)) for side in (frame.width, frame.height))
    return Frame(np.diag([width / frame.width, height / frame.height, 1]) @ frame.matrix, width, height)


def tilted(frame: Frame, depth: float, random: np.random.Generator) -> Frame:
    """Seen from a side: each corner comes inwards by up to depth / 2 of the sides."""
    import cv2

    size = np.array([frame.width, frame.height])
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    inwards = random.uniform(0, depth / 2, (4, 2)) * (1 - 2 * corners)
    to = ((corners + inwards) * size).astype(np.float32)
    matrix = cv2.getPerspectiveTransform((corners * size).astype(np.float32), to)
    return frame._replace(matrix=matrix @ frame.matrix)


def move(points_xy: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points [n, 2] under a map [3, 3], float32."""
    found = np.concatenate([points_xy, np.ones((len(points_xy), 1))], axis=1) @ matrix.T
    return (found[:, :2] / found[:, 2:]).astype(np.float32)


# --- the crop --------------------------------------------------------------------------------------------------------


def choose_crop(
    polygons_xy: Sequence[np.ndarray], width: int, height: int, settings: PageAugment, random: np.random.Generator
) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of a crop whose sides cut none of the texts, and that holds one; else the whole.

    Source: EAST (Zhou et al. 2017). Each side is drawn from two of the gaps between texts. Unlike PaddleOCR's the last
    gap can be drawn too, and a text that only touches a side lies outside.
    """
    bounds = [(p.min(axis=0), p.max(axis=0)) for p in polygons_xy]
    low = np.array([b[0] for b in bounds]).reshape(-1, 2)
    high = np.array([b[1] for b in bounds]).reshape(-1, 2)
    columns = _gaps(low[:, 0], high[:, 0], width)
    rows = _gaps(low[:, 1], high[:, 1], height)
    for _ in range(settings.tries):
        left, right = _two_places(columns, random)
        top, bottom = _two_places(rows, random)
        if right - left < max(1, settings.least_side * width) or bottom - top < max(1, settings.least_side * height):
            continue
        inside = (low < [right, bottom]).all(axis=1) & (high > [left, top]).all(axis=1)
        if inside.any():
            return left, top, right, bottom
    return 0, 0, width, height


def _gaps(low: np.ndarray, high: np.ndarray, length: int) -> list[np.ndarray]:
    """The places 0..length at which a cut goes through no text, in runs of neighbours; both ends always are such."""
    is_text = np.zeros(length + 1, bool)
    for first, last in zip(np.floor(low).astype(int), np.ceil(high).astype(int), strict=True):
        is_text[max(first + 1, 1) : max(min(last, length), 0)] = True
    free = np.flatnonzero(~is_text)
    return np.split(free, np.flatnonzero(np.diff(free) > 1) + 1)


def _two_places(gaps: list[np.ndarray], random: np.random.Generator) -> tuple[int, int]:
    """Two places in order, from gaps that are as likely as one another however wide."""
    chosen = [gaps[i] for i in random.integers(len(gaps), size=2)]
    first, second = (int(gap[random.integers(len(gap))]) for gap in chosen)
    return min(first, second), max(first, second)


def _cropped(frame: Frame, box: tuple[int, int, int, int], crop: tuple[int, int]) -> Frame:
    """A part of the frame, made as large as fits into the crop's (height, width)."""
    left, top, right, bottom = box
    scale = min(crop[1] / (right - left), crop[0] / (bottom - top))
    width, height = max(1, int((right - left) * scale + 1e-6)), max(1, int((bottom - top) * scale + 1e-6))
    # Each side by what it came to in whole pixels, so that the corners lie where the pixels do.
    across, down = width / (right - left), height / (bottom - top)
    to = np.array([[across, 0, -left * across], [0, down, -top * down], [0, 0, 1]])
    return Frame(to @ frame.matrix, width, height)


# --- the picture -----------------------------------------------------------------------------------------------------


def _taken(sample: PageSample, frame: Frame) -> PageSample:
    """The page in its frame, with what can be seen of the regions."""
    polygons = [clipped(move(p, frame.matrix), frame.width, frame.height) for p in sample.polygons_xy]
    kept = [i for i, polygon in enumerate(polygons) if len(polygon)]
    return replace(
        sample,
        image=_sampled(sample.image, frame),
        polygons_xy=tuple(polygons[i] for i in kept),
        texts=tuple(sample.texts[i] for i in kept),
        ignored=sample.ignored[kept],
    )


def clipped(points_xy: np.ndarray, width: int, height: int) -> np.ndarray:
    """The part of a polygon [n, 2] in a picture, float32; without a point where there is none, or none with an area.

    Source: Sutherland and Hodgman 1974. Of a polygon that falls into several parts they stay joined along the edge.
    """
    if (points_xy >= 0).all() and (points_xy <= [width, height]).all():
        return points_xy
    for axis, limit, sign in ((0, 0, 1), (1, 0, 1), (0, width, -1), (1, height, -1)):
        if not len(points_xy):
            break
        inside = sign * (points_xy[:, axis] - limit)  # how far each point lies inside of this side
        before = np.roll(points_xy, 1, axis=0)
        inside_before = np.roll(inside, 1)
        found = []
        for point, last, here, there in zip(points_xy, before, inside, inside_before, strict=True):
            if (here >= 0) != (there >= 0):
                found.append(last + (point - last) * (there / (there - here)))
            if here >= 0:
                found.append(point)
        points_xy = np.array(found, np.float32).reshape(-1, 2)
    has_area = len(points_xy) >= 3 and (np.ptp(points_xy, axis=0) > 0).all()
    return points_xy if has_area else np.zeros((0, 2), np.float32)


def _sampled(image: np.ndarray, frame: Frame) -> np.ndarray:
    """The picture in its frame, black where it has nothing."""
    import cv2

    matrix = frame.matrix
    height, width = image.shape[:2]
    if max(height, width) > images.WARP_SIDE:
        ratio = images.WARP_SIDE / max(height, width)
        image = images.resize(image, (max(1, round(height * ratio)), max(1, round(width * ratio))))
        matrix = matrix @ np.diag([width / image.shape[1], height / image.shape[0], 1])
    # OpenCV counts from the middles of pixels.
    to_middles, to_edges = (np.array([[1, 0, by], [0, 1, by], [0, 0, 1]]) for by in (-0.5, 0.5))
    matrix = to_middles @ matrix @ to_edges
    size = (frame.width, frame.height)
    if abs(matrix[2, :2]).max() == 0:
        return cv2.warpAffine(image, matrix[:2] / matrix[2, 2], size, flags=cv2.INTER_LINEAR)
    return cv2.warpPerspective(image, matrix, size, flags=cv2.INTER_LINEAR)


def _padded(image: np.ndarray, crop: tuple[int, int]) -> np.ndarray:
    if image.shape[:2] == crop:
        return image
    result = np.zeros((*crop, 3), np.uint8)
    result[: image.shape[0], : image.shape[1]] = image
    return result


def jitter_colour(image: np.ndarray, settings: ColourJitter, random: np.random.Generator) -> np.ndarray:
    """The picture in other colours: brightness, contrast, saturation and hue in an order of chance."""
    import cv2

    values = np.arange(256, dtype=np.float64)
    gains = 1 + random.uniform(-1, 1, 3) * [settings.brightness, settings.contrast, settings.saturation]
    turn = round(random.uniform(-settings.hue, settings.hue) * 180)  # OpenCV's hues go up to 180
    for step in random.permutation(4).tolist():
        if step == 0:
            image = cv2.LUT(image, np.clip(np.rint(values * gains[0]), 0, 255).astype(np.uint8))
        elif step == 1:
            middle = cv2.mean(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY))[0]
            image = cv2.LUT(image, np.clip(np.rint((values - middle) * gains[1] + middle), 0, 255).astype(np.uint8))
        elif step == 2:
            grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
            image = cv2.addWeighted(image, gains[2], grey, 1 - gains[2], 0)
        elif turn:
            hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
            hsv[..., 0] = (hsv[..., 0].astype(np.int16) + turn) % 180
            image = cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR)
    return image
