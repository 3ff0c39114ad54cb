"""The benchmark's scores against hand calculations, its data, its worker processes and its page."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import ocr_data  # noqa: E402
import ocr_peers  # noqa: E402
import ocr_processes  # noqa: E402
import ocr_scores  # noqa: E402
import ocr_systems  # noqa: E402
import ocr_table  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the labelled sets are not at ../shared/data")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers read /proc and set affinity")


def box(x: float, y: float, width: float, height: float) -> np.ndarray:
    return np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]], dtype=np.float64)


def label(text: str, polygon: np.ndarray) -> ocr_data.LabelledLine:
    return ocr_data.LabelledLine(polygon_xy=polygon, text=text, ignored=text == "###")


def find(text: str, polygon: np.ndarray) -> ocr_scores.FoundLine:
    return ocr_scores.FoundLine(polygon_xy=polygon, text=text)


# Scores.


def test_scores_of_nothing_are_zero() -> None:
    expected = ocr_scores.Scores(detection_hmean=0.0, end_to_end_hmean=0.0, character_error_rate=0.0)
    assert ocr_scores.score([]) == expected
    assert ocr_scores.score([([], [])]) == expected


def test_detection_needs_more_than_half_of_the_union() -> None:
    labels = [label("a", box(0, 0, 10, 10))]
    # The find lies inside the label, so intersection over union is its share of the label: 5/10 and 6/10.
    assert ocr_scores.count_detection(labels, [find("a", box(0, 0, 10, 5))]).hits == 0
    assert ocr_scores.count_detection(labels, [find("a", box(0, 0, 10, 6))]).hits == 1


def test_detection_pairs_are_one_to_one() -> None:
    labels = [label("a", box(0, 0, 10, 10))]
    finds = [find("a", box(0, 0, 10, 9)), find("a", box(0, 1, 10, 9))]
    assert ocr_scores.count_detection(labels, finds) == ocr_scores.Counts(hits=1, truth=1, found=2)


def test_detection_of_the_reference_example() -> None:
    # PaddleOCR ppocr/metrics/eval_det_iou.py, __main__: two labels, one find on the first.
    labels = [label("1234", box(0, 0, 1, 1)), label("5678", box(2, 2, 1, 1))]
    counts = ocr_scores.count_detection(labels, [find("123", np.array([[0.1, 0.1], [1, 0], [1, 1], [0, 1]]))])
    assert (counts.precision, counts.recall, counts.hmean) == (1.0, 0.5, pytest.approx(2 / 3))


def test_hmean_of_two_hits_in_four_labels_and_three_finds() -> None:
    # precision 2/3, recall 2/4, harmonic mean 2*(1/3)/(7/6) = 4/7
    assert ocr_scores.Counts(hits=2, truth=4, found=3).hmean == pytest.approx(4 / 7)


def test_a_find_mostly_inside_an_ignored_label_does_not_count() -> None:
    labels = [label("###", box(0, 0, 10, 10)), label("b", box(50, 0, 10, 10))]
    inside, outside = find("x", box(0, 0, 19, 10)), find("x", box(0, 0, 20, 10))  # 10/19 and 10/20 of it are inside
    assert ocr_scores.count_detection(labels, [inside]) == ocr_scores.Counts(hits=0, truth=1, found=0)
    assert ocr_scores.count_detection(labels, [outside]) == ocr_scores.Counts(hits=0, truth=1, found=1)


def test_a_polygon_that_crosses_itself_is_left_out() -> None:
    bow_tie = np.array([[0, 0], [10, 10], [10, 0], [0, 10]], dtype=np.float64)
    assert ocr_scores.count_detection([label("a", bow_tie)], [find("a", bow_tie)]) == ocr_scores.Counts(
        hits=0, truth=0, found=0
    )


@pytest.mark.parametrize(
    ("truth", "found", "hits"),
    [
        ("Total", "TOTAL", 1),
        ("ＲＭ１２：５０", "rm12:50", 1),
        ("a b", "ab", 1),
        ("ab", "abc", 0),
        ("", "a", 0),
    ],
)
def test_end_to_end_wants_the_pair_and_the_same_text(truth: str, found: str, hits: int) -> None:
    here = box(0, 0, 40, 10)
    assert ocr_scores.count_end_to_end([label(truth, here)], [find(found, here)]).hits == hits
    assert ocr_scores.count_end_to_end([label(truth, here)], [find(found, box(30, 0, 40, 10))]).hits == 0


def test_character_errors_of_one_line() -> None:
    here = box(0, 0, 40, 10)
    assert ocr_scores.count_characters([label("kitten", here)], [find("sitting", here)]) == (3, 6)


def test_missed_and_invented_lines_count_all_their_characters() -> None:
    assert ocr_scores.count_characters([label("abcd", box(0, 0, 40, 10))], []) == (4, 4)
    assert ocr_scores.count_characters([], [find("xy", box(0, 0, 40, 10))]) == (2, 0)
    apart = ocr_scores.score([([label("abcd", box(0, 0, 40, 10))], [find("xy", box(100, 0, 40, 10))])])
    assert apart.character_error_rate == pytest.approx((4 + 2) / 4)


def test_words_against_one_line_is_no_error() -> None:
    words = [label("world", box(55, 1, 45, 10)), label("hello", box(0, 0, 50, 10))]
    assert ocr_scores.count_characters(words, [find("Hello  world", box(0, 0, 100, 11))]) == (0, len("hello world"))


def test_a_group_with_an_ignored_label_is_left_out() -> None:
    labels = [label("hello", box(0, 0, 50, 10)), label("###", box(55, 0, 45, 10))]
    assert ocr_scores.count_characters(labels, [find("hello there", box(0, 0, 100, 10))]) == (0, 0)


@pytest.mark.parametrize("degrees", [0, 30, 90, 200])
def test_reading_order_follows_the_lines_own_direction(degrees: int) -> None:
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    places = {"d": box(60, 20, 40, 10), "b": box(60, 2, 40, 10), "c": box(0, 21, 50, 10), "a": box(0, 0, 50, 10)}
    lines = [find(text, polygon @ turn) for text, polygon in places.items()]
    assert ocr_scores.join_in_order(lines) == "a b c d"


def test_text_is_compared_without_width_case_and_extra_space() -> None:
    assert ocr_scores.comparable("  ＡＢ\u3000c\t D ") == "ab c d"


texts = st.text(alphabet="ab1国 ", min_size=1, max_size=8).filter(lambda text: bool(text.strip()))


@given(st.lists(texts, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_perfect_reader_has_perfect_scores_in_any_order(lines: list[str], random: object) -> None:
    labels = [label(text, box(0, 30 * row, 100, 20)) for row, text in enumerate(lines)]
    finds = [find(line.text, line.polygon_xy) for line in labels]
    random.shuffle(finds)  # type: ignore[attr-defined]
    assert ocr_scores.score([(labels, finds)]) == ocr_scores.Scores(
        detection_hmean=1.0, end_to_end_hmean=1.0, character_error_rate=0.0
    )


# Data.


def test_rows_keep_commas_and_accept_byte_order_mark_and_crlf() -> None:
    assert ocr_data.parse_rows("", "empty.txt") == ()
    first, second = ocr_data.parse_rows("\ufeff0,0,9,0,9,5,0,5,27,JALAN, 13,\r\n1,2,3,2,3,4,1,4,###\r\n", "x.txt")
    assert (first.text, first.ignored) == ("27,JALAN, 13,", False)
    assert (second.text, second.ignored) == ("###", True)
    np.testing.assert_array_equal(second.polygon_xy, [[1, 2], [3, 2], [3, 4], [1, 4]])


@pytest.mark.parametrize("row", ["1,2,3", "a,0,9,0,9,5,0,5,text", "0,0,9,0,9,5,0,5"])
def test_a_malformed_row_is_named(row: str) -> None:
    with pytest.raises(ValueError, match=r"gt\.txt, line 2"):
        ocr_data.parse_rows("0,0,9,0,9,5,0,5,fine\n" + row, "gt.txt")


def test_pictures_are_spread_evenly() -> None:
    pictures = [ocr_data.LabelledPicture(path=Path(f"{n}.jpg"), lines=()) for n in range(10)]
    assert [picture.path.stem for picture in ocr_data.spread(pictures, 3)] == ["0", "3", "6"]
    assert ocr_data.spread(pictures, None) == ocr_data.spread(pictures, 99) == pictures
    with pytest.raises(ValueError, match="at least 1"):
        ocr_data.spread(pictures, 0)


def test_unknown_set_and_absent_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="icdar2015"):
        ocr_data.load("icdar", folder=tmp_path)
    with pytest.raises(ValueError, match="--data"):
        ocr_data.load("sroie", folder=tmp_path / "absent")


@needs_data
@pytest.mark.parametrize(("name", "count"), [("icdar2015", 250), ("screens", 130)])  # README.md and split.tsv
def test_sets_have_the_published_number_of_pictures(name: str, count: int) -> None:
    pictures = ocr_data.load(name, folder=DATA)
    assert len(pictures) == count
    assert all(picture.path.is_file() for picture in pictures)
    assert all(line.polygon_xy.shape == (4, 2) for picture in pictures for line in picture.lines)


@needs_data
def test_labels_as_they_stand_in_the_files() -> None:
    street = {picture.path.name: picture for picture in ocr_data.load("icdar2015", folder=DATA)}
    assert [line.text for line in street["img_10.jpg"].lines[:4]] == ["Please", "lower", "your", "volume"]
    receipt = ocr_data.load("sroie", folder=DATA)[0]
    assert receipt.path.name == "001.jpg"
    assert receipt.lines[2].text == "27,JALAN DEDAP 13,"
    np.testing.assert_array_equal(receipt.lines[0].polygon_xy, box(76, 50, 247, 34))


# Processes and the page, with a package that stands in for the zoo.

STAND_IN = """
import dataclasses, sys, types

@dataclasses.dataclass
class DetSettings:
    limit_side: int = 960
    limit_type: str = "max"
    thresh: float = 0.3
    box_thresh: float = 0.6
    unclip_ratio: float = 1.5
    use_dilation: bool = False
    score_mode: str = "fast"
    mean: tuple = ()
    std: tuple = ()
    tile: bool = True

@dataclasses.dataclass
class ReaderSettings:
    det: DetSettings
    use_cls: bool
    drop_score: float

def load(name, *, settings, threads, engine):
    print("noise on standard output")
    if name == "broken":
        raise ValueError("no such model")
    line = types.SimpleNamespace(polygon_xy=[[0, 0], [9, 0], [9, 5], [0, 5]], text=f"{name} {threads}", score=1)
    return lambda path: types.SimpleNamespace(lines=[line])
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> ocr_systems.System:
    package = tmp_path / "package" / "zoo"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "ocr.py").write_text(STAND_IN, encoding="utf-8")
    options = {"model": "m", "engine": "auto", "settings": ocr_systems.PEERS["rapidocr-v4"].zoo_settings}
    return ocr_systems.System(
        name="zoo-as-rapidocr-v4",
        title="stand-in",
        system="zoo",
        python=Path(sys.executable),
        options=options,
        variables={"PYTHONPATH": str(tmp_path / "package")},
    )


@linux
def test_a_worker_answers_and_is_measured(stand_in: ocr_systems.System, tmp_path: Path) -> None:
    paths = [tmp_path / "a.jpg", tmp_path / "b.jpg"]
    records = ocr_processes.measure([stand_in], paths, threads=1, rounds=3, logs=tmp_path)
    record = records[stand_in.name]
    assert [len(rounds) for rounds in record.seconds] == [3, 3]
    assert record.lines == [[[[[0, 0], [9, 0], [9, 5], [0, 5]], "m 1", 1.0]]] * 2
    assert record.peak_kib > 1024
    started = ocr_processes.measure_startup(stand_in, 1, paths[0], 1, tmp_path / "log")
    assert 0 < started.import_seconds < started.first_result_seconds


@linux
def test_a_worker_that_dies_shows_its_last_words(stand_in: ocr_systems.System, tmp_path: Path) -> None:
    stand_in.options["model"] = "broken"  # type: ignore[index]
    with pytest.raises(RuntimeError, match="no such model"):
        ocr_processes.measure([stand_in], [tmp_path / "a.jpg"], threads=1, rounds=1, logs=tmp_path)


def made_up_results() -> ocr_table.Results:
    def record(seconds: float, kib: int) -> ocr_processes.Record:
        lines = [[[[[0, 0], [9, 0], [9, 5], [0, 5]], "ab", 0.9]]]
        return ocr_processes.Record(seconds=[[seconds * 2, seconds, seconds]], lines=lines, peak_kib=kib)

    names = ("rapidocr-v4", "zoo-as-rapidocr-v4")
    records = {names[0]: record(0.5, 400 * 1024), names[1]: record(0.125, 300 * 1024)}
    startup = ocr_processes.Startup(import_seconds=0.25, first_result_seconds=1.5)
    return ocr_table.Results(
        machine="m",
        date="2026-01-01",
        command="c",
        threads=2,
        rounds=3,
        titles=dict.fromkeys(names, "title"),
        startup=dict.fromkeys(names, startup),
        sets={"sroie": ocr_table.SetResults(pictures=["p.jpg"], records=records)},
    )


def test_results_survive_their_file(tmp_path: Path) -> None:
    ocr_table.save(made_up_results(), tmp_path)
    assert ocr_table.load(tmp_path) == made_up_results()


def test_the_page_shows_times_and_ratios() -> None:
    results = made_up_results()
    picture = ocr_data.LabelledPicture(path=Path("p.jpg"), lines=(label("abcd", box(0, 0, 9, 5)),))
    scores = {
        ("sroie", name): ocr_table.score_record(record, [picture])
        for name, record in results.sets["sroie"].records.items()
    }
    page = ocr_table.markdown(results, scores)
    # median 0.5 s, first reading 1 s, detection 1, no text right, two of four characters missing
    assert "| 0.500 | 0.500 | 1.000 | 400 | 0.25 | 1.50 | 1.0000 | 0.0000 | 0.5000 |" in page
    assert "| 4.00 | 4.00 | 4.00 | 0.75 | +0.0000 | +0.0000 | +0.0000 |" in page


def test_the_table_replaces_only_its_own_part_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    ocr_table.write_between_marks(page, "first\n")
    page.write_text("before\n" + page.read_text(encoding="utf-8") + "after\n", encoding="utf-8")
    ocr_table.write_between_marks(page, "second\n")
    text = page.read_text(encoding="utf-8")
    assert "first" not in text
    assert [row for row in text.splitlines() if row in ("before", "second", "after")] == ["before", "second", "after"]


def test_wrong_arguments_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, what in (
        (["--peers", "easyocr"], "easyocr"),
        (["--sets", "icdar"], "icdar2015"),
        (["--rounds", "0"], "--rounds 0"),
        (["--threads", str(len(os.sched_getaffinity(0)) + 1)], "--threads"),
    ):
        with pytest.raises(SystemExit) as end:
            ocr_peers.parse_arguments(argv)
        assert end.value.code == 2
        assert what in capsys.readouterr().err
