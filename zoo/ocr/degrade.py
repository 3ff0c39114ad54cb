"""What the world does to a page before a camera sees it: seals, fading, folds, bad light, JPEG. No torch.

All of it is drawn and worked out here; there is no reference. Sizes follow the picture's shorter side, a line's height.
Coordinates count from the edges of pixels: a picture reaches from (0, 0) to (width, height).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from zoo import images
from zoo.ocr.samples import LineSample, PageSample
from zoo.ocr.seal import draw_seal
from zoo.ocr.settings import FORBID

CHANCES = ("stamp", "fade", "fold", "lighting", "shadow", "moire", "jpeg")
LEAST = 16  # pixels; a picture with a shorter side is neither stamped nor folded
COVERS = 0.5  # opacity from which ink counts as covering
COARSE = 8  # pixels between the places at which a displacement is worked out


@dataclass(frozen=True, kw_only=True)
class Degrade:
    """Shares of the pictures that each of these befalls.

    stamp: a red or blue seal, mostly on a text. fade: ink close to the paper's colour. fold: folds and wrinkles, which
    move and shade. lighting: brighter and darker parts. shadow: a soft-edged one. moire: stripes as of a screen.
    jpeg: quality of 15 to 60. ignore_over: share of a region under solid ink from which it is not to be learned; a
    line's seal that covers more is not drawn.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    stamp: float = 0.1
    fade: float = 0.1
    fold: float = 0.1
    lighting: float = 0.2
    shadow: float = 0.1
    moire: float = 0.0
    jpeg: float = 0.2
    ignore_over: float = 0.6

    def __post_init__(self) -> None:
        for name in (*CHANCES, "ignore_over"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"degrade.{name}={getattr(self, name)!r}: give a share from 0 to 1")


NO_DEGRADE = Degrade(stamp=0, fade=0, fold=0, lighting=0, shadow=0, moire=0, jpeg=0)


class Stamped(NamedTuple):
    """The picture with a seal on it. ink: uint8 [h, w], how opaque it is. corner: (x, y) of its top left pixel."""

    image: np.ndarray
    ink: np.ndarray
    corner: tuple[int, int]


class Folds(NamedTuple):
    """A folded sheet. dx, dy: float32 [h, w], where in the flat one each pixel comes from. light: float32 [h, w]."""

    dx: np.ndarray
    dy: np.ndarray
    light: np.ndarray


def degrade_page(sample: PageSample, settings: Degrade, random: np.random.Generator) -> PageSample:
    """The page with what chance picks done to it. Every region stays; one too covered to be read becomes ignored."""
    chosen = _chosen(settings, random)
    image, polygons, ignored = sample.image, sample.polygons_xy, sample.ignored
    large = min(image.shape[:2]) >= LEAST
    if "stamp" in chosen and large:
        stamped = stamp(image, _seal_size(image, random, 0.12, 0.3), _seal_place(sample, random), random)
        image = stamped.image
        covered = [covered_share(stamped, polygon) > settings.ignore_over for polygon in polygons]
        ignored = ignored | np.array(covered, bool)
    if "fade" in chosen:
        image = fade(image, random)
    if "fold" in chosen and large:
        folds = make_folds(image.shape[0], image.shape[1], random)
        image = fold(image, folds)
        polygons = tuple(folded(polygon, folds) for polygon in polygons)
    image = _photographed(image, chosen, random)
    return replace(sample, image=image, polygons_xy=polygons, ignored=ignored)


def degrade_line(sample: LineSample, settings: Degrade, random: np.random.Generator) -> LineSample:
    """The line with what chance picks done to it; it can still be read."""
    chosen = _chosen(settings, random)
    image = sample.image
    height, width = image.shape[:2]
    large = min(height, width) >= LEAST
    if "stamp" in chosen and large:
        centre = random.uniform([0, 0], [width, height])
        stamped = stamp(image, _seal_size(image, random, 1, 3), centre, random)
        whole = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        image = stamped.image if covered_share(stamped, whole) <= settings.ignore_over else image
    if "fade" in chosen:
        image = fade(image, random)
    if "fold" in chosen and large:
        image = fold(image, make_folds(height, width, random))
    return replace(sample, image=_photographed(image, chosen, random))


def _chosen(settings: Degrade, random: np.random.Generator) -> set[str]:
    """What befalls this picture."""
    chances = [settings.stamp, settings.fade, settings.fold, settings.lighting]
    chances += [settings.shadow, settings.moire, settings.jpeg]
    drawn = random.random(len(chances))
    return {name for name, chance, value in zip(CHANCES, chances, drawn, strict=True) if value < chance}


def _photographed(image: np.ndarray, chosen: set[str], random: np.random.Generator) -> np.ndarray:
    if "lighting" in chosen:
        image = lighting(image, random)
    if "shadow" in chosen:
        image = shadow(image, random)
    if "moire" in chosen:
        image = moire(image, random)
    return jpeg(image, int(random.integers(15, 61))) if "jpeg" in chosen else image


# --- seals -----------------------------------------------------------------------------------------------------------


def _seal_size(image: np.ndarray, random: np.random.Generator, low: float, high: float) -> int:
    return max(LEAST, round(min(image.shape[:2]) * random.uniform(low, high)))


def _seal_place(sample: PageSample, random: np.random.Generator) -> np.ndarray:
    """Mostly near a text, as seals are put over names and dates."""
    height, width = sample.image.shape[:2]
    if len(sample.polygons_xy) and random.random() < 0.7:
        polygon = sample.polygons_xy[int(random.integers(len(sample.polygons_xy)))]
        return np.asarray(random.uniform(polygon.min(axis=0), polygon.max(axis=0) + 1e-3))
    return random.uniform([0, 0], [width, height])


def stamp(image: np.ndarray, size: int, centre_xy: np.ndarray, random: np.random.Generator) -> Stamped:
    """A seal of so many pixels across. Its ink colours what is below and hides no dark text."""
    height, width = image.shape[:2]
    seal = draw_seal(size, random)
    hue = random.uniform([20, 15, 150], [80, 70, 235]) if random.random() < 0.85 else random.uniform(20, 235, 3)
    opacity = random.uniform(0.5, 0.95)
    left, top = (int(v) for v in np.floor(np.asarray(centre_xy) - size / 2))
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + size, width), min(top + size, height)
    if x0 >= x1 or y0 >= y1:
        return Stamped(image, np.zeros((0, 0), np.uint8), (0, 0))
    ink = np.rint(seal[y0 - top : y1 - top, x0 - left : x1 - left] * opacity).astype(np.uint8)
    stamped = image.copy()
    part = stamped[y0:y1, x0:x1]
    passed = 1 - ink[..., None].astype(np.float32) / 255 * (1 - hue.astype(np.float32) / 255)
    part[:] = np.rint(part * passed).astype(np.uint8)
    return Stamped(stamped, ink, (x0, y0))


def covered_share(stamped: Stamped, polygon_xy: np.ndarray) -> float:
    """How much of a region, as a share of it, lies under solid ink."""
    import cv2

    if not stamped.ink.size:
        return 0.0
    place = np.rint(polygon_xy - np.array(stamped.corner)).astype(np.int32)
    mask = np.zeros(stamped.ink.shape, np.uint8)
    cv2.fillPoly(mask, [place], 1)
    covered = int(((stamped.ink >= COVERS * 255) & (mask == 1)).sum())
    # So many pixels does OpenCV fill, those on the outline with them (Pick's theorem), were the mask large enough.
    pixels = cv2.contourArea(place) + cv2.arcLength(place, True) / 2 + 1
    return min(1.0, covered / pixels)


# --- paper -----------------------------------------------------------------------------------------------------------


def fade(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Ink bleached towards the paper, by 30 to 70 percent, here more and there less.

    The paper is taken for the colour of the lighter pixels or, where most of the picture is dark, of the darker ones.
    """
    import cv2

    small = image[:: max(1, image.shape[0] // 128), :: max(1, image.shape[1] // 128)].reshape(-1, 3)
    brightness = small.sum(axis=1)
    is_light = np.median(brightness) >= (int(brightness.min()) + int(brightness.max())) / 2
    paper = np.median(small[brightness >= np.median(brightness)] if is_light else small, axis=0)
    amount = np.clip(
        random.uniform(0.3, 0.6) + 0.15 * smooth_noise(image.shape[0], image.shape[1], 3, random), 0.1, 0.7
    )
    kept = cv2.merge([1 - amount] * 3)
    ground = cv2.merge([amount * np.float32(value) for value in paper])
    return np.rint(cv2.multiply(image, kept, dtype=cv2.CV_32F) + ground).astype(np.uint8)


def make_folds(height: int, width: int, random: np.random.Generator) -> Folds:
    """One to three folds across the sheet, and wrinkles; the edges of the picture stay where they are.

    Near a fold the sheet is pulled along its normal. The displacement changes by well under a pixel to the pixel, so
    that the way back can be found.
    """
    import cv2

    side = min(height, width)
    rows, columns = -(-height // COARSE) + 2, -(-width // COARSE) + 2
    xs = ((np.arange(columns, dtype=np.float32) - 0.5) * COARSE)[None]
    ys = ((np.arange(rows, dtype=np.float32) - 0.5) * COARSE)[:, None]
    dx, dy = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    light = 1 + random.uniform(0.02, 0.08) * smooth_noise(height, width, int(random.integers(4, 9)), random)
    for _ in range(int(random.integers(1, 4))):
        angle = random.normal(0, 0.15) + (np.pi / 2 if random.random() < 0.5 else 0)
        normal = np.array([np.cos(angle), np.sin(angle)], np.float32)
        offset = float(normal @ random.uniform([0.1 * width, 0.1 * height], [0.9 * width, 0.9 * height]))
        reach = side * random.uniform(0.1, 0.25)
        pull = (
            reach * random.uniform(-0.08, 0.08) * np.exp(-(((xs * normal[0] + ys * normal[1] - offset) / reach) ** 2))
        )
        dx, dy = dx + pull * normal[0], dy + pull * normal[1]
        light *= _crease(height, width, normal, offset, reach, random)
    cell = side / 4
    dx += 0.02 * cell * smooth_noise(rows, columns, 5, random)
    dy += 0.02 * cell * smooth_noise(rows, columns, 5, random)
    inner = _taper(xs, width, side) * _taper(ys, height, side)
    full = [cv2.resize(d * inner, (columns * COARSE, rows * COARSE)) for d in (dx, dy)]
    moved_x, moved_y = (d[COARSE : COARSE + height, COARSE : COARSE + width] for d in full)
    return Folds(moved_x, moved_y, light.astype(np.float32))


def _taper(at: np.ndarray, length: int, side: int) -> np.ndarray:
    """0 at both edges of the picture, 1 from a fifth of the shorter side on."""
    return np.clip(np.minimum(at, length - at) / (0.2 * side), 0, 1)


def _crease(
    height: int, width: int, normal: np.ndarray, offset: float, reach: float, random: np.random.Generator
) -> np.ndarray:
    """float32 [height, width]: brighter on one side of a fold, darker on the other, and a thin line along it."""
    away = (np.arange(width, dtype=np.float32) + 0.5)[None] * normal[0]
    away = away + (np.arange(height, dtype=np.float32) + 0.5)[:, None] * normal[1] - np.float32(offset)
    slope = away / np.float32(reach)
    shade = np.float32(random.uniform(-0.35, 0.35)) * slope * np.exp(-np.abs(slope) * 2)
    thin = np.float32(max(1.0, reach * 0.02))
    line = np.float32(random.uniform(-0.25, 0.15)) * np.exp(-((away / thin) ** 2))
    return np.asarray(1 + shade + line)


def fold(image: np.ndarray, folds: Folds) -> np.ndarray:
    """The picture on the folded sheet."""
    import cv2

    height, width = image.shape[:2]
    from_x = np.arange(width, dtype=np.float32)[None] + folds.dx
    from_y = np.arange(height, dtype=np.float32)[:, None] + folds.dy
    moved = cv2.remap(image, from_x, from_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return _lit(moved, folds.light)


def folded(points_xy: np.ndarray, folds: Folds) -> np.ndarray:
    """Where points [n, 2] of the flat sheet lie on the folded one: float32 [n, 2].

    Each pixel of the folded sheet knows where it comes from; the way back is found by stepping.
    """
    import cv2

    found = points_xy.astype(np.float32)
    for _ in range(12):
        x, y = (found - np.float32(0.5)).T[:, :, None]
        off = [cv2.remap(d, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)[:, 0] for d in folds[:2]]
        found = points_xy.astype(np.float32) - np.stack(off, axis=1)
    return found


# --- light and camera ------------------------------------------------------------------------------------------------


def _lit(image: np.ndarray, light: np.ndarray) -> np.ndarray:
    """The picture times a float32 [h, w] of light."""
    import cv2

    return cv2.multiply(image, cv2.merge([light] * 3), dtype=cv2.CV_8U)


def smooth_noise(height: int, width: int, cells: int, random: np.random.Generator) -> np.ndarray:
    """float32 [height, width], about -1..1: hills and valleys, so many along the shorter side."""
    import cv2

    side = min(height, width)
    rows, columns = (min(max(2, round(cells * length / side)), 64) for length in (height, width))
    grid = random.uniform(-1, 1, (rows, columns)).astype(np.float32)
    return np.asarray(cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC))


def lighting(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Light that falls from one side, and a lamp's spot."""
    height, width = image.shape[:2]
    angle = random.uniform(0, 2 * np.pi)
    xs = np.linspace(-1, 1, width, dtype=np.float32)[None]
    ys = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    falling = np.float32(random.uniform(0.1, 0.3)) * (xs * np.float32(np.cos(angle)) + ys * np.float32(np.sin(angle)))
    x, y = random.uniform(-1, 1, 2).astype(np.float32)
    spot = np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / np.float32(random.uniform(0.1, 0.6)))
    light = np.float32(random.uniform(0.65, 1.0)) + falling + np.float32(random.uniform(0, 0.35)) * spot
    return _lit(image, np.clip(light, 0.35, 1.3))


def shadow(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Half of the picture, more or less, in the soft-edged shadow of a hand or a head."""
    import cv2

    height, width = image.shape[:2]
    mask: np.ndarray = np.zeros((64, 64), np.float32)
    angle = random.uniform(0, 2 * np.pi)
    middle = random.uniform(16, 48, 2)
    towards = np.array([np.cos(angle), np.sin(angle)])
    beside = np.array([-towards[1], towards[0]])
    near, far = random.uniform(8, 40, 2), random.uniform(20, 90, 2)
    outline = [middle - beside * near[0], middle + beside * near[1]]
    outline += [middle + towards * 100 + beside * far[1], middle + towards * 100 - beside * far[0]]
    cv2.fillPoly(mask, [np.rint(outline).astype(np.int32)], 1)
    mask = cv2.GaussianBlur(mask, (0, 0), random.uniform(0.7, 4))
    mask = cv2.resize(mask, (width, height), interpolation=cv2.INTER_LINEAR)
    return _lit(image, 1 - np.float32(random.uniform(0.2, 0.55)) * mask)


def moire(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Stripes of different periods in each colour, bent a little, as in a photo of a screen."""
    import cv2

    height, width = image.shape[:2]
    bend = 2 * smooth_noise(height, width, 3, random)
    angle, period = random.uniform(0, np.pi), random.uniform(4, 14)
    xs, ys = np.arange(width, dtype=np.float32)[None], np.arange(height, dtype=np.float32)[:, None]
    strength = random.uniform(0.05, 0.15)
    planes = []
    for turn in random.uniform(-0.05, 0.05, 3):
        along = xs * np.float32(np.cos(angle + turn)) + ys * np.float32(np.sin(angle + turn))
        planes.append(1 + np.float32(strength) * np.sin(along * np.float32(2 * np.pi / period) + bend))
    return cv2.multiply(image, cv2.merge(planes), dtype=cv2.CV_8U)


def jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    """The picture after being saved with that quality."""
    return images.decode(images.encode(image, ".jpg", quality))
