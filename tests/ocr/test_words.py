"""Spaces and word boxes, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.ocr.postprocess import ctc_decode, is_spaced, restore_spaces
from zoo.ocr.words import words_of

CHARSET = (*"abc春江", " ")
SPACE = len(CHARSET)
QUAD = np.array([[0, 0], [200, 0], [200, 40], [0, 40]], np.float32)


def columns(text: str, gaps: dict[int, float] | None = None) -> np.ndarray:
    """Probabilities in which "." is a blank column; gaps gives the space's probability at some blank columns."""
    result = np.full((len(text), SPACE + 1), 0.001, np.float32)
    for i, character in enumerate(text):
        result[i, 0 if character == "." else CHARSET.index(character) + 1] = 0.9
    for i, probability in (gaps or {}).items():
        result[i, SPACE] = probability
    return result


def restored(text: str, gaps: dict[int, float], thresh: float = 0.1) -> str:
    probability = columns(text, gaps)
    return restore_spaces(ctc_decode(probability, CHARSET), probability[:, SPACE], thresh).text


def test_nothing_to_restore() -> None:
    assert restored("", {}) == ""
    assert restored("....", {2: 0.9}) == ""
    assert restored("a.b.c.a", {}) == "abca"


def test_a_space_outvoted_by_the_blank_in_a_wide_gap_is_restored() -> None:
    assert restored("a.b...c.a.b", {4: 0.2}) == "ab cab"


def test_a_narrow_gap_or_weak_evidence_is_no_space() -> None:
    assert restored("a.b.c.a.b.c", {3: 0.2}) == "abcabc"  # the gap is as narrow as all others
    assert restored("a.b...c.a.b", {4: 0.01}) == "abcab"


def test_no_space_is_put_beside_chinese() -> None:
    assert restored("a.b...春.江.a", {4: 0.4}) == "ab春江a"


def test_the_score_of_the_line_is_kept_and_the_space_has_its_column() -> None:
    probability = columns("a.b...c.a.b", {4: 0.2})
    before = ctc_decode(probability, CHARSET)
    after = restore_spaces(before, probability[:, SPACE], 0.1)
    assert after.score == before.score
    assert after.columns[2].tolist() == [4, 4] and len(after.columns) == len(after.characters) == len(after.scores) == 6


def test_empty_text_has_no_words() -> None:
    assert words_of(ctc_decode(columns(""), CHARSET), 10, 200, QUAD, "word") == ()


def test_words_of_mixed_scripts() -> None:
    text = ctc_decode(columns("ab.ca.春.江.ab...c.. ..b"), CHARSET)
    assert [word.text for word in words_of(text, 8, 200, QUAD, "word")] == ["abca", "春", "江", "abc", "b"]
    assert "".join(word.text for word in words_of(text, 8, 200, QUAD, "character")) == "abca春江abcb"


def test_characters_stand_over_their_columns() -> None:
    """Columns 10 pixels wide; a in column 2 has its centre at 25, b in column 6 at 65; half way is 45."""
    words = words_of(ctc_decode(columns("..a...b..."), CHARSET), 10, 200, QUAD, "character")
    np.testing.assert_allclose(words[0].polygon_xy[:, 0], [5, 45, 45, 5])
    np.testing.assert_allclose(words[1].polygon_xy[:, 0], [45, 85, 85, 45])
    np.testing.assert_allclose(words[0].polygon_xy[:, 1], [0, 0, 40, 40])


@pytest.mark.parametrize(
    ("character", "spaced"),
    [("a", True), ("9", True), ("ж", True), ("-", True), ("春", False), ("の", False), ("，", False)],
)
def test_scripts(character: str, spaced: bool) -> None:
    assert is_spaced(character) is spaced
