"""The reader: a picture or document in, pages of text out. Detect, order, crop, turn, read; torch-free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from zoo import documents, images
from zoo.ocr.order import reading_order
from zoo.ocr.page import Line, Page, Word
from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
from zoo.ocr.predict import Line as ReadLine
from zoo.ocr.settings import ReaderSettings
from zoo.ocr.words import words_of

if TYPE_CHECKING:
    from zoo.documents import Picture

Channels = Literal["bgr", "rgb"]

TALL = 1.5  # height / width from which a crop is a line of vertical text, laid on its side
MAYBE_UPRIGHT = 4.0  # up to which it may as well be one upright character, such as "1"


class Crop(NamedTuple):
    """A line cut out of the picture, ready to be read; quad_xy [4, 2] starts at the text's own top left."""

    image: np.ndarray
    quad_xy: np.ndarray
    direction: int


@dataclass(frozen=True)
class Reader:
    """Reads pictures and documents. One reader may be shared by threads.

    >>> from zoo import ocr
    >>> reader = ocr.load("ppocrv4_mobile")  # doctest: +SKIP
    >>> reader("scan.jpg").text  # doctest: +SKIP
    """

    name: str
    detector: Detector
    classifier: DirectionClassifier | None
    recogniser: Recogniser
    settings: ReaderSettings

    def __call__(
        self, source: Any, *, page: int | None = None, dpi: int | None = None, channels: Channels = "bgr"
    ) -> Page:
        """The text of one picture, or of one page of a document.

        source: a path, bytes, an open binary file, a numpy array (HxW, HxWx1, HxWx3 or HxWx4; uint8, uint16 or
            float) or a PIL image. channels: order of an array's colours, "bgr" (as OpenCV reads) or "rgb".
        page: which page or frame, from 1. dpi: at which a PDF page is drawn.
        Raises ValueError with one clear line for anything that is not a readable picture, and for a document of
        several pages where none is named: use `pages`, so that no page is lost in silence.
        """
        wanted = str(page or 1)
        for picture in documents.pictures(source, pages=wanted, dpi=dpi or documents.DPI, channels=channels):
            if page is None and picture.pages > 1:
                raise ValueError(
                    f"{picture.source}: has {picture.pages} pages or frames; read them all with reader.pages(...), "
                    f"or one with page=1"
                )
            return self.read(picture)
        raise AssertionError("documents.pictures gives the page or raises")

    def pages(
        self, source: Any, *, pages: str | None = None, dpi: int | None = None, channels: Channels = "bgr"
    ) -> Iterator[Page]:
        """The pages of a document, one by one as they are read. pages: such as "1,3-5,7-"; default all."""
        for picture in documents.pictures(source, pages=pages, dpi=dpi or documents.DPI, channels=channels):
            yield self.read(picture)

    def read(self, picture: Picture) -> Page:
        """The text of a decoded picture; a picture without text gives a page without lines."""
        boxes = self.detector(picture.pixels)
        crops = self._turned([cut(picture.pixels, quad) for quad in boxes.quads_xy])
        lines = [line for crop, read in self._texts(picture.pixels, crops) for line in self._line(crop, read)]
        if lines:
            lines = [lines[i] for i in reading_order(np.stack([line.polygon_xy for line in lines]))]
        height, width = picture.pixels.shape[:2]
        return Page(
            lines=tuple(lines),
            width=width,
            height=height,
            source=picture.source,
            number=picture.number,
            reread=picture.reread,
        )

    def _turned(self, crops: list[Crop]) -> list[Crop]:
        """The crops with those on their head turned upright."""
        if self.classifier is None:
            return crops
        turns = self.classifier([crop.image for crop in crops])
        return [turn(crop, 2) if turned else crop for crop, turned in zip(crops, turns, strict=True)]

    def _texts(self, pixels: np.ndarray, crops: Sequence[Crop]) -> list[tuple[Crop, ReadLine]]:
        """Each crop with what it says; a tall one that may be an upright character is read both ways."""
        doubtful = [i for i, crop in enumerate(crops) if crop.direction % 180 == 90 and _ratio(crop) < MAYBE_UPRIGHT]
        # A quarter turn back from lying on its side, or three if it was turned about since.
        upright = [turn(crops[i], 3 if crops[i].direction == 90 else 1) for i in doubtful]
        everything = [*crops, *upright]
        read = self.recogniser([crop.image for crop in everything])
        chosen = list(zip(crops, read[: len(crops)], strict=True))
        for index, crop, line in zip(doubtful, upright, read[len(crops) :], strict=True):
            if _is_upright(line, chosen[index][1]):
                chosen[index] = (crop, line)
        return chosen

    def _line(self, crop: Crop, read: ReadLine) -> list[Line]:
        text = read.text
        if not text.text.strip() or text.score < self.settings.drop_score:
            return []
        words: tuple[Word, ...] = ()
        if self.settings.words:
            words = words_of(text, read.column_width, crop.image.shape[1], crop.quad_xy, self.settings.words)
        return [Line(polygon_xy=crop.quad_xy, text=text.text, score=text.score, direction=crop.direction, words=words)]


def cut(pixels: np.ndarray, quad_xy: np.ndarray) -> Crop:
    """The line inside a quad; one at least 1.5 times as tall as wide is laid on its side, as PaddleOCR lays it."""
    crop = Crop(images.warp_quad(pixels, quad_xy), quad_xy, 0)
    height, width = crop.image.shape[:2]
    return turn(crop, 1) if height >= TALL * width else crop


def turn(crop: Crop, quarters: int) -> Crop:
    """The crop turned counter-clockwise by quarter turns; the quad keeps starting at the text's own top left."""
    image = np.ascontiguousarray(np.rot90(crop.image, quarters))
    return Crop(image, np.roll(crop.quad_xy, -quarters, axis=0), (crop.direction + 90 * quarters) % 360)


def _ratio(crop: Crop) -> float:
    return crop.image.shape[1] / crop.image.shape[0]


def _is_upright(upright: ReadLine, lying: ReadLine) -> bool:
    """Whether a tall crop is one upright character rather than a line of vertical text."""
    if len(upright.text.text.strip()) != 1:
        return False
    return upright.text.score > lying.text.score or (len(lying.text.text) <= 1 and upright.text.score >= 0.5)
