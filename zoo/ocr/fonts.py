"""A font for each text: the user's, Pillow's own, the system's or a package's; what none has is said once."""

from __future__ import annotations

import os
import sys
import unicodedata
import warnings
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDERS = {
    "linux": ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts"),
    "darwin": ("/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts"),
    "win32": (r"C:\Windows\Fonts", r"~\AppData\Local\Microsoft\Windows\Fonts"),
}
SUFFIXES = (".ttf", ".otf", ".ttc", ".otc")
# A package of fonts that the user may install; it is looked into and never imported. SIL Open Font License 1.1.
PACKAGE = "noto-cjk-sans-otc"
# Fonts that draw a sign of their own for every character there is.
SIGNS = ("lastresort", "adobeblank", "unicodebmpfallback")
SAMPLE = 24  # pixels at which a font is tried for a character
# Plain faces first: a page drawn in an italic or a condensed face reads badly.
FANCY = ("bold", "italic", "oblique", "condensed", "mono", "light", "thin", "serif", "math")


@cache
def candidates() -> tuple[Path | None, ...]:
    """Font files in the order they are asked: those of ZOO_FONT, Pillow's own (None), then the system's, plain first.

    ZOO_FONT: one path or several, parted as those of PATH are. Raises ValueError for one that is no font.
    """
    chosen = [Path(name).expanduser() for name in os.environ.get("ZOO_FONT", "").split(os.pathsep) if name]
    for path in chosen:
        if _open(path, SAMPLE) is None:
            raise ValueError(f"ZOO_FONT: {path} is not there or no font; name a .ttf, .otf or .ttc file")
    found = []
    for folder in [*(Path(name).expanduser() for name in FOLDERS.get(sys.platform, FOLDERS["linux"])), *_packaged()]:
        found += [p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES]
    found = [p for p in found if not any(sign in p.name.lower().replace("-", "") for sign in SIGNS)]
    plain = sorted(found, key=lambda p: (sum(word in p.name.lower() for word in FANCY), str(p)))
    return (*chosen, None, *plain)


def _packaged() -> list[Path]:
    spec = find_spec(PACKAGE.replace("-", "_"))
    return [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []


def font_for(text: str, size: int) -> Any:
    """A Pillow font of that size in pixels with the most of the text's characters; a warning names what is missing."""
    wanted = frozenset(character for character in text if not _is_unseen(character))
    path, missing = _best(wanted)
    if missing:
        _warn(_script(min(missing)))
    return _open(path, size)


def _is_unseen(character: str) -> bool:
    """Spaces, joiners, controls and variation selectors: no font need draw them."""
    return character.isspace() or unicodedata.category(character)[0] == "C" or "\ufe00" <= character <= "\ufe0f"


@cache
def _best(wanted: frozenset[str]) -> tuple[Path | None, frozenset[str]]:
    """The first font with the fewest characters missing, and those."""
    best: tuple[Path | None, frozenset[str]] = (None, wanted)
    for path in candidates():
        missing = wanted - _covered(path, wanted)
        if len(missing) < len(best[1]) or not missing:
            best = (path, missing)
        if not missing:
            break
    return best


@cache
def _covered(path: Path | None, characters: frozenset[str]) -> frozenset[str]:
    return frozenset(character for character in characters if _has(path, character))


@cache
def _has(path: Path | None, character: str) -> bool:
    """Whether a font draws a character otherwise than as its sign for "not there"."""
    font = _open(path, SAMPLE)
    if font is None:
        return False
    absent = _drawing(path, "\U0010fffe")
    return _drawing(path, character) != absent


@cache
def _drawing(path: Path | None, character: str) -> tuple[Any, bytes]:
    mask = _open(path, SAMPLE).getmask(character)
    return mask.size, bytes(mask)


@lru_cache(64)  # a page has lines of many heights, and an open font of Chinese takes megabytes
def _open(path: Path | None, size: int) -> Any:
    from PIL import ImageFont

    if path is None:
        return ImageFont.load_default(size)
    try:
        return ImageFont.truetype(str(path), size)
    except OSError:
        return None  # no font after all, or one that FreeType cannot read: another is taken


def _script(character: str) -> str:
    """The first word of a letter's name, which is its script: CJK, HANGUL, THAI, ...; signs have none in theirs."""
    if unicodedata.category(character)[0] not in "LM":
        return "signs such as emoji"
    return unicodedata.name(character, f"U+{ord(character):04X}").split(" ")[0].split("-")[0]


@cache
def _warn(script: str) -> None:
    warnings.warn(
        f"no font here has all characters ({script}); boxes are drawn for them: name a font file in ZOO_FONT, or, for "
        f"Chinese, Japanese and Korean, pip install {PACKAGE}",
        stacklevel=2,
    )
