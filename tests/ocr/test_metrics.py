"""Metrics against hand calculations. Detection's are in test_benchmarks.py too, which uses the same copy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.ocr.metrics import Counts, TextCounts, add_up, alphanumeric, count_text, match_regions


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def test_nothing_at_all() -> None:
    assert match_regions([], [], []).counts == Counts()
    assert Counts().hmean == Counts().precision == Counts().recall == 0.0
    assert TextCounts().rates() == {"exact": 0, "exact_dense": 0, "exact_alphanumeric": 0, "ned": 0, "cer": 0}


def test_regions_by_hand() -> None:
    """Labels: one found (IoU 0.8), one missed, one ignored. Finds: the hit, one false, one inside the ignored."""
    labels = [box(0, 0, 10, 10), box(20, 0, 30, 10), box(50, 0, 70, 10)]
    finds = [box(0, 0, 8, 10), box(100, 0, 110, 10), box(52, 0, 60, 10)]
    matches = match_regions(labels, [False, False, True], finds)
    assert matches.pairs == [(0, 0)]
    counts = matches.counts
    assert counts == Counts(hits=1, truth=2, found=2)
    assert (counts.precision, counts.recall, counts.hmean) == (0.5, 0.5, 0.5)


def test_first_come_first_served_not_best() -> None:
    """Both finds overlap the label by more than half; the reference takes the first, though the second is better."""
    matches = match_regions([box(0, 0, 10, 10)], [False], [box(0, 0, 6, 10), box(0, 0, 10, 10)])
    assert matches.pairs == [(0, 0)]


def test_half_is_not_enough() -> None:
    assert match_regions([box(0, 0, 10, 10)], [False], [box(0, 0, 5, 10)]).pairs == []
    # Half of the find inside the ignored region: it counts; a little more: it does not.
    assert match_regions([box(0, 0, 10, 10)], [True], [box(5, 0, 15, 10)]).found == 1
    assert match_regions([box(0, 0, 10, 10)], [True], [box(4, 0, 14, 10)]).found == 0


@pytest.mark.parametrize(
    ("truth", "read", "exact", "dense", "letters", "edits"),
    [
        ("", "", 1, 1, 1, 0),
        ("a", "a", 1, 1, 1, 0),
        ("a b", "ab", 0, 1, 1, 1),
        ("A-1", "a1", 0, 0, 1, 2),
        ("kitten", "sitting", 0, 0, 0, 3),
    ],
)
def test_one_line(truth: str, read: str, exact: int, dense: int, letters: int, edits: int) -> None:
    one = count_text(truth, read)
    assert (one.exact, one.dense, one.alphanumeric, one.edits) == (exact, dense, letters, edits)
    assert one.characters == len(truth)


def test_rates_by_hand() -> None:
    """Three lines: right; two edits of four characters; five characters put in where there were none."""
    total = add_up([count_text("ab", "ab"), count_text("abcd", "abxy"), count_text("", "12345")])
    rates = total.rates()
    assert rates["exact"] == pytest.approx(1 / 3)
    assert rates["ned"] == pytest.approx(1 - (0 + 2 / 4 + 5 / 5) / 3)
    assert rates["cer"] == pytest.approx((0 + 2 + 5) / (2 + 4 + 0))
    assert total.by_length() == {0: (1, 0), 2: (1, 1), 4: (1, 0)}
    assert total.confusions == Counter({("c", "x"): 1, ("d", "y"): 1, **{("", n): 1 for n in "12345"}})


def test_confusion_names_what_was_left_out() -> None:
    assert count_text("abc", "ac").confusions == {("b", ""): 1}


def test_papers_score_letters_and_digits_alone() -> None:
    assert alphanumeric("It's №5 é!") == "its5"


@given(st.lists(st.tuples(st.text("abc ", max_size=5), st.text("abc ", max_size=5)), max_size=8), st.integers(0, 8))
def test_tallies_of_processes_add_up(pairs: list[tuple[str, str]], cut: int) -> None:
    tallies = [count_text(*pair) for pair in pairs]
    together = add_up(tallies[:cut]) + add_up(tallies[cut:])
    whole = add_up(tallies)
    assert together.rates() == pytest.approx(whole.rates())
    assert (together.lengths, together.confusions) == (whole.lengths, whole.confusions)
    assert whole.lines == len(pairs)
