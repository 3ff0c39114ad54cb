"""A page drawn: boxes on the picture, and beside it the texts where they stand."""

from __future__ import annotations

import colorsys

import numpy as np

from zoo import images
from zoo.ocr import bidi, fonts
from zoo.ocr.page import Line, Page

TEXT_HEIGHT = 0.8  # of the line's height


def draw(page: Page, image: np.ndarray) -> np.ndarray:
    """uint8 [H, 2 W, 3] BGR: the picture with outlined lines, and the texts in their places on white."""
    height, width = image.shape[:2]
    if (width, height) != (page.width, page.height):
        raise ValueError(f"{page!r}: the picture given is {width} x {height}; give the one that was read")
    colours = [_colour(i) for i in range(len(page.lines))]
    thickness = max(1, round(max(height, width) / 700))
    left = images.draw_quads(image, [line.polygon_xy for line in page.lines], colours, thickness)
    right = np.full_like(image, 255)
    for line in page.lines:
        _write(right, line)
    right = images.draw_quads(right, [line.polygon_xy for line in page.lines], colours, 1)
    return np.concatenate([left, right], axis=1)


def _colour(index: int) -> tuple[int, int, int]:
    """Neighbouring lines in colours far apart, dark enough on white."""
    red, green, blue = colorsys.hsv_to_rgb(index * 0.381966 % 1, 0.9, 0.75)
    return round(255 * blue), round(255 * green), round(255 * red)


def _write(canvas: np.ndarray, line: Line) -> None:
    """Writes a line's text into its quad, turned and squeezed as the quad is."""
    import cv2

    quad = line.polygon_xy.astype(np.float32)
    width = round(float(np.linalg.norm(quad[1] - quad[0])))
    height = round(float(np.linalg.norm(quad[3] - quad[0])))
    if width < 2 or height < 2:
        return
    drawn = _text(line.text, width, height)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    # Only the part of the canvas around the quad is warped: a page has hundreds of lines.
    low = np.maximum(np.floor(quad.min(axis=0)).astype(int), 0)
    high = np.minimum(np.ceil(quad.max(axis=0)).astype(int) + 1, [canvas.shape[1], canvas.shape[0]])
    if (high <= low).any():
        return
    matrix = cv2.getPerspectiveTransform(corners, quad - low.astype(np.float32))
    ink = cv2.warpPerspective(drawn, matrix, (int(high[0] - low[0]), int(high[1] - low[1])), borderValue=255)
    part = canvas[low[1] : high[1], low[0] : high[0]]
    np.minimum(part, ink[..., None], out=part)


def _text(text: str, width: int, height: int) -> np.ndarray:
    """The text in black on white, uint8 [height, width], as large as fits, squeezed where it is too long."""
    from PIL import Image, ImageDraw, features

    # Control characters and surrogates, which no font takes.
    text = "".join(character if character.isprintable() else " " for character in text)
    if not features.check("raqm"):  # Pillow itself turns right-to-left text only with it; letters stay unjoined
        text = bidi.visual(text)
    font = fonts.font_for(text, max(6, round(height * TEXT_HEIGHT)))
    left, top, right, bottom = font.getbbox(text)
    size = (max(width, int(right - left) + 2), height)
    picture = Image.new("L", size, 255)
    ImageDraw.Draw(picture).text((1 - left, (height - (bottom - top)) / 2 - top), text, font=font, fill=0)
    if size[0] > width:
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture)
