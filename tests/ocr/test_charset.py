"""Dictionary files, and what a change of charset keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from zoo.ocr import rec
from zoo.ocr.charset import compare, read_dictionary, unknown
from zoo.ocr.warm_start import CHARACTER_ROWS, take_over


def written(folder: Path, content: bytes) -> Path:
    path = folder / "letters.txt"
    path.write_bytes(content)
    return path


def test_plain(tmp_path: Path) -> None:
    dictionary = read_dictionary(written(tmp_path, "a\n漢\nb\n".encode()))
    assert dictionary.characters == ("a", "漢", "b")
    assert dictionary.notes == ()
    assert dictionary.charset() == ("a", "漢", "b", " ")
    assert dictionary.charset(space=False) == ("a", "漢", "b")


def test_a_listed_space_is_not_added_again(tmp_path: Path) -> None:
    assert read_dictionary(written(tmp_path, b" \na\n")).charset() == (" ", "a")


def test_mark_and_crlf_are_put_right_and_said(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbfa\r\nb\r\n\r\n")
    dictionary = read_dictionary(path)
    assert dictionary.characters == ("a", "b")
    assert [note.startswith(f"{path}:1: ") for note in dictionary.notes] == [True, True]
    assert "byte order mark" in dictionary.notes[0]
    assert "2 lines that end in CRLF" in dictionary.notes[1]


def test_every_bad_line_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, b"a\n\nbc\na\n")
    with pytest.raises(ValueError) as error:
        read_dictionary(path)
    assert str(error.value).splitlines() == [
        f"{path}:2: is empty; take the line out",
        f"{path}:3: holds 2 characters, 'bc' (U+0062 U+0063); give one a line",
        f"{path}:4: 'a' stands on line 1 already; take one out",
    ]


@pytest.mark.parametrize(("content", "said"), [(b"", "holds no characters"), (b"a\n\xff\n", "not UTF-8 \\(byte 2\\)")])
def test_no_dictionary(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_dictionary(written(tmp_path, content))
    with pytest.raises(ValueError, match="no such dictionary"):
        read_dictionary(tmp_path / "nosuch.txt")


def test_compare() -> None:
    change = compare(("a", "b", "c", " "), ("c", "x", "a", " "))
    assert (change.kept, change.new, change.dropped) == (("c", "a", " "), ("x",), ("b",))
    assert change.rows.tolist() == [2, -1, 0, 3]
    assert str(change) == "3 characters keep their weights, 1 are new (x), 1 are dropped (b)"


def test_unknown() -> None:
    assert unknown("abxbyx", ("a", "b")) == "xy"
    assert unknown("", ()) == ""


OLD, NEW = ("a", "b", "c", " "), ("c", "x", "a", " ")


@pytest.mark.parametrize(
    ("build", "first"),
    [
        # Rows before the characters of classifier, embedding and prediction, as PaddleOCR numbers its classes.
        (lambda n: rec.ppocrv3_mobile_rec(classes=n, guide_width=8), (1, 0, 0)),
        (lambda n: rec.ppocrv4_mobile_rec(classes=n, guide_width=32, guide_depth=1), (1, 4, 4)),
    ],
)
def test_rows_of_characters_that_stay(build, first: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    old, new = build(len(OLD) + 1), build(len(NEW) + 1)
    fresh = {name: value.clone() for name, value in new.state_dict().items()}
    start = take_over(new, old.state_dict(), "old", charsets=(OLD, NEW))
    assert start.charset is not None and start.charset.new == ("x",)
    assert start.fresh == ()
    own, before = new.state_dict(), old.state_dict()
    names = [name for name in CHARACTER_ROWS if name in own]
    assert len(names) == (5 if first[1] == 0 else 4)
    for name in names:
        rows = first[0] if name.startswith("classifier") else first[1]
        assert torch.equal(own[name][rows + 0], before[name][rows + 2]), f"{name}: c"
        assert torch.equal(own[name][rows + 1], fresh[name][rows + 1]), f"{name}: x is new"
        assert torch.equal(own[name][rows + 2], before[name][rows + 0]), f"{name}: a"
        assert torch.equal(own[name][:rows], before[name][:rows]), f"{name}: special classes in front"
        assert torch.equal(own[name][rows + 3 :], before[name][rows + 3 :]), f"{name}: space, special classes behind"


def test_more_characters_and_fewer() -> None:
    old, new = rec.ppocrv3_mobile_rec(classes=5, guide=False), rec.ppocrv3_mobile_rec(classes=8, guide=False)
    take_over(new, old.state_dict(), "old", charsets=(OLD, (*"abcdef", " ")))
    assert torch.equal(new.classifier.bias[[0, 1, 2, 3, 7]], old.classifier.bias)
    fewer = rec.ppocrv3_mobile_rec(classes=2, guide=False)
    take_over(fewer, old.state_dict(), "old", charsets=(OLD, ("b",)))
    assert torch.equal(fewer.classifier.bias, old.classifier.bias[[0, 2]])


def test_another_charset_unsaid_is_an_error() -> None:
    old, new = rec.ppocrv3_mobile_rec(classes=5, guide=False), rec.ppocrv3_mobile_rec(classes=6, guide=False)
    with pytest.raises(ValueError, match=r"classifier\.weight has shape \(5, 64\), this network \(6, 64\)"):
        take_over(new, old.state_dict(), "old")
