"""A line's text as what recognition is taught: CTC classes, and the tokens of the attention branches. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from zoo.ocr.charset import unknown
from zoo.ocr.samples import BadSample

Guide = Literal["sar", "nrtr"]


@dataclass(frozen=True)
class Encoder:
    """Texts to classes. charset: the characters of CTC classes 1, 2, ... (0 is the blank).

    guide: the attention branch that is taught too, or None. longest: characters a line may have, as `max_text_length`
    of PaddleOCR; with an attention branch one of longest - 1 is too long as well, since start and end need room.
    skip_unknown: characters outside the charset are left out of the text, as PaddleOCR does, and not an error.
    """

    charset: tuple[str, ...]
    guide: Guide | None = None
    longest: int = 25
    skip_unknown: bool = False
    places: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {character: i for i, character in reversed(list(enumerate(self.charset)))})

    def __call__(self, text: str, name: str) -> np.ndarray:
        """int64 [characters], places in the charset. Raises BadSample for a text that cannot be taught."""
        missing = unknown(text, self.places)
        if missing and not self.skip_unknown:
            raise BadSample(f"{name}: {text!r} has {missing!r}, which the charset lacks; add it, or skip_unknown=true")
        found = np.array([self.places[character] for character in text if character in self.places], np.int64)
        limit = self.longest if self.guide is None else self.longest - 2
        if not 1 <= len(found) <= limit:
            raise BadSample(f"{name}: {text!r} has {len(found)} characters; 1 to {limit} can be taught")
        return found

    def columns(self, places: np.ndarray) -> int:
        """Columns of output that CTC needs for a text: one a character, one more between two that are the same."""
        return len(places) + int((places[1:] == places[:-1]).sum())

    def ctc(self, lines: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [N, longest of the lines], classes of the characters, 0 behind them."""
        result = np.zeros((len(lines), max(len(places) for places in lines)), np.int64)
        for row, places in zip(result, lines, strict=True):
            row[: len(places)] = places + 1
        return result

    def tokens(self, lines: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [N, longest]: start, characters, end, padding.

        SAR numbers the characters from 0, then unknown, start and end (one token), padding; NRTR has padding 0,
        unknown 1, start 2, end 3, then the characters. Source: PaddleOCR ppocr/data/imaug/label_ops.py.
        """
        assert self.guide is not None
        count = len(self.charset)
        first, start, end, padding = (0, count + 1, count + 1, count + 2) if self.guide == "sar" else (4, 2, 3, 0)
        result = np.full((len(lines), self.longest), padding, np.int64)
        for row, places in zip(result, lines, strict=True):
            row[: len(places) + 2] = [start, *(places + first), end]
        return result
