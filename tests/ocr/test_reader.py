"""The reader with the official weights on real pictures."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from zoo import ocr
from zoo.ocr.models import LANGUAGES, READERS, reader_name

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "docs" / "images" / "sample.jpg"


def names(reader: str) -> tuple[str, ...]:
    entry = READERS[reader]
    return entry.det, entry.rec, entry.cls


@pytest.fixture(scope="module")
def reader(official) -> ocr.Reader:
    official(*names("ppocrv4_mobile"))
    return ocr.load("ppocrv4_mobile", threads=2)


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_sample_of_the_readme(reader: ocr.Reader) -> None:
    """The sample was drawn by tools/make_sample.py, whose LINES are the truth."""
    page = reader(SAMPLE)
    text = squeezed(page.text)
    for line in ("春江花月夜", "春江潮水连海平，海上明月共潮生。", "滟滟随波千万里，何处春江无月明！"):
        assert line in text
    assert "Spring River, Flowers, Moon, Night" in page.text
    assert "In spring the river rises as high as the sea," in page.text
    assert "1,288.50" in page.text


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_the_english_line(official, name: str) -> None:
    official(*names(name))
    text = ocr.load(name, threads=2)(SAMPLE).text
    # The Japanese model was not trained on English and takes an "as" for a Turkish one.
    assert ("the river rises" if "japan" in name else "spring the river rises as high as the sea") in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_reader(language: str) -> None:
    assert READERS[reader_name(None, language)].language == language


# What the published ch v4 model can spell; the other fixtures are of scripts that are not in its charset.
READABLE = {
    "text_rec.jpg", "text_cls.jpg", "ch_en_num.jpg", "img_exif_orientation.jpg", "en_rec.jpg", "issue_170.png",
    "black_font_color_transparent.png", "white_font_color_transparent.png", "two_dim_image.npy",
    "test_without_det.jpg", "empty_black.jpg",
}  # fmt: skip


def test_fixtures_with_expected_text(reader: ocr.Reader, data: Path) -> None:
    folder = data / "ocr_rapidocr_fixtures"
    with (folder / "expected.tsv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["file"] in READABLE]
    assert len(rows) == len(READABLE)
    wrong = []
    for row in rows:
        text = reader(folder / "images" / row["file"]).text
        found = squeezed(row["expected"]) in squeezed(text) if row["expected"] else text == ""
        if not found:
            wrong.append((row["file"], row["expected"], text))
    assert not wrong


def test_english_spaces_survive(reader: ocr.Reader, data: Path) -> None:
    text = reader(data / "ocr_rapidocr_fixtures" / "images" / "en_rec.jpg").text
    assert text == "To facilitate the shot type analysis in videos, we collect MovieShots, a large-scale"


@pytest.mark.parametrize("turn", [None, cv2.ROTATE_90_CLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_COUNTERCLOCKWISE])
def test_a_turned_page_is_read_in_its_own_order(reader: ocr.Reader, turn: int | None) -> None:
    image = cv2.imread(str(SAMPLE))
    page = reader(image if turn is None else cv2.rotate(image, turn))
    lines = [squeezed(line.text).split("，何处")[0] for line in page.lines]
    wanted = ["春江花月夜", "春江潮水连海平，海上明月共潮生。", "滟滟随波千万里"]
    assert [line for line in lines if line in wanted] == wanted


def test_one_reader_many_threads_same_pages(reader: ocr.Reader) -> None:
    image = cv2.imread(str(SAMPLE))
    images = [image, image[:, :700], image[:400], cv2.resize(image, None, fx=0.7, fy=0.7)]
    expected = [reader(one).to_json() for one in images]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: reader(one).to_json(), images * 3))
    assert found == expected * 3


def test_a_line_reads_the_same_in_any_company(reader: ocr.Reader) -> None:
    from zoo.ocr.pipeline import cut

    image = cv2.imread(str(SAMPLE))
    crops = [cut(image, quad).image for quad in reader.detector(image).quads_xy]
    together = reader.recogniser(crops)
    alone = [reader.recogniser([crop])[0] for crop in crops]
    assert len(crops) >= 7
    for one, line in zip(alone, together, strict=True):
        assert one.text.text == line.text.text and one.text.score == line.text.score


def test_onnxruntime_reads_what_openvino_reads(official, reader: ocr.Reader) -> None:
    official(*names("ppocrv4_mobile"))
    other = ocr.load("ppocrv4_mobile", threads=2, engine="onnxruntime")
    assert other(SAMPLE).text == reader(SAMPLE).text


def test_a_very_long_line_is_not_lost(reader: ocr.Reader) -> None:
    """An English line of the sample again and again: a strip of ratio 90."""
    image = cv2.imread(str(SAMPLE))
    line = image[440:480, 120:720]
    strip = np.concatenate([line] * 6, axis=1)
    text = squeezed(reader(strip).text)
    expected = "Inspringtheriverrisesashighasthesea," * 6
    assert Levenshtein.normalized_similarity(text, expected) > 0.98, text


def pictures(data: Path) -> Iterator[Path]:
    yield from sorted((data / "ocr_rapidocr_fixtures" / "images").iterdir())
    yield from sorted((data / "ocr_icdar2015" / "test_images").iterdir())[:50]
    yield from sorted((data / "ocr_zh_screens" / "images").iterdir())[:50]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["ppocrv3_mobile", "ppocrv4_mobile", "ppocrv5_mobile"])
def test_native_networks_read_the_same_text(official, data: Path, name: str) -> None:
    """On every fixture and 100 other pictures; a line may be told apart by rounding only where boxes tie."""
    official(*names(name))
    graph = ocr.load(name, threads=2)
    native = ocr.load(name, threads=2, engine="torch")
    count = 0
    for path in pictures(data):
        for expected, found in zip(graph.pages(path), native.pages(path), strict=True):
            assert [line.text for line in found.lines] == [line.text for line in expected.lines], path
            count += 1
    assert count >= 130


def resident() -> int:
    """Resident memory of this process in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(row.split()[1] for row in status.splitlines() if row.startswith("VmRSS:"))) // 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_does_not_grow_over_500_pages(reader: ocr.Reader) -> None:
    """Pages of ever new sizes: the worst case for an engine that keeps something for each size."""
    image = cv2.imread(str(SAMPLE))
    sizes = np.random.default_rng(0).uniform(0.4, 0.9, 500)

    def read(some: np.ndarray) -> int:
        for size in some:
            reader(cv2.resize(image, None, fx=float(size), fy=float(size)))
        return resident()

    before = read(sizes[:150])
    assert read(sizes[150:]) < before + 100
