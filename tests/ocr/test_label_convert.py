"""What is written in one format and read again is what was there."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ocr.label_sets import SQUARE, listed, page, picture, region
from zoo import images
from zoo.ocr import label_convert
from zoo.ocr.label_convert import convert_lines, convert_pages
from zoo.ocr.labels import PageLabels, open_lines, open_pages

texts = st.one_of(st.sampled_from(["###", "*"]), st.text(st.characters(codec="utf-8"), max_size=12))
coordinates = st.one_of(st.integers(0, 100), st.floats(0, 100, width=32))
points = st.lists(st.tuples(coordinates, coordinates), min_size=3, max_size=7)
quads = st.lists(st.tuples(coordinates, coordinates), min_size=4, max_size=4)
# ICDAR's text has a region on each line, which is read without the carriage return that may end it.
one_line = texts.filter(lambda text: "\n" not in text and not text.endswith("\r"))


def regions(polygon, text):
    return st.lists(st.builds(lambda p, t: region(t, [list(xy) for xy in p]), polygon, text), max_size=4)


def _same(labels: PageLabels, pages: list[list[dict]]) -> None:
    assert len(labels) == len(pages)
    for index, expected in enumerate(pages):
        found = labels.regions(index).regions
        assert [one.text for one in found] == [one["transcription"] for one in expected]
        assert [one.ignored for one in found] == [one["transcription"] in ("###", "*") for one in expected]
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.polygon_xy, np.array(wanted["points"], np.float32), rtol=1e-6, atol=1e-5)


def _round_trip(pages: list[list[dict]], to: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lines = []
        for number, page_regions in enumerate(pages):
            picture(folder / "pictures" / f"p{number}.png")
            lines.append(page(f"pictures/p{number}.png", *page_regions))
        labels = open_pages(listed(folder / "Label.txt", *lines), root=folder, format="paddle")
        out = folder / "out" / name
        done = convert_pages(labels, out, to)
        assert (done.count, done.skipped) == (len(pages), ())
        root = folder / "pictures" if to == "icdar" else None
        again = open_pages(out, format=to, root=root)
        _same(again, pages)
        assert [again.size(i) for i in range(len(again))] == [(100, 60)] * len(pages)


@settings(max_examples=25, deadline=None)
@given(st.lists(regions(points, texts), min_size=1, max_size=3), st.sampled_from(["paddle", "label-studio", "coco"]))
def test_pages_come_back(pages: list[list[dict]], to: str) -> None:
    _round_trip(pages, to, "labels.txt" if to == "paddle" else "labels.json")


@settings(max_examples=15, deadline=None)
@given(st.lists(regions(quads, one_line), min_size=1, max_size=3))
def test_icdar_comes_back(pages: list[list[dict]]) -> None:
    _round_trip(pages, "icdar", "gt")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(texts.filter(lambda text: not set("\t\n\0") & set(text) and not text.endswith("\r")), max_size=4),
    st.sampled_from([("paddle", "x.txt"), ("tsv", "x.tsv"), ("zip", "x.zip"), ("lmdb", "x")]),
)
def test_lines_come_back(said: list[str], target: tuple[str, str]) -> None:
    to, name = target
    if to == "lmdb":
        pytest.importorskip("lmdb")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number in range(len(said)):
            picture(folder / f"{number}.png", grey=40 * number)
        labels = open_lines(listed(folder / "l.txt", *(f"{i}.png\t{text}" for i, text in enumerate(said))), root=folder)
        done = convert_lines(labels, folder / "out" / name, to)
        assert (done.count, done.skipped) == (len(said), ())
        again = open_lines(folder / "out" / name, format="auto" if to != "tsv" else "tsv")
        assert [again.label(i) for i in range(len(again))] == said
        for number, text in enumerate(said):
            if text:
                assert again[number].image[0, 0, 0] == 40 * number


def test_what_ppocrlabel_keeps_stays(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    more = {**region("x"), "difficult": True, "key_cls": "total"}
    labels = open_pages(listed(tmp_path / "Label.txt", page("a.png", more, region("y"))))
    convert_pages(labels, tmp_path / "new.txt", "paddle")
    path, text = (tmp_path / "new.txt").read_text("utf-8").rstrip("\n").split("\t")
    assert path == "a.png"
    assert json.loads(text) == [more, {**region("y"), "difficult": False}]


def test_paths_are_from_the_new_file(tmp_path: Path) -> None:
    picture(tmp_path / "set" / "a.png")
    labels = open_lines(listed(tmp_path / "set" / "l.txt", "a.png\tx"))
    convert_lines(labels, tmp_path / "other" / "deep" / "l.txt", "paddle")
    assert (tmp_path / "other" / "deep" / "l.txt").read_text() == "../../set/a.png\tx\n"


def test_what_a_format_cannot_hold_is_named(tmp_path: Path) -> None:
    for name in ("a.png", "b/a.jpg", "c.png", "d.png"):
        picture(tmp_path / name)
    lines = [
        page("a.png", region("fine")),
        page("b/a.jpg", region("the same stem")),
        page("c.png", region("triangle", SQUARE[:3])),
        page("d.png", region("two\nlines")),
        "e.png\tno JSON",
    ]
    labels = open_pages(listed(tmp_path / "Label.txt", *lines))
    done = convert_pages(labels, tmp_path / "gt", "icdar")
    assert done.count == 1
    assert [message.split(": ")[0].rpartition(":")[2] for message in done.skipped] == ["2", "3", "4", "5"]
    assert [file.name for file in (tmp_path / "gt").iterdir()] == ["gt_a.txt"]
    with pytest.raises(ValueError, match="pages are written as paddle"):
        convert_pages(labels, tmp_path / "x", "lmdb")
    with pytest.raises(ValueError, match="lines are written as paddle"):
        convert_lines(open_lines(listed(tmp_path / "none.txt")), tmp_path / "x", "coco")


def test_lines_of_missing_pictures_are_left_out_of_archives(tmp_path: Path) -> None:
    picture(tmp_path / "b.png")
    labels = open_lines(listed(tmp_path / "l.txt", "a.png\tone", "b.png\ttwo"))
    done = convert_lines(labels, tmp_path / "x.zip", "zip")
    assert done.count == 1 and "l.txt:1: " in done.skipped[0]
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert archive.namelist() == ["00000000.png", "labels.tsv"]
    assert open_lines(tmp_path / "x.zip")[0].text == "two"


def test_a_base_grows_and_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lmdb")
    monkeypatch.setattr(label_convert, "FIRST_SIZE", 1 << 16)
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    (tmp_path / "a.png").write_bytes(images.encode(noise, ".png"))
    labels = open_lines(listed(tmp_path / "l.txt", *(f"a.png\t{i}" for i in range(5))))
    convert_lines(labels, tmp_path / "base", "lmdb")
    again = open_lines(tmp_path / "base")
    assert [again.label(i) for i in range(5)] == list("01234")
    np.testing.assert_array_equal(again[4].image, noise)
    with pytest.raises(ValueError, match="holds an LMDB already"):
        convert_lines(labels, tmp_path / "base", "lmdb")


def test_labels_are_not_written_over_themselves_nor_a_folder(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    source = listed(tmp_path / "labels.txt", page("a.png", region("a")))
    before = source.read_bytes()
    (tmp_path / "folder").mkdir()
    for out, to, words in [
        (source, "paddle", "is what is converted"),
        (tmp_path / "folder", "coco", "is a folder"),
        (source, "icdar", "is a file"),
    ]:
        with pytest.raises(ValueError, match=words):
            convert_pages(open_pages(source), out, to)
    assert source.read_bytes() == before


def test_what_fails_in_the_middle_leaves_no_part(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), label_convert.written(tmp_path / "new.txt") as file:
        file.write("half")
        raise OSError("full")
    assert not list(tmp_path.iterdir())
