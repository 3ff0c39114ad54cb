"""A font for each text: the user's, the system's, else Pillow's own; what no font has is said once."""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

FOLDERS = {
    "linux": ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts"),
    "darwin": ("/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts"),
    "win32": (r"C:\Windows\Fonts", r"~\AppData\Local\Microsoft\Windows\Fonts"),
}
SUFFIXES = (".ttf", ".otf", ".ttc", ".otc")
# Plain faces first: a page drawn in an italic or a condensed face reads badly.
FANCY = ("bold", "italic", "oblique", "condensed", "mono", "light", "thin", "serif")


@cache
def candidates() -> tuple[Path, ...]:
    """Font files: ZOO_FONT first, then those of the system, plain faces before others."""
    chosen = [Path(name).expanduser() for name in os.environ.get("ZOO_FONT", "").split(os.pathsep) if name]
    found = []
    for folder in FOLDERS.get(sys.platform, FOLDERS["linux"]):
        found += [p for p in Path(folder).expanduser().rglob("*") if p.suffix.lower() in SUFFIXES]
    return (*chosen, *sorted(found, key=lambda p: (sum(word in p.name.lower() for word in FANCY), str(p))))


def font_for(text: str, size: int) -> Any:
    """A Pillow font of that size in pixels with the most of the text's characters; a warning names what is missing."""
    wanted = frozenset(character for character in text if not character.isspace())
    path, missing = _best(wanted)
    if missing:
        _warn(_block(min(missing)))
    return _open(path, size)


@cache
def _best(wanted: frozenset[str]) -> tuple[Path | None, frozenset[str]]:
    best: tuple[Path | None, frozenset[str]] = (None, wanted - _covered(None, wanted))
    for path in candidates():
        if not best[1]:
            break
        missing = wanted - _covered(path, wanted)
        if len(missing) < len(best[1]):
            best = (path, missing)
    return best


@cache
def _covered(path: Path | None, characters: frozenset[str]) -> frozenset[str]:
    return frozenset(character for character in characters if _has(path, character))


@cache
def _has(path: Path | None, character: str) -> bool:
    """Whether a font draws a character otherwise than as its sign for "not there"."""
    font = _open(path, 24)
    if font is None:
        return False
    absent = _drawing(path, "\U0010fffe")
    return _drawing(path, character) != absent


@cache
def _drawing(path: Path | None, character: str) -> tuple[Any, bytes]:
    mask = _open(path, 24).getmask(character)
    return mask.size, bytes(mask)


@cache
def _open(path: Path | None, size: int) -> Any:
    from PIL import ImageFont

    if path is None:
        return ImageFont.load_default(size)
    try:
        return ImageFont.truetype(str(path), size)
    except OSError:
        return None  # no font after all, or one that FreeType cannot read: another is taken


def _block(character: str) -> str:
    import unicodedata

    return unicodedata.name(character, f"U+{ord(character):04X}").split(" ")[0].split("-")[0]


@cache
def _warn(script: str) -> None:
    warnings.warn(
        f"no font here has all characters ({script}); boxes are drawn for them: name a font file in ZOO_FONT",
        stacklevel=2,
    )
