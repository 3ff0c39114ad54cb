"""Every published parameter of the PP-OCR pipeline as a typed, checked setting.

The defaults are those of PaddleOCR's `predict_system` (2.x line, tools/infer/utility.py); a model family that was
published with other values carries them in its row of `zoo.ocr.READERS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

FORBID = {"extra": "forbid"}  # pydantic reads this where the settings come from a file: an unknown key is an error


def _check(name: str, value: object, right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"{name}={value!r}: give {what}")


@dataclass(frozen=True, kw_only=True)
class DetSettings:
    """How text regions are found.

    limit_side, limit_type: the resize rule; "max" shrinks until the longer side is at most limit_side, "min" enlarges
        until the shorter side is at least limit_side. Sides are then rounded to multiples of 32 pixels.
    max_side: no side of the resized picture is longer than this many pixels.
    thresh: probability over which a pixel is text. box_thresh: mean probability under which a region is dropped.
    unclip_ratio: how far a region grows, as area * ratio / perimeter. use_dilation: a 2x2 dilation before contours.
    score_mode: "fast" averages inside the rotated box, "slow" inside the contour itself.
    max_candidates: contours looked at. min_size: shortest side of a region in pixels of the probability map.
    mean, std: of the three channels as they lie in memory (BGR), on a 0..1 scale.
    tile: read a picture that the resize rule would shrink below `tile_scale` in overlapping tiles, so that small
        text on a large page is not lost. Not in PaddleOCR.
    tile_side: side of one tile in pixels of the resized picture, a multiple of 32.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    limit_side: int = 960
    limit_type: Literal["max", "min"] = "max"
    max_side: int = 4000
    thresh: float = 0.3
    box_thresh: float = 0.6
    unclip_ratio: float = 1.5
    use_dilation: bool = False
    score_mode: Literal["fast", "slow"] = "fast"
    max_candidates: int = 1000
    min_size: int = 3
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    tile: bool = True
    tile_scale: float = 0.4
    tile_side: int = 1024

    def __post_init__(self) -> None:
        _check("det.limit_side", self.limit_side, self.limit_side >= 32, "at least 32 pixels")
        _check("det.limit_type", self.limit_type, self.limit_type in ("max", "min"), "'max' or 'min'")
        _check("det.max_side", self.max_side, self.max_side >= 32, "at least 32 pixels")
        for name in ("thresh", "box_thresh"):
            _check(f"det.{name}", getattr(self, name), 0 <= getattr(self, name) <= 1, "a number from 0 to 1")
        _check("det.unclip_ratio", self.unclip_ratio, self.unclip_ratio >= 0, "0 or more")
        _check("det.score_mode", self.score_mode, self.score_mode in ("fast", "slow"), "'fast' or 'slow'")
        _check("det.max_candidates", self.max_candidates, self.max_candidates >= 1, "1 or more")
        _check("det.min_size", self.min_size, self.min_size >= 1, "1 or more")
        _check("det.tile_scale", self.tile_scale, 0 < self.tile_scale <= 1, "a number over 0, at most 1")
        _check(
            "det.tile_side",
            self.tile_side,
            self.tile_side >= 320 and self.tile_side % 32 == 0,
            "a multiple of 32 that is at least 320",
        )
        _check("det.std", self.std, all(s > 0 for s in self.std), "three numbers over 0")


@dataclass(frozen=True, kw_only=True)
class ClsSettings:
    """When a line is turned by 180 degrees.

    thresh: score over which the classifier's "180" is believed. min_ratio: a crop whose width / height is below this
    is left as it is, since a single character looks alike both ways (not in PaddleOCR). batch: lines in one run.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    thresh: float = 0.9
    min_ratio: float = 1.5
    batch: int = 6

    def __post_init__(self) -> None:
        _check("cls.thresh", self.thresh, 0 <= self.thresh <= 1, "a number from 0 to 1")
        _check("cls.min_ratio", self.min_ratio, self.min_ratio >= 0, "0 or more")
        _check("cls.batch", self.batch, self.batch >= 1, "1 or more")


@dataclass(frozen=True, kw_only=True)
class RecSettings:
    """How a line is read.

    min_width: crops are padded at the right to at least this many pixels at height 48. PaddleOCR pads to 320 and, in
        a batch, to the widest line, so its text depends on the neighbours; here a line is padded on its own.
    margin: width of the padded line over the line's own. PaddleOCR sets none, but there a line gets such room from a
        wider neighbour in its batch; 1 gives none here (docs/benchmarks.md has the accuracy of both).
    max_ratio: a line whose width / height is over this is read in overlapping windows and joined.
    batch: lines of exactly the same width that may share one run; no line is ever padded for another's sake. On a CPU
        batches gain nothing and cost memory; a GPU wants 8 or more. PaddleOCR's is 6.
    space_thresh: probability over which a space that greedy decoding loses to the blank is restored between words;
        1 restores none, as PaddleOCR.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    min_width: int = 320
    margin: float = 1.15
    max_ratio: float = 32.0
    batch: int = 1
    space_thresh: float = 0.1

    def __post_init__(self) -> None:
        _check("rec.space_thresh", self.space_thresh, 0 < self.space_thresh <= 1, "a number over 0, at most 1")
        _check("rec.min_width", self.min_width, self.min_width >= 8, "at least 8 pixels")
        _check("rec.margin", self.margin, 1 <= self.margin <= 4, "a number from 1 to 4")
        _check("rec.max_ratio", self.max_ratio, self.max_ratio >= 4, "4 or more")
        _check("rec.batch", self.batch, self.batch >= 1, "1 or more")


@dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    """The whole pipeline. drop_score: lines with a mean confidence below it are left out of the page.

    use_cls: whether the direction classifier runs. words: None, "word" or "character" boxes within each line.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    det: DetSettings = field(default_factory=DetSettings)
    cls: ClsSettings = field(default_factory=ClsSettings)
    rec: RecSettings = field(default_factory=RecSettings)
    use_cls: bool = True
    drop_score: float = 0.5
    words: Literal["word", "character"] | None = None

    def __post_init__(self) -> None:
        _check("drop_score", self.drop_score, 0 <= self.drop_score <= 1, "a number from 0 to 1")
        _check("words", self.words, self.words in (None, "word", "character"), "None, 'word' or 'character'")
