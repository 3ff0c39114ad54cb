"""Texts for synthetic pictures: cut from a corpus or made by rule, within a language and a charset."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.ocr.synth_settings import SynthSettings
from zoo.ocr.synth_text import Texts, is_wide, plain, words


def many(texts: Texts, count: int = 200, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [texts.piece(random) for _ in range(count)]


def corpus(folder: Path, data: bytes, name: str = "corpus.txt") -> Path:
    file = folder / name
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        (" ", []),
        ("a", ["a"]),
        ("Total: 12.50 EUR", ["Total:", "12.50", "EUR"]),
        ("春江潮水", ["春", "江", "潮", "水"]),
        ("共5元, ok", ["共", "5", "元", ",", "ok"]),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert [text[word.start : word.end] for word in words(text)] == wanted


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None)
def test_words_hold_all_but_spaces_in_order(text: str) -> None:
    found = words(text)
    assert "".join(text[word.start : word.end] for word in found) == "".join(text.split())
    assert all(one.end <= other.start for one, other in pairwise(found))


def test_plain_leaves_nothing_that_is_not_drawn() -> None:
    assert plain("\ufeff a\u200b\tb\u3000 c\x00\n") == "a b c"


@pytest.mark.parametrize("lang", ["en", "ch", "mixed"])
def test_rules_give_texts_of_the_language(lang: str) -> None:
    found = many(Texts(SynthSettings(lang=lang)))
    assert all(0 < len(text) <= 25 and text == text.strip() and "  " not in text for text in found)
    wide = [any(is_wide(c) for c in text) for text in found]
    assert any(wide) == (lang != "en")
    assert len(set(found)) > 150


def test_a_corpus_is_cut_at_words_and_never_changed(tmp_path: Path) -> None:
    lines = ["the quick brown fox jumps over the lazy dog", "快速的棕色狐狸跳过了懒狗"]
    file = corpus(tmp_path, "\r\n".join(lines).encode("utf-8-sig"))
    found = many(Texts(SynthSettings(corpus=file, rules=0)))
    for text in found:
        assert any(text in line for line in lines)
        if text[0].isascii():
            assert set(text.split()) <= set(lines[0].split())
    assert {"the", "dog"} <= {word for text in found for word in text.split()}  # from the first word to the last
    assert any(text.endswith("狗") for text in found)


def test_a_corpus_without_line_ends_is_cut_within_no_character(tmp_path: Path) -> None:
    file = corpus(tmp_path, ("永和九年岁在癸丑暮春之初" * 900).encode())
    found = many(Texts(SynthSettings(corpus=file, rules=0, lang="ch")))
    assert all(text in "永和九年岁在癸丑暮春之初" * 4 for text in found)


def test_a_word_longer_than_a_line_is_cut(tmp_path: Path) -> None:
    file = corpus(tmp_path, b"x" * 5000)
    assert set(many(Texts(SynthSettings(corpus=file, rules=0, max_length=9)))) == {"x" * 9}


def test_a_charset_restricts(tmp_path: Path) -> None:
    file = corpus(tmp_path, "0\n1\n2\n年\n".encode(), "charset.txt")
    found = many(Texts(SynthSettings(charset=file)))
    assert set("".join(found)) <= set("012年 ")


def test_long_texts_are_more_frequent_than_short_ones(tmp_path: Path) -> None:
    file = corpus(tmp_path, ("永" * 300 + "\n").encode() * 20)
    lengths = [len(text) for text in many(Texts(SynthSettings(corpus=file, rules=0, lang="ch")), 400)]
    assert min(lengths) < 8 and max(lengths) == 25 and np.mean(lengths) > 13


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b" \n\t\n", "white space"),
        ("words\nGrüße\n".encode("latin-1") * 3, "corpus.txt:2: is not UTF-8"),
        ("只有中文\n".encode(), "no text for --lang en"),
    ],
)
def test_a_corpus_that_cannot_be_used(tmp_path: Path, data: bytes, message: str) -> None:
    file = corpus(tmp_path, data)
    with pytest.raises(ValueError, match=message):
        many(Texts(SynthSettings(corpus=file, lang="en", rules=0)))


def test_no_corpus_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing\.txt: the corpus cannot be read"):
        Texts(SynthSettings(corpus=tmp_path / "missing.txt"))


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "is empty"), (b"a\nbc\n", ":2: has 2 characters"), (b"\xff", "read")]
)
def test_a_charset_that_cannot_be_used(tmp_path: Path, data: bytes, message: str) -> None:
    file = corpus(tmp_path, data, "charset.txt")
    with pytest.raises(ValueError, match=message):
        Texts(SynthSettings(charset=file))


@pytest.mark.parametrize(
    ("name", "value"),
    [("lang", "de"), ("height", 2), ("seed", -1), ("layouts", ()), ("layouts", ("poem",)), ("page_side", (900, 400)),
     ("degrade", 1.5), ("max_length", 0), ("contrast", 30)],
)  # fmt: skip
def test_settings_out_of_range_are_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"synth {name}="):
        SynthSettings(**{name: value})
