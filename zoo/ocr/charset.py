"""A recogniser's characters: reading a dictionary file, and what changes when one takes another's place. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BOM = "\ufeff"
_SHOWN = 10


@dataclass(frozen=True)
class Dictionary:
    """characters: in the file's order. notes: what was put right in reading, each with file:line."""

    characters: tuple[str, ...]
    notes: tuple[str, ...]

    def charset(self, *, space: bool = True) -> tuple[str, ...]:
        """The characters of CTC classes 1, 2, ...: those of the file and then, if wanted and not there, the space."""
        return (*self.characters, " ") if space and " " not in self.characters else self.characters


def read_dictionary(path: Path) -> Dictionary:
    """One character a line. A byte order mark, CRLF and empty lines at the end are put right and noted.

    Raises ValueError that names every line (file:line) which repeats a character, holds several, or none.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such dictionary; give a text file with one character a line") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    notes = []
    if text.startswith(BOM):
        notes.append(f"{path}:1: begins with a byte order mark, which was left out")
    rows = text.removeprefix(BOM).split("\n")
    while rows and not rows[-1].strip("\r"):
        rows.pop()
    returns = sum(row.endswith("\r") for row in rows)
    if returns:
        notes.append(f"{path}:1: has {returns} lines that end in CRLF; the CR was left out")
    characters = [row.removesuffix("\r") for row in rows]
    wrong = _mistakes(path, characters)
    if wrong:
        more = f"\nand {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ValueError("\n".join(wrong[:_SHOWN]) + more)
    return Dictionary(tuple(characters), tuple(notes))


def _mistakes(path: Path, characters: Sequence[str]) -> list[str]:
    if not characters:
        return [f"{path}:1: holds no characters; give one a line"]
    first: dict[str, int] = {}
    wrong = []
    for number, character in enumerate(characters, start=1):
        if not character:
            wrong.append(f"{path}:{number}: is empty; take the line out")
        elif len(character) > 1:
            codes = " ".join(f"U+{ord(part):04X}" for part in character[:4])
            wrong.append(
                f"{path}:{number}: holds {len(character)} characters, {character!r} ({codes}); give one a line"
            )
        elif character in first:
            wrong.append(f"{path}:{number}: {character!r} stands on line {first[character]} already; take one out")
        first.setdefault(character, number)
    return wrong


@dataclass(frozen=True)
class CharsetChange:
    """What becomes of a network's classes under another charset.

    rows: int64 [len(new charset)], for each new character its place in the old charset, -1 where it was not there.
    """

    kept: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: np.ndarray

    def __str__(self) -> str:
        parts = [f"{len(self.kept)} characters keep their weights"]
        for what, characters in (("new", self.new), ("dropped", self.dropped)):
            if characters:
                shown = " ".join(repr(character)[1:-1] for character in characters[:_SHOWN])
                more = f" and {len(characters) - _SHOWN} more" if len(characters) > _SHOWN else ""
                parts.append(f"{len(characters)} are {what} ({shown}{more})")
        return ", ".join(parts)


def compare(old: Sequence[str], new: Sequence[str]) -> CharsetChange:
    """What a change from the charset `old` to `new` keeps, adds and drops. Of a character twice in `old` the first."""
    places: dict[str, int] = {}
    for place, character in enumerate(old):
        places.setdefault(character, place)
    rows = np.array([places.get(character, -1) for character in new], np.int64)
    wanted = set(new)
    return CharsetChange(
        kept=tuple(character for character in new if character in places),
        new=tuple(character for character in new if character not in places),
        dropped=tuple(character for character in places if character not in wanted),
        rows=rows,
    )


def unknown(text: str, charset: Sequence[str] | dict[str, int]) -> str:
    """The characters of a text that a charset lacks, each once, in their order."""
    return "".join(dict.fromkeys(character for character in text if character not in charset))
