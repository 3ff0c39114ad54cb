"""Draws the pictures of the README: sample.jpg, a printed note photographed a little askew, and what is read in it.

python tools/make_sample.py --font /path/to/a/font/with/Chinese.ttc
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import typer
from PIL import Image, ImageDraw, ImageFont

LINES = (
    (64, "春江花月夜"),
    (34, "Spring River, Flowers, Moon, Night"),
    (40, "春江潮水连海平，海上明月共潮生。"),
    (40, "滟滟随波千万里，何处春江无月明！"),
    (30, "In spring the river rises as high as the sea,"),
    (30, "and with the tide the moon comes up bright."),
    (34, "Invoice No. 2026-0417    Total: ¥1,288.50"),
)


def page(font: Path) -> np.ndarray:
    """The note as printed, uint8 [H, W, 3] BGR."""
    picture = Image.new("RGB", (900, 640), (250, 248, 240))
    draw = ImageDraw.Draw(picture)
    top = 48
    for size, text in LINES:
        draw.text((60, top), text, font=ImageFont.truetype(str(font), size), fill=(40, 36, 48))
        top += int(size * 1.55) + 14
    return cv2.cvtColor(np.asarray(picture), cv2.COLOR_RGB2BGR)


def photograph(printed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The note on a table: perspective, uneven light, noise."""
    height, width = printed.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = np.array([[92, 70], [1010, 34], [1034, 742], [60, 706]], np.float32)
    matrix = cv2.getPerspectiveTransform(corners, seen)
    table = np.full((800, 1100, 3), (96, 118, 142), np.uint8)
    paper = cv2.warpPerspective(printed, matrix, (1100, 800), flags=cv2.INTER_CUBIC)
    mask = cv2.warpPerspective(np.full((height, width), 255, np.uint8), matrix, (1100, 800))
    photo = np.where(mask[..., None] > 127, paper, table).astype(np.float32)
    light = np.linspace(0.82, 1.04, 1100, dtype=np.float32)[None, :, None]
    noise = random.normal(0, 3, photo.shape).astype(np.float32)
    return np.clip(photo * light + noise, 0, 255).astype(np.uint8)


def main(
    font: Path = typer.Option(..., exists=True), folder: Path = typer.Option(Path("docs/images"), exists=True)
) -> None:
    """Draw the sample picture, read it, and draw what was read."""
    from zoo import ocr

    sample, read = folder / "sample.jpg", folder / "sample.ocr.jpg"
    cv2.imwrite(str(sample), photograph(page(font), np.random.default_rng(0)), [cv2.IMWRITE_JPEG_QUALITY, 90])
    cv2.imwrite(str(read), ocr.load("ppocrv4_mobile")(sample).draw(), [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(sample, read, sep="\n")


if __name__ == "__main__":
    typer.run(main)
