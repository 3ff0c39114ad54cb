"""Right-to-left text in the order of the eye; expected orders by hand from the rules of UAX #9."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.ocr.bidi import has_right_to_left, visual


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("abc (1)", "abc (1)"),
        ("אבג", "גבא"),
        ("אבג דה", "הד גבא"),
        ("ab אבג cd", "ab גבא cd"),
        ("אבג ab דה", "הד ab גבא"),
        ("אבג 12.50 דה", "הד 12.50 גבא"),  # W4: a number with a point stays together
        ("50% אב", "בא 50%"),  # W5: so does its percent sign
        ("אב 12", "12 בא"),
        ("ab אב 12", "ab 12 בא"),  # I1: the number belongs to the letters before it
        ("(אב)", "(בא)"),  # L4: brackets face the other way
        ("سلام 12", "12 مالس"),
        ("אב!", "!בא"),
        ("ab אב!", "ab בא!"),  # N2: a sign at the end of a left-to-right line
    ],
)
def test_order_by_hand(text: str, expected: str) -> None:
    assert visual(text) == expected


@given(st.text(st.sampled_from("אבגسل12.,% ()ab-\u05b0\u0660"), max_size=20))
def test_every_character_stays(text: str) -> None:
    brackets = str.maketrans("()", "((")
    assert sorted(visual(text).translate(brackets)) == sorted(text.translate(brackets))
    if not has_right_to_left(text):
        assert visual(text) == text
