"""Right-to-left text as it stands on the page: characters from left to right.

The algorithm of Unicode's annex 9 (UAX #9, revision 48) without its explicit embeddings and isolates, which printed
text that was read does not hold. Letters of Arabic are not joined here; that is the business of a font.
"""

from __future__ import annotations

from itertools import groupby
from unicodedata import bidirectional

MIRRORED = dict(zip("()[]{}<>«»", ")(][}{><»«", strict=True))


def has_right_to_left(text: str) -> bool:
    """Whether the text holds a letter of Hebrew, Arabic or another script that runs from right to left."""
    return any(bidirectional(character) in ("R", "AL") for character in text)


def visual(text: str) -> str:
    """The characters from left to right as they are printed, brackets turned where they face the other way."""
    if not has_right_to_left(text):
        return text
    kinds = [bidirectional(character) or "ON" for character in text]
    base = next(1 if kind in ("R", "AL") else 0 for kind in kinds if kind in ("L", "R", "AL"))
    levels = _levels(_resolved(kinds, base), base)
    characters = [MIRRORED.get(c, c) if level % 2 else c for c, level in zip(text, levels, strict=True)]
    order = list(range(len(text)))
    for least in range(max(levels), 0, -1):  # rule L2: from the highest level down, each run is turned around
        order = [
            i
            for high, run in groupby(order, key=lambda i: levels[i] >= least)
            for i in (reversed([*run]) if high else run)
        ]
    return "".join(characters[i] for i in order)


def _resolved(kinds: list[str], base: int) -> list[str]:
    """Kinds by rules W1 to W7 and N1 to N2: "L", "R", or a number, "EN" or "AN"."""
    found = list(kinds)
    strong = "LR"[base]
    for i, kind in enumerate(found):
        if kind == "NSM":
            found[i] = found[i - 1] if i else "ON"
        elif kind in ("L", "R", "AL"):
            strong = kind
        elif kind == "EN" and strong != "R":
            found[i] = "AN" if strong == "AL" else "L"
    found = ["R" if kind == "AL" else kind for kind in found]
    for i in range(1, len(found) - 1):  # W4: a separator between two numbers, as in 3.50
        if found[i] in ("CS", "ES") and found[i - 1] == found[i + 1] in ("EN", "AN"):
            found[i] = found[i - 1]
    for steps in (range(1, len(found)), range(len(found) - 2, -1, -1)):  # W5: signs beside a number, as in 50%
        for i in steps:
            if found[i] == "ET" and found[i - steps.step] == "EN":
                found[i] = "EN"
    return _with_neutrals(found, "LR"[base])


def _with_neutrals(kinds: list[str], base: str) -> list[str]:
    """Neutral characters take the direction that both sides agree on, else that of the whole line."""
    result, before, at = [], base, 0
    for neutral, run in groupby(kinds, key=lambda kind: kind not in ("L", "R", "EN", "AN")):
        members = [*run]
        at += len(members)
        if neutral:
            after = _side(kinds[at]) if at < len(kinds) else base
            result += [before if before == after else base] * len(members)
        else:
            result += members
            before = _side(members[-1])
    return result


def _side(kind: str) -> str:
    """Numbers count as right-to-left for the neutral characters beside them (N1)."""
    return "L" if kind == "L" else "R"


def _levels(kinds: list[str], base: int) -> list[int]:
    """Rules I1 and I2."""
    if base:
        return [1 if kind == "R" else 2 for kind in kinds]
    return [{"L": 0, "R": 1}.get(kind, 2) for kind in kinds]
