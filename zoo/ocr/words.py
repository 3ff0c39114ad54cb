"""Where the words or characters of a line stand, from the columns in which CTC saw them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from zoo.ocr.page import Word
from zoo.ocr.postprocess import Text, is_spaced


def words_of(
    text: Text, column_width: float, line_width: float, quad_xy: np.ndarray, kind: Literal["word", "character"]
) -> tuple[Word, ...]:
    """The words, or all characters but spaces, of a line with their boxes in pixels of the picture.

    column_width: of one column of the network's output, in pixels of the crop. line_width: of the crop, in pixels.
    quad_xy: [4, 2], the line's corners from the text's own top left. A script written without spaces (Chinese,
    Japanese, Thai, ...) gives one word for each character, as PaddleOCR's word boxes do.
    """
    edges = _edges(text.columns, column_width, line_width) / max(line_width, 1e-6)
    groups = [[i] for i, c in enumerate(text.characters) if not c.isspace()]
    if kind == "word":
        groups = _groups(text.characters)
    words = []
    for group in groups:
        left, right = edges[group[0]][0], edges[group[-1]][1]
        letters = "".join(text.characters[i] for i in group)
        words.append(Word(letters, float(text.scores[group].mean()), _part(quad_xy, left, right)))
    return tuple(words)


def _edges(columns: np.ndarray, column_width: float, line_width: float) -> np.ndarray:
    """Left and right edge of each character [N, 2] in pixels: half way to its neighbours, at most one pitch wide."""
    centres = np.minimum((columns.sum(axis=1) + 1) / 2 * column_width, line_width)
    gaps = np.diff(centres)
    pitch = float(np.median(gaps)) if len(gaps) else line_width
    half = np.minimum(gaps, 1.5 * pitch) / 2
    left = np.concatenate([[pitch / 2], half])
    right = np.concatenate([half, [pitch / 2]])
    return np.clip(np.stack([centres - left, centres + right], axis=1), 0, line_width)


def _groups(characters: tuple[str, ...]) -> list[list[int]]:
    groups: list[list[int]] = []
    open_group = False  # whether the next spaced-script character may join the last group
    for index, character in enumerate(characters):
        if character.isspace():
            open_group = False
        elif not is_spaced(character):
            groups.append([index])
            open_group = False
        elif open_group:
            groups[-1].append(index)
        else:
            groups.append([index])
            open_group = True
    return groups


def _part(quad_xy: np.ndarray, left: float, right: float) -> np.ndarray:
    """The part of a quad from `left` to `right`, as fractions of its width."""
    top_left, top_right, bottom_right, bottom_left = quad_xy
    top, bottom = top_right - top_left, bottom_right - bottom_left
    corners = [top_left + left * top, top_left + right * top, bottom_left + right * bottom, bottom_left + left * bottom]
    return np.stack(corners).astype(np.float32)
