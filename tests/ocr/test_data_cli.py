"""`zoo data check ocr`, `zoo data convert ocr`, `zoo ocr label`: exit codes and what is said where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.ocr import fakes
from tests.ocr.label_sets import listed, page, picture, region
from tests.ocr.test_prelabel import photo
from zoo.cli import app
from zoo.ocr import cli as ocr_cli


def zoo(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def good(tmp_path: Path) -> Path:
    picture(tmp_path / "a.png")
    return listed(tmp_path / "good.txt", "a.png\tab")


def test_good_labels_are_exit_code_0(good: Path) -> None:
    done = zoo("data", "check", "ocr", good)
    assert done.exit_code == 0
    assert "1 lines (paddle)" in done.stdout


def test_bad_labels_are_exit_code_1(tmp_path: Path) -> None:
    file = listed(tmp_path / "bad.txt", *(f"gone{i}.png\tx" for i in range(30)))
    done = zoo("data", "check", "ocr", file, "--json", tmp_path / "r.json")
    assert done.exit_code == 1
    assert f"{file}:20: missing picture" in done.stdout and f"{file}:21:" not in done.stdout
    assert "10 more" in done.stdout
    assert len(json.loads((tmp_path / "r.json").read_text())["lists"][0]["findings"]) == 30
    assert f"{file}:30: missing picture" in zoo("data", "check", "ocr", file, "--all").stdout


def test_the_charset_of_a_file(good: Path, tmp_path: Path) -> None:
    dictionary = listed(tmp_path / "dict.txt", "a", "c")
    done = zoo("data", "check", "ocr", good, "--charset", dictionary)
    assert done.exit_code == 1
    assert "outside the charset: 'b'" in done.stdout and "U+0062" in done.stdout


def test_the_charset_of_a_model(good: Path, official, tmp_path: Path) -> None:
    official("ppocrv4_mobile_rec")
    assert zoo("data", "check", "ocr", good, "--model", "ppocrv4_mobile").exit_code == 0
    odd = listed(tmp_path / "odd.txt", "a.png\ta\U00012345b c")  # a cuneiform sign; the space is in
    done = zoo("data", "check", "ocr", odd, "--model", "ppocrv4_mobile")
    assert done.exit_code == 1 and "U+12345" in done.stdout and "U+0020" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "check", "ocr", "nowhere.txt"], "nowhere.txt"),
        (["data", "check", "ocr", "{good}", "--format", "docx"], "docx"),
        (["data", "check", "ocr", "{good}", "--max-length", "0"], "max-length"),
        (["data", "check", "ocr", "{good}", "--charset", "nowhere"], "no such dictionary"),
        (["data", "check", "ocr", "{good}", "--model", "ppocr9"], "ppocr9"),
        (["data", "check", "ocr", "{good}", "--model", "x", "--charset", "y"], "one of them"),
        (["data", "check", "ocr", "{good}", "--out", "{good}"], "is checked"),
        (["data", "convert", "ocr", "{good}", "x", "--to", "coco"], "lines are written as"),
        (["data", "convert", "ocr", "{good}", "x", "--to", "docx"], "docx"),
        (["data", "convert", "ocr", "{good}", "x"], "--to"),
        (["ocr", "label", "nowhere"], "is no folder"),
        (["ocr", "label"], "Missing argument"),
        (["ocr"], "Missing argument"),
    ],
)
def test_usage_is_exit_code_2(good: Path, arguments: list[str], message: str) -> None:
    done = zoo(*(argument.format(good=good) for argument in arguments))
    assert done.exit_code == 2
    assert message in done.stderr and done.stdout == ""


def test_convert(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    file = listed(tmp_path / "Label.txt", page("a.png", region("x")), "b.png\tno JSON")
    done = zoo("data", "convert", "ocr", file, tmp_path / "gt", "--to", "icdar")
    assert done.exit_code == 1
    assert "1 of 2 labels" in done.stderr and f"{file}:2:" in done.stderr
    assert (tmp_path / "gt" / "gt_a.txt").read_text() == "10,10,50,10,50,30,10,30,x\n"


def test_kinds_can_be_named(good: Path, tmp_path: Path) -> None:
    done = zoo("data", "convert", "ocr", good, tmp_path / "out.tsv", "--to", "tsv", "--kind", "lines")
    assert done.exit_code == 0
    assert (tmp_path / "out.tsv").read_text() == "file\ttext\na.png\tab\n"


def test_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr_cli, "_reader", lambda recipe: fakes.reader())
    folder = tmp_path / "scans"
    folder.mkdir()
    photo(folder / "one.png", "rgb")
    done = zoo("ocr", "label", folder, "--crops")
    assert done.exit_code == 0, done.stderr
    assert "1 labelled" in done.stderr
    assert (folder / "rec_gt.txt").read_text() == "crop_img/one_crop_0.jpg\trgb\n"
    (folder / "two.png").write_bytes(b"no picture")
    done = zoo("ocr", "label", folder)
    assert done.exit_code == 1
    assert "0 labelled, 1 had labels before" in done.stderr and "two.png" in done.stderr


def test_pictures_are_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr_cli, "_reader", lambda recipe: fakes.reader())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "label").mkdir()
    for place in ("one.png", "label/one.png"):
        photo(tmp_path / place, "rgb")
    for arguments in (["one.png"], ["read", "one.png"], ["--format", "text", "one.png"], ["./label"]):
        done = zoo("ocr", *arguments)
        assert (done.exit_code, done.stdout) == (0, "rgb\n"), arguments
    assert "label DIR" in " ".join(zoo("ocr", "--help").stdout.split())
