"""Labelling a folder: PPOCRLabel's files, what a second run leaves alone, and what was cut out. No weights."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.ocr.fakes import bar, picture, reader
from tests.ocr.label_sets import page, region
from zoo.ocr.labels import open_lines, open_pages
from zoo.ocr.prelabel import crops, prelabel


def photo(file: Path, *texts: str) -> Path:
    bars = {(40 + 90 * i, 30): bar(text) for i, text in enumerate(texts)}
    cv2.imwrite(str(file), picture(300, 400, bars))
    return file


def read(file: Path) -> dict[str, list[dict]]:
    """As PPOCRLabel reads a label file: each line is split at its tab."""
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    return {name: json.loads(text) for name, text in rows}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "scans"
    made.mkdir()
    photo(made / "one.png", "rgb", "gb")
    photo(made / "two.png", "gr")
    photo(made / "blank.png")
    return made


def test_a_folder_is_labelled(folder: Path) -> None:
    done = prelabel(folder, reader())
    assert (done.new, done.before, done.skipped) == (3, 0, ())
    labels = read(folder / "Label.txt")
    assert {name: [one["transcription"] for one in regions] for name, regions in labels.items()} == {
        "scans/one.png": ["rgb", "gb"],
        "scans/two.png": ["gr"],
        "scans/blank.png": [],
    }
    points = np.array(labels["scans/two.png"][0]["points"])
    assert all(isinstance(value, int) for one in labels["scans/two.png"] for xy in one["points"] for value in xy)
    # The bar lies at 30..150 x 40..80; what is found is a little larger all round.
    assert np.abs(points - [[30, 40], [150, 40], [150, 80], [30, 80]]).max() < 25
    assert labels["scans/two.png"][0]["difficult"] is False
    # PPOCRLabel keeps the labels of pictures that nobody has confirmed in Cache.cach alone.
    assert read(folder / "Cache.cach") == labels
    assert (folder / "fileState.txt").read_text() == ""
    opened = open_pages(folder)
    assert [opened[i].texts for i in range(3)].count(()) == 1


def test_confirmed_pictures_are_listed(folder: Path) -> None:
    prelabel(folder, reader(), confirmed=True)
    rows = [line.split("\t") for line in (folder / "fileState.txt").read_text().splitlines()]
    assert {Path(path).name for path, _ in rows} == {"one.png", "two.png", "blank.png"}
    assert all(Path(path).is_absolute() and state == "1" for path, state in rows)


def test_labels_that_are_there_stay(folder: Path) -> None:
    mine = page("scans/one.png", region("by hand")) + "\n"
    (folder / "Label.txt").write_text(mine, encoding="utf-8")
    (folder / "Cache.cach").write_text(page("scans/blank.png") + "\n", encoding="utf-8")
    done = prelabel(folder, reader())
    assert (done.new, done.before) == (1, 2)
    assert (folder / "Label.txt").read_text("utf-8").startswith(mine)
    assert set(read(folder / "Label.txt")) == {"scans/one.png", "scans/two.png"}
    before = (folder / "Label.txt").read_bytes()
    assert prelabel(folder, reader()).new == 0
    assert (folder / "Label.txt").read_bytes() == before


@pytest.mark.parametrize("lost", [1, 5, 30])
def test_a_run_that_was_killed_goes_on(folder: Path, lost: int) -> None:
    prelabel(folder, reader())
    whole = read(folder / "Label.txt")
    for name in ("Label.txt", "Cache.cach"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-lost])
    prelabel(folder, reader())
    assert read(folder / "Label.txt") == whole and len((folder / "Label.txt").read_text("utf-8").splitlines()) == 3


def test_what_cannot_be_labelled_is_named(folder: Path) -> None:
    (folder / "broken.jpg").write_bytes(b"no picture")
    (folder / "paper.pdf").write_bytes(b"%PDF-1.4")
    (folder / "notes.txt").write_text("not a picture at all")
    done = prelabel(folder, reader())
    assert done.new == 3
    assert [Path(message.split(": ")[0]).name for message in done.skipped] == ["broken.jpg", "paper.pdf"]
    assert prelabel(folder, reader()).skipped == done.skipped


def test_a_broken_label_file_is_left_alone(folder: Path) -> None:
    (folder / "Label.txt").write_text("scans/one.png\t[{\n" + page("scans/two.png") + "\n")
    with pytest.raises(ValueError, match=r"Label.txt:1: is no line"):
        prelabel(folder, reader())
    with pytest.raises(ValueError, match="is no folder"):
        prelabel(folder / "nowhere", reader())


def test_lines_are_cut_out(folder: Path) -> None:
    prelabel(folder, reader())
    corrected = page("scans/blank.png", region("###"), region(" "))
    rows = [line for line in (folder / "Label.txt").read_text("utf-8").splitlines() if "blank" not in line]
    (folder / "Label.txt").write_text("\n".join([*rows, corrected]) + "\n", encoding="utf-8")
    done = crops(folder)
    assert (done.new, done.skipped) == (3, ())
    lines = open_lines(folder / "rec_gt.txt")
    cut = {lines.entry(i).picture: lines[i] for i in range(len(lines))}
    assert {name: sample.text for name, sample in cut.items()} == {
        "crop_img/one_crop_0.jpg": "rgb",
        "crop_img/one_crop_1.jpg": "gb",
        "crop_img/two_crop_0.jpg": "gr",
    }
    for sample in cut.values():
        height, width = sample.image.shape[:2]
        assert width > height
        again = reader()(sample.image)
        assert again.text == sample.text
    assert sorted(file.name for file in (folder / "crop_img").iterdir()) == sorted(Path(name).name for name in cut)


def test_crops_of_pictures_with_one_stem_do_not_meet(folder: Path) -> None:
    photo(folder / "two.bmp", "b")
    prelabel(folder, reader())
    crops(folder)
    lines = open_lines(folder / "rec_gt.txt")
    pictures = [lines.entry(i).picture for i in range(len(lines))]
    assert len(pictures) == len(set(pictures)) == 4
