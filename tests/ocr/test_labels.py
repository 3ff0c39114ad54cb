"""Opening labels: what is found, what a sample holds, what is refused and in which words."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.ocr.label_sets import SQUARE, listed, page, picture, region
from zoo.ocr import label_files
from zoo.ocr.label_files import TextLines
from zoo.ocr.labels import LineLabels, PageLabels, area, join, open_lines, open_pages
from zoo.ocr.samples import BadSample


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"", b"[", "汉".encode(), b"\r"]), max_size=12),
    st.booleans(),
    st.integers(1, 5),
)
def test_lines_are_those_between_line_feeds(lines: list[bytes], bom: bool, chunk: int) -> None:
    """Against bytes.split, wherever the chunks that the file is read in are cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_files, "CHUNK", chunk)
        text = TextLines("x.txt", (b"\xef\xbb\xbf" if bom else b"") + b"\n".join(lines))
    expected = [
        (number, line.removesuffix(b"\r").decode())
        for number, line in enumerate(b"\n".join(lines).split(b"\n"), start=1)
        if line.removesuffix(b"\r")
    ]
    assert [text[i] for i in range(len(text))] == [line for _, line in expected]
    assert [text.place(i) for i in range(len(text))] == [f"x.txt:{number}" for number, _ in expected]
    assert text.lists.tolist() == [i for i, (_, line) in enumerate(expected) if line.startswith("[")]


def test_an_empty_list_has_no_samples(tmp_path: Path) -> None:
    lines = open_lines(listed(tmp_path / "labels.txt"))
    assert len(lines) == 0
    with pytest.raises(IndexError):
        lines[0]


def test_one_line(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 70, 31)
    lines = open_lines(listed(tmp_path / "labels.txt", "a.png\t two words "))
    sample = lines[0]
    assert (sample.image.shape, sample.image.dtype, sample.text) == ((31, 70, 3), np.uint8, " two words ")
    assert sample.name == lines.name(0) == lines.name(-1) == f"{tmp_path}/labels.txt:1"
    assert lines.label(0) == " two words "
    assert [one.text for one in lines] == [" two words "]


def test_line_ends_and_byte_order_mark_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes(b"\xef\xbb\xbfa.png\tone\r\n\r\n\nb.png\ttwo\r\nc.png\tthree")
    lines = open_lines(tmp_path / "labels.txt")
    assert [lines.label(i) for i in range(len(lines))] == ["one", "two", "three"]
    assert [lines.name(i).rpartition(":")[2] for i in range(3)] == ["1", "4", "5"]
    assert lines.entry(0).picture == "a.png"
    assert {kind for kind, _ in lines.repaired} == {"byte order mark", "CRLF", "empty line"}


@pytest.mark.parametrize(
    ("line", "message"),
    [("a.png", "no tab"), ("a.png\tx\ty", "2 tabs"), ("gone.png\tx", "gone.png"), ("a.png\t", "empty")],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    picture(tmp_path / "a.png")
    lines = open_lines(listed(tmp_path / "labels.txt", "a.png\tgood", line))
    assert lines[0].text == "good"
    with pytest.raises(BadSample, match=message) as caught:
        lines[1]
    assert str(caught.value).startswith(f"{tmp_path}/labels.txt:2: ")


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gbk.txt").write_bytes(b"a.png\tgood\nb.png\t" + "汉字".encode("gbk") + b"\n")
    lines = open_lines(tmp_path / "gbk.txt")
    assert lines.label(0) == "good"
    with pytest.raises(BadSample, match=r"gbk.txt:2: is not UTF-8"):
        lines.label(1)
    (tmp_path / "wide.txt").write_text("a.png\tx\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"wide.txt: is UTF-16"):
        open_lines(tmp_path / "wide.txt")


def test_a_path_may_be_a_list_of_paths(tmp_path: Path) -> None:
    lines = open_lines(
        listed(tmp_path / "labels.txt", "a.png\tone", '["b.png", "c.png"]\ttwo', "[1].png\tthree", '["d.png"]\tfour')
    )
    entries = [lines.entry(i) for i in range(len(lines))]
    assert [(entry.picture, entry.text) for entry in entries] == [
        ("a.png", "one"),
        ("b.png", "two"),
        ("c.png", "two"),
        ("[1].png", "three"),
        ("d.png", "four"),
    ]
    assert [lines.name(i).rpartition(":")[2] for i in range(5)] == ["1", "2", "2", "3", "4"]


def test_pictures_are_looked_for(tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    picture(folder / "a.png")
    assert len(open_pages(listed(folder / "Label.txt", page("scans/a.png", region("x"))))[0].texts) == 1
    picture(tmp_path / "one" / "images" / "b.png")
    assert open_lines(listed(tmp_path / "one" / "labels.txt", "b.png\tx"))[0].text == "x"
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.write(folder / "a.png", "c.png")
    two = listed(tmp_path / "two.tsv", "c.png\tx")
    assert open_lines(two)[0].image.shape == (60, 100, 3)
    assert open_lines(listed(tmp_path / "three.txt", "c.png\tx"), root=tmp_path / "two.zip")[0].text == "x"
    with pytest.raises(BadSample, match=r"holds no d\.png"):
        open_lines(listed(tmp_path / "four.txt", "d.png\tx"), root=tmp_path / "two.zip")[0]


def test_a_folder_with_both_lists_of_ppocrlabel(tmp_path: Path) -> None:
    listed(tmp_path / "Label.txt", page(f"{tmp_path.name}/a.png", region("x")))
    listed(tmp_path / "rec_gt.txt", "crop_img/a_crop_0.jpg\tx")
    assert open_pages(tmp_path).regions(0).regions[0].text == "x"
    assert open_lines(tmp_path).label(0) == "x"


def test_a_page(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    triangle, flat = [[1, 2], [30.5, 2], [1, 20]], [[0, 0], [40, 0], [40, 0], [0, 0]]
    regions = [region("one", triangle), region("###"), region("*"), region("flat", flat)]
    sample = open_pages(listed(tmp_path / "l.txt", page("a.png", *regions)))[0]
    assert sample.texts == ("one", "###", "*", "flat")
    assert sample.ignored.tolist() == [False, True, True, True]
    assert sample.ignored.dtype == bool
    assert sample.polygons_xy[0].dtype == np.float32
    np.testing.assert_array_equal(sample.polygons_xy[0], triangle)
    assert area(sample.polygons_xy[0]) == pytest.approx(29.5 * 18 / 2)


def test_a_page_without_regions(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    sample = open_pages(listed(tmp_path / "l.txt", page("a.png")))[0]
    assert (sample.polygons_xy, sample.texts, sample.ignored.shape) == ((), (), (0,))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ('[{"transcription": "x"', "no JSON"),
        ('{"transcription": "x"}', "a JSON list is meant"),
        ('[{"transcription": "x"}]', "region 1 is .* points is meant"),
        ('[{"transcription": 7, "points": [[0, 0], [1, 0], [1, 1]]}]', "transcription 7"),
        ('[{"transcription": "x", "points": [[0, 0], [1]]}]', "region 1 has the points"),
        ('[{"transcription": "x", "points": [0, 0, 1, 1]}]', r"shape \[4\]"),
        ('[{"transcription": "x", "points": [[0, 0], [1, NaN], [1, 1]]}]', "not finite"),
        ('[{"transcription": "x", "points": [[0, 0], [9, 9]]}]', "region 1 has 2 points"),
    ],
)
def test_a_broken_page_is_named(tmp_path: Path, rest: str, message: str) -> None:
    picture(tmp_path / "a.png")
    pages = open_pages(listed(tmp_path / "l.txt", page("a.png", region("good")), f"a.png\t{rest}"))
    assert pages[0].texts == ("good",)
    with pytest.raises(BadSample, match=message) as caught:
        pages[1]
    assert str(caught.value).startswith(f"{tmp_path}/l.txt:2: ")


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (100, 60)).save(tmp_path / "turned.jpg", exif=exif)
    pages = open_pages(listed(tmp_path / "l.txt", page("turned.jpg", region("x"))))
    assert pages[0].image.shape == (100, 60, 3)
    assert pages.size(0) == (60, 100)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_size_from_the_header_is_that_of_the_decoded_picture(tmp_path: Path, suffix: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (31, 20)).save(tmp_path / f"a.{suffix}", exif=exif)
    pages = open_pages(listed(tmp_path / "l.txt", page(f"a.{suffix}")), root=tmp_path)
    height, width = pages[0].image.shape[:2]
    assert pages.size(0) == (width, height)


def test_join(tmp_path: Path) -> None:
    one = open_lines(listed(tmp_path / "one.txt", "a.png\ta", "b.png\tb"))
    none = open_lines(listed(tmp_path / "none.txt"))
    two = open_lines(listed(tmp_path / "two.txt", "c.png\tc"))
    joined = join([one, none, two])
    assert isinstance(joined, LineLabels)
    assert [joined.label(i) for i in range(len(joined))] == ["a", "b", "c"]
    assert joined.name(2) == joined.name(-1) == f"{tmp_path}/two.txt:1"
    pages = open_pages(listed(tmp_path / "pages.txt", page("a.png")))
    assert isinstance(join([pages, pages]), PageLabels)
    with pytest.raises(ValueError, match="cannot be joined"):
        join([one, pages])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="cannot be joined"):
        join([])


def test_what_cannot_be_told_is_asked_for(tmp_path: Path) -> None:
    picture(tmp_path / "names" / "沪A1.png")
    with pytest.raises(ValueError, match="give a pattern"):
        open_lines(tmp_path / "names")
    with pytest.raises(ValueError, match="no such file or folder"):
        open_lines(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="looked for a list"):
        open_pages(listed(tmp_path / "poem.txt", "a poem", "of two lines"))
    with pytest.raises(ValueError, match="give one of auto, paddle"):
        open_lines(tmp_path / "poem.txt", format="docx")
    with pytest.raises(ValueError, match="regions of pages"):
        open_lines(listed(tmp_path / "pages.txt", page("a.png", region("x"))))


def _text_of_last(labels: LineLabels, queue: multiprocessing.Queue[str]) -> None:
    queue.put(f"{labels[-1].text} {labels[-1].image.shape}")


def _zip_of_two(folder: Path) -> LineLabels:
    picture(folder / "a.png")
    with zipfile.ZipFile(folder / "set.zip", "w") as archive:
        archive.write(folder / "a.png", "a.png")
        archive.writestr("labels.tsv", "a.png\tone\na.png\ttwo\n")
    return open_lines(folder / "set.zip")


def _base_of_two(folder: Path) -> LineLabels:
    lmdb = pytest.importorskip("lmdb")
    data = picture(folder / "a.png").read_bytes()
    base = lmdb.open(str(folder / "base"))
    with base.begin(write=True) as transaction:
        for number, text in enumerate(("one", "two"), start=1):
            transaction.put(f"image-{number:09}".encode(), data)
            transaction.put(f"label-{number:09}".encode(), text.encode())
        transaction.put(b"num-samples", b"2")
    base.close()
    return open_lines(folder / "base")


@pytest.mark.parametrize("make", [_zip_of_two, _base_of_two])
def test_archives_are_read_in_workers_too(tmp_path: Path, make) -> None:
    labels = make(tmp_path)
    assert [labels[i].text for i in range(len(labels))] == ["one", "two"]
    copy = pickle.loads(pickle.dumps(labels))
    assert copy[1].text == "two" and copy[1].image.shape == (60, 100, 3)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=_text_of_last, args=(labels, queue))
    worker.start()
    assert queue.get(timeout=30) == "two (60, 100, 3)"
    worker.join()
    assert labels[0].text == "one"  # the worker closed nothing that is ours


def test_the_labelled_data(data: Path) -> None:
    """Counts against the data's own README."""
    assert len(open_pages(data / "ocr_icdar2015" / "test_gt")) == 250
    assert len(open_pages(data / "ocr_icdar2015" / "train_gt")) == 150
    for name, count in (("test", 2077), ("train", 4468)):
        for suffix in ("zip", "tsv"):
            crops = open_lines(data / "ocr_icdar2015" / f"word_crops_{name}.{suffix}")
            assert len(crops) == count
            assert crops[count // 2].image.ndim == 3
    receipts = open_pages(data / "ocr_sroie")
    assert len(receipts) == len(list((data / "ocr_sroie" / "box").glob("*.csv"))) and len(receipts) in (28, 29)
    assert receipts.regions(0).regions[0].text == "TAN WOON YANN"
    screens = open_pages(data / "ocr_zh_screens")
    assert len(screens) == len((data / "ocr_zh_screens" / "split.tsv").read_text("utf-8").splitlines())
    assert screens[0].texts[1] == "完成任务NPC: 程晓橙"
    plates = open_lines(data / "ocr_plates_lprnet" / "data" / "test", pattern=".{7}")
    assert len(plates) == 1000
    assert plates[0].image.shape == (24, 94, 3)
    assert sum(plates.label(i)[0] == "皖" for i in range(1000)) == 956
    fixtures = open_lines(data / "ocr_rapidocr_fixtures" / "expected.tsv")
    assert len(fixtures) == 21 and fixtures[0].text == "韩国小馆"


def test_icdar_words_of_the_labelled_data(data: Path) -> None:
    folder = data / "ocr_icdar2015" / "test_gt"
    pages = open_pages(folder)
    lines = sum(len([line for line in file.open(encoding="utf-8-sig") if line.strip()]) for file in folder.iterdir())
    assert sum(len(pages.regions(i).regions) for i in range(len(pages))) == lines


MEMORY = """
import resource, sys
from pathlib import Path
from zoo.ocr.labels import open_lines
labels = open_lines(Path(sys.argv[1]))
assert len(labels) == 2_000_000 and labels.label(1_999_999) == "text 1999999"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_two_million_lines_take_less_than_200_megabytes(tmp_path: Path) -> None:
    with (tmp_path / "labels.txt").open("w") as file:
        file.writelines(f"images/{i:08}.jpg\ttext {i}\n" for i in range(2_000_000))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "labels.txt")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200


def test_a_square_is_a_square() -> None:
    assert area(np.array(SQUARE, np.float32)) == 800


def test_a_page_whose_regions_have_no_area_is_bad(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    flat = [[5, 5], [50, 5], [50, 5], [5, 5]]
    pages = open_pages(
        listed(tmp_path / "l.txt", page("a.png", region("a", flat)), page("a.png", region("a", flat), region("b")))
    )
    with pytest.raises(BadSample, match="none of its 1 regions has an area"):
        pages[0]
    assert pages[1].ignored.tolist() == [True, False]


def test_half_a_character_is_bad(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    line = 'a.png\t[{"transcription": "\\ud800", "points": [[0, 0], [9, 0], [9, 9], [0, 9]]}]'
    pages = open_pages(listed(tmp_path / "l.txt", line))
    with pytest.raises(BadSample, match="half of a character"):
        pages[0]
