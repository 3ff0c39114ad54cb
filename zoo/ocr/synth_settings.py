"""What made pages and lines are to look like, as one frozen setting that travels to every process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from zoo.ocr.settings import FORBID

Language = Literal["en", "ch", "mixed"]
LANGUAGES = ("en", "ch", "mixed")
LAYOUTS = ("column", "columns", "form", "receipt", "table", "labels", "vertical", "rotated")
GROUNDS = ("plain", "gradient", "noise", "paper")
MIN_HEIGHT = 8


@dataclass(frozen=True, kw_only=True)
class SynthSettings:
    """How synthetic text is made. Equal settings and an equal index give an equal sample, on any number of processes.

    seed: with the kind and the index of a sample it seeds that sample's own generator.
    lang: en, texts without a Chinese or Japanese character; ch, texts with at least one; mixed, either.
    corpus: a UTF-8 text file from which texts are cut; without one they are made by rule. charset: a file of one
        character a line; no other is drawn. fonts: files, `file.ttc#2` for one face of a collection, or folders;
        without any those of the system. backgrounds: a folder of pictures; without one, GROUNDS.
    max_length: characters of a text at most. rules: share of the texts made by rule although there is a corpus.
    height: of a line's picture, in pixels. page_side: shortest and longest side of a page, in pixels.
    layouts: which of LAYOUTS pages have. contrast: least contrast ratio of ink and ground, as WCAG 2 counts it.
    warp: share of the samples that are tilted. degrade: share that `zoo.ocr.degrade` makes worse.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    seed: int = 0
    lang: Language = "mixed"
    corpus: Path | None = None
    charset: Path | None = None
    fonts: tuple[str, ...] = ()
    backgrounds: Path | None = None
    max_length: int = 25
    rules: float = 0.1
    height: int = 48
    page_side: tuple[int, int] = (640, 1280)
    layouts: tuple[str, ...] = LAYOUTS
    contrast: float = 3.5
    warp: float = 0.3
    degrade: float = 0.3

    def __post_init__(self) -> None:
        low, high = self.page_side
        _check("seed", self.seed, self.seed >= 0, "0 or more")
        _check("lang", self.lang, self.lang in LANGUAGES, "en, ch or mixed")
        _check("max_length", self.max_length, self.max_length >= 1, "1 or more")
        _check("height", self.height, self.height >= MIN_HEIGHT, f"at least {MIN_HEIGHT} pixels")
        _check("page_side", self.page_side, 320 <= low <= high <= 8000, "two numbers from 320 to 8000, the less first")
        _check("contrast", self.contrast, 1 <= self.contrast <= 7, "a number from 1 to 7")
        known = bool(self.layouts) and set(self.layouts) <= set(LAYOUTS)
        _check("layouts", self.layouts, known, f"some of {', '.join(LAYOUTS)}")
        for name in ("rules", "warp", "degrade"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) <= 1, "a number from 0 to 1")


def _check(name: str, value: object, right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"synth {name}={value!r}: give {what}")
