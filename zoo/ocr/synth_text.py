"""Texts to draw: cut from a corpus, or made by rule; what they are of is decided by a generator that is passed in."""

from __future__ import annotations

import mmap
import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoo.ocr.postprocess import is_spaced
from zoo.ocr.synth_rules import NUMBERS, made, pick
from zoo.ocr.synth_settings import Language, SynthSettings

WINDOW = 1024  # bytes to each side of a place in the corpus that are looked at; the most a line may be long
TRIES = 200


class Word(NamedTuple):
    """A part of a text: where it begins and ends in it. A character of a script without spaces is one of its own."""

    start: int
    end: int


class Texts:
    """Gives texts of a language. Raises ValueError for a corpus or charset that cannot be used."""

    def __init__(self, settings: SynthSettings) -> None:
        self._lang = settings.lang
        self._longest = settings.max_length
        self._rules = settings.rules
        self._corpus = None if settings.corpus is None else _opened(settings.corpus)
        self._name = str(settings.corpus)
        self._charset = None if settings.charset is None else _charset(settings.charset)

    def piece(self, random: np.random.Generator, longest: int | None = None) -> str:
        """A text of 1 to `longest` characters (default and most: max_length), without space at either end."""
        most = min(longest or self._longest, self._longest)
        for _ in range(TRIES):
            wanted = round(most * (1 - random.random() ** 2 * 0.95))  # long ones are more frequent
            by_rule = self._corpus is None or random.random() < self._rules
            text = made(random, self._lang, wanted) if by_rule else self._cut(random, max(wanted, 1))
            text = self._allowed(text)[:most].strip()
            if text and _is_of(text, self._lang, by_rule):
                return text
        where = "the rules" if self._corpus is None else self._name
        limit = "" if self._charset is None else " within the charset"
        raise ValueError(
            f"{where}: no text for --lang {self._lang}{limit} in {TRIES} tries; give another corpus or lang"
        )

    def running(self, random: np.random.Generator, length: int) -> str:
        """Texts joined to at least `length` characters, for lines that fill a column; max_length does not bind here."""
        text = self.piece(random)
        while len(text) < length:
            more = self.piece(random)
            text += more if is_wide(text[-1]) or is_wide(more[0]) else f" {more}"
        return text

    def number(self, random: np.random.Generator) -> str:
        """An amount, a date or another short text of digits, for the columns of receipts and tables."""
        for _ in range(TRIES):
            text = self._allowed(pick(random, NUMBERS)(random))[: self._longest].strip()
            if text:
                return text
        return self.piece(random)

    def _cut(self, random: np.random.Generator, wanted: int) -> str:
        """About `wanted` characters from a random place of the corpus, from the beginning of a word on."""
        assert self._corpus is not None
        line = _line_at(self._corpus, int(random.integers(len(self._corpus))), self._name)
        found = words(line)
        if not found:
            return ""
        first = int(random.integers(len(found)))
        last = first
        while last + 1 < len(found) and found[last + 1].end - found[first].start <= wanted:
            last += 1
        return line[found[first].start : found[last].end]

    def _allowed(self, text: str) -> str:
        text = plain(text)
        if self._charset is None:
            return text
        return " ".join("".join(c for c in text if c == " " or c in self._charset).split())


def plain(text: str) -> str:
    """The text with one space for all white space, and without what is not drawn: controls, joiners, private use."""
    kept = (" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join("".join(kept).split())


def words(text: str) -> list[Word]:
    """The words of a text in order: runs between spaces, but one for each character of a script without spaces.

    >>> [text[w.start : w.end] for text in ["Total: 5元"] for w in words(text)]
    ['Total:', '5', '元']
    """
    found: list[Word] = []
    for match in re.finditer(r"\S+", text):
        start = match.start()
        for at in range(match.start(), match.end()):
            if is_wide(text[at]):
                found += [Word(start, at)] if start < at else []
                found.append(Word(at, at + 1))
                start = at + 1
        found += [Word(start, match.end())] if start < match.end() else []
    return found


@cache
def is_wide(character: str) -> bool:
    """A letter of a script without spaces between words, or a sign as wide as one."""
    return not is_spaced(character) and unicodedata.east_asian_width(character) in "WF"


def _is_of(text: str, lang: Language, by_rule: bool) -> bool:
    wide = any(is_wide(c) for c in text)
    return lang == "mixed" or (not wide if lang == "en" else wide or by_rule)


# --- the corpus ------------------------------------------------------------------------------------------------


@lru_cache(4)
def _opened(path: Path) -> mmap.mmap:
    """The file in the address space of the process, not in its memory: a corpus may be larger than that."""
    try:
        with path.open("rb") as file:
            if not file.read(1):
                raise ValueError(f"{path}: the corpus is empty; give a UTF-8 text file")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ValueError(f"{path}: the corpus cannot be read ({error.strerror}); give a UTF-8 text file") from None
    if re.search(rb"[^\s\xef\xbb\xbf]", data) is None:  # white space, or no more than a byte order mark
        raise ValueError(f"{path}: the corpus holds nothing but white space; give a UTF-8 text file")
    return data


def _line_at(data: mmap.mmap, place: int, name: str) -> str:
    """The line around a byte, or as much of it as lies in the window."""
    start = max(data.rfind(b"\n", max(0, place - WINDOW), place) + 1, place - WINDOW, 0)
    end = data.find(b"\n", place, place + WINDOW)
    end = min(place + WINDOW, len(data)) if end < 0 else end
    while start > 0 and start < end and data[start] & 0xC0 == 0x80:  # within a character
        start += 1
    while end < len(data) and end > start and data[end] & 0xC0 == 0x80:
        end -= 1
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: start + error.start].count(b"\n") + 1
        raise ValueError(f"{name}:{line}: is not UTF-8 ({error.reason}); save the corpus as UTF-8") from None


@lru_cache(4)
def _charset(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: the charset cannot be read ({error}); give a UTF-8 file, one character a line"
        ) from None
    for number, line in enumerate(lines, 1):
        if len(line) > 1:
            raise ValueError(f"{path}:{number}: has {len(line)} characters; give one a line")
    found = frozenset(line for line in lines if line.strip())
    if not found:
        raise ValueError(f"{path}: the charset is empty; give a UTF-8 file, one character a line")
    return found
