"""The check: each fault is found where it was put, and nothing else; the cleaned list is as worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ocr.label_sets import SQUARE, listed, page, picture, region
from zoo.ocr.label_check import ListReport, Opening, check, save_json
from zoo.ocr.label_look import Rules


def one(path: Path, out: Path | None = None, opening: Opening | None = None, **rules) -> ListReport:
    return check([path], opening or Opening(), Rules(**rules), out)[0]


def found(report: ListReport) -> set[tuple[str, str, str]]:
    """(line, kind, done) of each finding; line "" for those about the file."""
    assert sum(report.counts.values()) == len(report.findings)
    rows = [(place.rpartition(":")[2] if ":" in place else "", kind, done) for place, kind, _, done in report.findings]
    assert len(set(rows)) == len(rows)
    return set(rows)


@pytest.mark.parametrize("lines", [(), ("", "")])
def test_an_empty_list_is_bad(tmp_path: Path, lines: tuple[str, ...]) -> None:
    report = one(listed(tmp_path / "l.txt", *lines), tmp_path / "new.txt")
    assert (report.total, report.bad, report.cleaned) == (0, 1, 0)
    assert report.findings[0][1:] == ("empty list", "holds no label", "left out")
    assert (tmp_path / "new.txt").read_text() == ""


def test_lines(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c d.png", "folder/e.png", "f.png", "g.png"):
        picture(tmp_path / name, grey=len(name))
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    lines = [
        "a.png\tgood",
        "no tab",
        "gone.png\tx",
        "broken.png\tx",
        "b.png\t",
        "b.png\t" + "x" * 26,
        "b.png\t" + "y" * 25,
        '"c d.png"\tquoted',
        "folder\\e.png\tbackslash",
        "f.png\tzéro",
        'g.png\t"said" "so"',
        "a.png\tother",
    ]
    file = listed(tmp_path / "l.txt", *lines)
    report = one(file, tmp_path / "new.txt", charset=frozenset('abcdefghijklmnopqrstuvwxyz" '))
    assert found(report) == {
        ("2", "broken label", "left out"),
        ("3", "missing picture", "left out"),
        ("4", "unreadable picture", "left out"),
        ("5", "empty text", "left out"),
        ("6", "too long text", "left out"),
        ("8", "path", "repaired"),
        ("9", "path", "repaired"),
        ("10", "outside the charset", "left out"),
        ("11", "quotes around the text", "noted"),
        ("1", "same picture, conflicting labels", "left out"),
        ("12", "same picture, conflicting labels", "left out"),
        ("5", "same picture, conflicting labels", "left out"),
        ("6", "same picture, conflicting labels", "left out"),
        ("7", "same picture, conflicting labels", "left out"),
    }
    assert report.unknown == {"é": 1}
    assert (tmp_path / "new.txt").read_text("utf-8") == (
        'c d.png\tquoted\nfolder/e.png\tbackslash\ng.png\t"said" "so"\n'
    )
    assert report.cleaned == 3


def test_line_ends_are_repaired(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "l.txt").write_bytes(b"\xef\xbb\xbfa.png\tx\r\n\r\n")
    report = one(tmp_path / "l.txt", tmp_path / "new.txt")
    assert {(kind, done) for _, kind, _, done in report.findings} == {
        ("byte order mark", "repaired"),
        ("CRLF", "repaired"),
        ("empty line", "repaired"),
    }
    assert report.bad == 0
    assert (tmp_path / "new.txt").read_bytes() == b"a.png\tx\n"


def test_texts_that_look_odd_are_noted(tmp_path: Path) -> None:
    for name in "abc":
        picture(tmp_path / f"{name}.png")
    report = one(listed(tmp_path / "l.txt", "a.png\t x", "b.png\tx\u200by", "c.png\tx\u00a0y"), tmp_path / "new.txt")
    assert found(report) == {("1", "spaces at an end", "noted"), ("2", "invisible characters", "noted")}
    assert (report.bad, report.cleaned) == (0, 3)


def test_pages(tmp_path: Path) -> None:
    for name in "abcdefghi":
        picture(tmp_path / f"{name}.png", grey=ord(name))
    over = [[80, 10], [101.5, 10], [101.5, 30], [80, 30]]
    far = [[80, 10], [110, 10], [110, 30], [80, 30]]
    gone = [[120, 10], [140, 10], [140, 30], [120, 30]]
    flat = [[0, 0], [40, 0], [40, 0], [0, 0]]
    bow = [[10, 10], [50, 10], [10, 30], [50, 30]]
    lines = [
        page("a.png", region("good"), region("edge", [[0, 0], [100, 0], [100, 60], [0, 60]])),
        page("b.png", region("points", SQUARE[:2]), region("kept")),
        page("c.png", region("flat", flat)),
        page("d.png", region("over", over)),
        page("e.png", region("far", far)),
        page("f.png", region("gone", gone)),
        page("g.png", region("bow", bow)),
        page("h.png", region(" "), region("###")),
        page("i.png"),
        'a.png\t[{"transcription": "x"',
        page("gone.png", region("x")),
    ]
    report = one(listed(tmp_path / "l.txt", *lines), tmp_path / "new.txt")
    assert found(report) == {
        ("2", "under 3 points", "left out"),
        ("3", "zero area", "left out"),
        ("4", "out of the picture", "repaired"),
        ("5", "out of the picture", "ignored"),
        ("6", "out of the picture", "left out"),
        ("7", "edges that cross", "ignored"),
        ("8", "empty text", "ignored"),
        ("9", "no regions", "noted"),
        ("10", "broken label", "left out"),
        ("11", "missing picture", "left out"),
    }
    what = {place.rpartition(":")[2]: what for place, _, what, _ in report.findings}
    assert "1.5 pixels out" in what["4"] and "10 pixels out" in what["5"]
    cleaned = [line.split("\t") for line in (tmp_path / "new.txt").read_text("utf-8").splitlines()]
    assert [path for path, _ in cleaned] == [f"{name}.png" for name in "abcdefghi"]
    inside = [[80, 10], [100, 10], [100, 30], [80, 30]]
    regions = [[(r["transcription"], r["points"]) for r in json.loads(text)] for _, text in cleaned]
    assert regions[1:6] == [[("kept", SQUARE)], [], [("over", inside)], [("###", inside)], []]
    assert [text for text, _ in regions[6]] == ["###"]
    assert sorted(regions[6][0][1]) == sorted(SQUARE)
    assert regions[7] == [("###", SQUARE), ("###", SQUARE)]


def test_a_cleaned_list_is_good(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    far = [[-9, 10], [50, 10], [50, 30], [-9, 30]]
    one(listed(tmp_path / "l.txt", page("a.png", region("x"), region("far", far))), tmp_path / "new.txt")
    again = one(tmp_path / "new.txt", tmp_path / "newer.txt")
    assert again.findings == []
    assert (tmp_path / "newer.txt").read_text() == (tmp_path / "new.txt").read_text()


def test_texts_of_pages_are_checked_on_request(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    file = listed(tmp_path / "l.txt", page("a.png", region("x" * 30), region("###")))
    assert one(file).findings == []
    assert found(one(file, max_length=25)) == {("1", "too long text", "ignored")}
    # An ignored region's text says nothing, so that # need not be in a charset.
    assert found(one(file, charset=frozenset("y"))) == {("1", "outside the charset", "ignored")}


def test_repeated_pictures(tmp_path: Path) -> None:
    for name in "abc":
        picture(tmp_path / f"{name}.png", grey=ord(name))
    first = listed(tmp_path / "train.txt", "a.png\tx", "./a.png\tx", "b.png\ty")
    second = listed(tmp_path / "val.txt", "b.png\ty", "c.png\tz")
    train, val = check([first, second], Opening(), Rules(), tmp_path / "out")
    assert found(train) == {("2", "same picture, same label", "repaired")}
    assert found(val) == {("1", "same picture, in two lists", "left out")}
    assert train.findings[0].what == f"as {first}:1" and val.findings[0].what == f"as {first}:3"
    assert (tmp_path / "out" / "train.txt").read_text() == "../a.png\tx\n../b.png\ty\n"
    assert (tmp_path / "out" / "val.txt").read_text() == "../c.png\tz\n"


def test_the_same_picture_under_two_names_is_found_by_its_bytes(tmp_path: Path) -> None:
    for name in "ab":
        picture(tmp_path / f"{name}.png")
    for name in "cd":
        picture(tmp_path / f"{name}.png", grey=3)
    file = listed(tmp_path / "l.txt", "a.png\tx", "b.png\ty", "c.png\tz", "d.png\tz")
    assert one(file).findings == []
    assert found(one(file, decode=True)) == {
        ("1", "same picture under two names, conflicting labels", "left out"),
        ("2", "same picture under two names, conflicting labels", "left out"),
        ("4", "same picture under two names, same label", "noted"),
    }


def test_a_picture_cut_short_is_found_by_decoding(tmp_path: Path) -> None:
    whole = picture(tmp_path / "a.jpg", 400, 300).read_bytes()
    (tmp_path / "a.jpg").write_bytes(whole[: len(whole) // 2])
    file = listed(tmp_path / "l.txt", "a.jpg\tx")
    assert one(file).findings == []
    assert found(one(file, decode=True)) == {("1", "unreadable picture", "left out")}


def test_processes_find_the_same(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    file = listed(tmp_path / "l.txt", *(f"{'a' if i % 3 else 'gone'}.png\tx" for i in range(1201)))
    alone, shared = (check([file], Opening(), Rules(), None, workers)[0] for workers in (1, 2))
    assert alone == shared
    assert alone.counts["missing picture", "left out"] == 401  # 0, 3, ... 1200


def test_names_and_archives(tmp_path: Path) -> None:
    picture(tmp_path / "set" / "京A1.png")
    picture(tmp_path / "set" / "x.png")
    report = one(tmp_path / "set", tmp_path / "new.txt", Opening(pattern=".{3}"))
    assert (report.kind, report.format, report.total, report.bad) == ("lines", "names", 2, 1)
    assert (tmp_path / "new.txt").read_text("utf-8") == "set/京A1.png\t京A1\n"


def test_report_as_json(tmp_path: Path) -> None:
    report = one(listed(tmp_path / "l.txt", "gone.png\té"), charset=frozenset("e"))
    save_json([report], tmp_path / "r.json")
    saved = json.loads((tmp_path / "r.json").read_text("utf-8"))["lists"][0]
    assert (saved["total"], saved["bad"], saved["cleaned"], saved["findings_not_listed"]) == (1, 2, 0, 0)
    assert saved["unknown_characters"] == {"é": 1}
    assert saved["findings"][0]["place"] == f"{tmp_path}/l.txt:1"


def test_where_cleaned_lists_may_not_go(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    file = listed(tmp_path / "l.txt", "a.png\tx")
    with pytest.raises(ValueError, match="is the list that is checked"):
        one(file, file)
    assert file.read_text() == "a.png\tx\n"
    with pytest.raises(ValueError, match="several lists need a folder"):
        check([file, listed(tmp_path / "m.txt")], Opening(), Rules(), file)
    with pytest.raises(ValueError, match="two lists would be"):
        check([file, file], Opening(), Rules(), tmp_path / "out")


def test_the_labelled_data_is_good(data: Path) -> None:
    """Its README says of one label that is broken nothing; five receipts are told from the others by their CRLF."""
    receipts = data / "ocr_sroie"
    report = one(receipts)
    returns = [str(file) for file in sorted((receipts / "box").iterdir()) if b"\r\n" in file.read_bytes()]
    assert [(place, kind) for place, kind, _, _ in report.findings] == [(place, "CRLF") for place in returns]
    assert report.bad == 0
    assert one(data / "ocr_zh_screens").findings == []
