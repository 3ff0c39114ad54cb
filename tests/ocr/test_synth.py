"""Made lines, and folders of lines and pages: the same on any number of processes, resumed, and with true labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.ocr.fonts_here import chinese_font
from zoo import images
from zoo.ocr import synth
from zoo.ocr.postprocess import is_spaced
from zoo.ocr.synth import Made, SynthSettings, synth_line, synth_page, write

CLEAN = SynthSettings(lang="en", degrade=0, page_side=(320, 400), layouts=("labels", "column", "rotated"))
# Plain prose of our own, so that the official reader is asked for no rare character.
CHINESE_PROSE = """今天的天气很好，我们一起去公园走一走。
请在下周五以前把文件交给办公室的工作人员。
这家商店每天早上九点开门，晚上八点关门。
学生们正在图书馆里看书，老师在旁边回答问题。
从北京到上海的高速火车大约需要五个小时。
"""


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("height", [8, 33, 48])
def test_a_line_has_the_height_asked_for(height: int) -> None:
    for index in range(20):
        sample = synth_line(index, replace(CLEAN, height=height))
        assert sample.image.shape[0] == height and sample.image.shape[2] == 3 and sample.image.dtype == np.uint8
        assert sample.text == sample.text.strip() != "" and f"line {index}" in sample.name


def test_the_text_of_a_line_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a white ground no ink touches the edge of the picture."""
    monkeypatch.setattr(synth, "ground", lambda height, width, *_: np.full((height, width, 3), 255, np.uint8))
    for index in range(40):
        image = synth_line(index, replace(CLEAN, warp=1.0)).image
        edge = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
        assert image.min() < 170 and edge.min() > 200, index


def test_equal_settings_give_equal_lines() -> None:
    one, again, other = (synth_line(i, CLEAN) for i in (7, 7, 8))
    assert one.text == again.text and np.array_equal(one.image, again.image)
    assert (other.text, other.image.shape) != (one.text, one.image.shape)


def test_two_workers_give_the_bytes_of_one(tmp_path: Path) -> None:
    counts = {"lines": synth.SHARD["lines"] + 3, "pages": synth.SHARD["pages"] + 1}
    for workers in (1, 2):
        assert write(tmp_path / str(workers), CLEAN, **counts, workers=workers) == Made(*counts.values(), 0)
    one, two = files(tmp_path / "1"), files(tmp_path / "2")
    assert list(one) == list(two) and one == two


def test_the_label_files_name_every_picture(tmp_path: Path) -> None:
    write(tmp_path, CLEAN, lines=3, pages=2)
    rows = [row.split("\t") for row in (tmp_path / "rec_gt.txt").read_text(encoding="utf-8").splitlines()]
    assert [text for _, text in rows] == [synth_line(i, CLEAN).text for i in range(3)]
    assert all(images.decode(tmp_path / path).shape[0] == 48 for path, _ in rows)
    for name, part in (("Label.txt", "lines"), ("Words.txt", "words")):
        pages = [row.split("\t") for row in (tmp_path / name).read_text(encoding="utf-8").splitlines()]
        assert len(pages) == 2
        for index, (path, regions) in enumerate(pages):
            wanted = getattr(synth_page(index, CLEAN), part)
            assert images.decode(tmp_path / path).shape == wanted.image.shape
            found = json.loads(regions)
            assert [region["transcription"] for region in found] == list(wanted.texts)
            points = np.array([region["points"] for region in found])
            assert np.abs(points - np.stack(wanted.polygons_xy)).max() <= 0.051


def test_an_ignored_region_is_written_as_such() -> None:
    page = synth_page(0, CLEAN).lines
    marked = replace(page, ignored=np.arange(len(page.texts)) == 0)
    texts = [region["transcription"] for region in json.loads(synth.regions_json(marked))]
    assert texts == ["###", *page.texts[1:]]


def test_what_is_finished_is_kept(tmp_path: Path) -> None:
    size = synth.SHARD["lines"]
    write(tmp_path / "whole", CLEAN, lines=size + 2, pages=0)
    write(tmp_path / "grown", CLEAN, lines=size, pages=0)
    before = (tmp_path / "grown" / "lines" / "00000").stat().st_ino
    (tmp_path / "grown" / "lines" / "00001.part").mkdir()  # as a run that was stopped leaves it
    assert write(tmp_path / "grown", CLEAN, lines=size + 2, pages=0) == Made(size + 2, 0, size)
    assert (tmp_path / "grown" / "lines" / "00000").stat().st_ino == before
    assert files(tmp_path / "grown") == files(tmp_path / "whole")


def test_a_folder_of_other_settings_is_refused(tmp_path: Path) -> None:
    write(tmp_path, CLEAN, lines=1, pages=0)
    with pytest.raises(ValueError, match=r"other settings.*seed: 0 then, 1 now"):
        write(tmp_path, replace(CLEAN, seed=1), lines=1, pages=0)


def test_a_folder_of_other_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Label.txt").write_text("mine.jpg\t[]\n")
    with pytest.raises(ValueError, match="not synthetic"):
        write(tmp_path, CLEAN, lines=1, pages=0)
    assert (tmp_path / "Label.txt").read_text() == "mine.jpg\t[]\n"


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ValueError, match="out: cannot be written"):
        write(tmp_path / "out", CLEAN, lines=1, pages=0)


@pytest.mark.parametrize("counts", [(0, 0, 1), (-1, 5, 1), (1, 0, 0)])
def test_counts_that_make_nothing(tmp_path: Path, counts: tuple[int, int, int]) -> None:
    lines, pages, workers = counts
    with pytest.raises(ValueError, match="give"):
        write(tmp_path / "out", CLEAN, lines=lines, pages=pages, workers=workers)
    assert not (tmp_path / "out").exists()


def test_a_bad_font_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"font .*none\.ttf"):
        write(tmp_path / "out", replace(CLEAN, fonts=(str(tmp_path / "none.ttf"),)), lines=1, pages=0)
    assert not (tmp_path / "out").exists()


# --- the official reader: are the labels true? -------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader(official):
    from zoo import ocr

    entry = ocr.READERS["ppocrv4_mobile"]
    official(entry.det, entry.rec, entry.cls)
    return ocr.load("ppocrv4_mobile", threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "ch"])
def test_the_official_reader_reads_clean_lines(lang: str, reader, tmp_path: Path) -> None:
    settings = replace(CLEAN, lang=lang)
    if lang == "ch":
        (tmp_path / "prose.txt").write_text(CHINESE_PROSE, encoding="utf-8")
        settings = replace(settings, corpus=tmp_path / "prose.txt", rules=0, fonts=(chinese_font(),))
    samples = [synth_line(index, settings) for index in range(100)]
    read = reader.recogniser([sample.image for sample in samples])
    right = [one.text.text.strip() == sample.text for one, sample in zip(read, samples, strict=True)]
    assert np.mean(right) >= 0.9, [
        (s.text, r.text.text) for s, r, ok in zip(samples, read, right, strict=True) if not ok
    ]


@pytest.mark.slow
def test_the_official_detector_finds_the_lines_where_they_are_labelled(reader) -> None:
    from shapely.geometry import Polygon

    settings = replace(CLEAN, page_side=(640, 900), layouts=("column", "receipt", "labels"), warp=0.5)
    found, total = 0, 0
    for index in range(8):
        page = synth_page(index, settings).lines
        seen = [Polygon(line.polygon_xy) for line in reader(page.image).lines]
        for polygon, text in zip(page.polygons_xy, page.texts, strict=True):
            if sum(is_spaced(c) for c in text) < 3:
                continue
            made = Polygon(polygon)
            total += 1
            found += any(made.intersection(s).area / made.union(s).area >= 0.5 for s in seen)
    assert total > 50 and found / total >= 0.9, (found, total)
