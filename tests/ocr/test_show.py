"""The contact sheet of labels."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from tests.ocr import small_sets
from zoo.cli import app
from zoo.ocr import show
from zoo.ocr.augment_line import LineAugment
from zoo.ocr.augment_page import PageAugment
from zoo.ocr.degrade import CHANCES
from zoo.ocr.labels import open_lines, open_pages

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["data", "show", "ocr", *arguments])
    return result.exit_code, result.output


def read(path: Path) -> np.ndarray:
    image = cv2.imread(str(path))
    assert image is not None
    return image


def test_lines_as_they_are(tmp_path: Path) -> None:
    labels, out = small_sets.lines(tmp_path), tmp_path / "a.png"
    assert run(str(labels), "--out", str(out)) == (0, f"{out}: 8 of 8 labels\n")
    # Eight black words on white stand in two rows of four on grey, each in a cell of the widest word.
    assert ((read(out) == 255).all(axis=-1)).sum() > 8 * 40 * 40


def test_pages_with_the_changes_of_a_recipe(tmp_path: Path) -> None:
    labels = str(small_sets.pages(tmp_path))
    plain, changed = tmp_path / "plain.png", tmp_path / "changed.png"
    recipe = ("-c", str(ROOT / "configs/ocr/ppocrv3.yml"), "-o", "det.augment.crop=[64,64]")
    assert run(labels, "--out", str(plain), "--count", "1")[0] == 0
    assert run(labels, "--out", str(changed), "--count", "1", *recipe)[0] == 0
    assert read(plain).shape[0] - read(changed).shape[0] == 160 - 64


def test_every_change_of_lines_is_seen_alone(tmp_path: Path) -> None:
    """What the settings can do is what is shown: a new one without a row here fails."""
    shares = [name for name, field in LineAugment.__dataclass_fields__.items() if field.type == "float"]
    shares = [name for name in shares if not re.search("strength|sigma", name)]
    assert list(show.line_steps(LineAugment())) == [show.AS_IT_IS, *shares, *CHANCES]
    labels, out = small_sets.lines(tmp_path), tmp_path / "a.png"
    assert run(str(labels), "--out", str(out), "--each", "--count", "2") == (0, f"{out}: 2 of 8 labels\n")
    rows = 1 + len(shares) + len(CHANCES)
    assert read(out).shape[0] == rows * (48 + 14 + 12) + 6


def test_every_change_of_pages_changes_the_page(tmp_path: Path) -> None:
    labels = open_pages(small_sets.pages(tmp_path))
    for name, settings in show.page_steps(PageAugment(crop=(96, 96))).items():
        if settings is None:
            assert name == show.AS_IT_IS
            continue
        made = show._changed_page(labels[0], [labels[1]], settings, np.random.default_rng(1))
        size = (96, 96) if name == "crop" else (160, 160)
        assert made.image.shape[:2] == size, name
        assert made.image.shape != labels[0].image.shape or (made.image != labels[0].image).any(), name


def test_a_page_is_whole_in_every_step_but_the_crop(tmp_path: Path) -> None:
    labels = open_pages(small_sets.pages(tmp_path))
    settings = show.page_steps(PageAugment())["fliplr"]
    assert settings is not None
    made = show._changed_page(labels[0], [labels[1]], settings, np.random.default_rng(0))
    assert np.array_equal(made.image, labels[0].image[:, ::-1])


def test_what_is_picked() -> None:
    assert show.pick(0, 4, 0) == [] and show.pick(3, 4, 0) == [0, 1, 2]
    assert show.pick(1000, 4, 0) != show.pick(1000, 4, 1)
    assert len(set(show.pick(1000, 400, 0))) == 400


def test_a_bad_label_is_left_out_and_named(tmp_path: Path) -> None:
    labels, out = small_sets.lines(tmp_path), tmp_path / "a.png"
    (tmp_path / "line3.png").unlink()
    code, output = run(str(labels), "--out", str(out))
    assert code == 1 and f"{out}: 7 of 8 labels" in output and "lines.txt:4" in output and out.exists()


def test_none_to_show_is_an_error(tmp_path: Path) -> None:
    labels = small_sets.lines(tmp_path)
    for picture in tmp_path.glob("*.png"):
        picture.unlink()
    code, output = run(str(labels), "--out", str(tmp_path / "a.jpg"))
    assert code == 2 and "none of 8" in output and not (tmp_path / "a.jpg").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--out", "labels.txt"), "give a picture"),
        (("--augment", "--each"), "one of them"),
        (("-o", "rec.augment.tia=0"), "without --augment"),
        (("--augment", "-o", "rec.augment.tila=0"), "tia"),
        (("-c", str(ROOT / "configs/ocr/ppocrv3.yml"), "-o", "rec=null", "-o", "cls=null"), "neither rec nor cls"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    labels = str(small_sets.lines(tmp_path))
    code, output = run(labels, *options, *(() if "--out" in options else ("--out", str(tmp_path / "a.jpg"))))
    assert code == 2 and words in output and output.count("\n") == 1, output


def test_the_same_seed_gives_the_same_sheet(tmp_path: Path) -> None:
    labels = open_lines(small_sets.lines(tmp_path))
    steps = show.line_steps(LineAugment())
    first, again, other = (show.show_lines(labels, [0, 1], steps, columns=4, seed=seed).image for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
