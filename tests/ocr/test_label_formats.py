"""Each format's own rules, by examples worked out by hand."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.ocr.label_sets import listed, picture
from zoo.ocr.labels import open_lines, open_pages
from zoo.ocr.samples import BadSample


def test_icdar_texts_hold_commas(tmp_path: Path) -> None:
    picture(tmp_path / "train_images" / "img_1.jpg")
    picture(tmp_path / "train_images" / "img_2.jpg")
    folder = tmp_path / "train_gt"
    folder.mkdir()
    (folder / "gt_img_1.txt").write_bytes(
        b"\xef\xbb\xbf1,2,30,2,30,20,1,20,27,JALAN\r\n0.5,0,9,0,9,9,0,9,###\r\n5,5,9,5,9,9,5,9,\r\n"
    )
    (folder / "gt_img_2.txt").write_bytes(b"")
    pages = open_pages(folder)
    assert len(pages) == 2
    first = pages[0]
    assert first.texts == ("27,JALAN", "###", "")
    assert first.ignored.tolist() == [False, True, False]
    np.testing.assert_array_equal(first.polygons_xy[1], [[0.5, 0], [9, 0], [9, 9], [0, 9]])
    assert {kind for kind, _ in pages.regions(0).repaired} == {"byte order mark", "CRLF"}
    assert pages[1].texts == ()


@pytest.mark.parametrize(
    ("line", "message"), [("1,2,3,4,text", "has 5 fields"), ("1,2,3,4,5,6,7,x,text", "no eight numbers")]
)
def test_a_bad_icdar_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    picture(tmp_path / "img_1.jpg")
    listed(tmp_path / "gt_img_1.txt", "1,2,30,2,30,20,1,20,x", line)
    with pytest.raises(BadSample, match=f"gt_img_1.txt:2: .*{message}"):
        open_pages(tmp_path)[0]


def test_icdar_without_pictures_says_where_they_were_looked_for(tmp_path: Path) -> None:
    listed(tmp_path / "gt_img_1.txt", "1,2,30,2,30,20,1,20,x")
    with pytest.raises(ValueError, match=r"no picture img_1.*give root"):
        open_pages(tmp_path)
    picture(tmp_path / "elsewhere" / "img_1.png")
    assert open_pages(tmp_path, root=tmp_path / "elsewhere")[0].texts == ("x",)


def _task(*results: dict[str, object], **more: object) -> dict[str, object]:
    return {"id": 7, "data": {"ocr": "/data/upload/3/0a1b2c3d-a%20b.png"}, "annotations": [{"result": results}], **more}


def _shape(value: dict[str, object], kind: str, name: str = "r") -> dict[str, object]:
    return {"id": name, "type": kind, "original_width": 200, "original_height": 100, "value": value}


def _export(folder: Path, *tasks: object) -> Path:
    picture(folder / "a b.png", 200, 100)
    file = folder / "export.json"
    file.write_text(json.dumps(tasks), encoding="utf-8")
    return file


def test_label_studio(tmp_path: Path) -> None:
    box = {"x": 50, "y": 20, "width": 10, "height": 10, "rotation": 0}
    polygon = {"points": [[10, 10], [20, 10], [15, 30]]}
    file = _export(
        tmp_path,
        _task(
            _shape(box, "rectangle", "1"),
            _shape({**box, "text": ["upright"]}, "textarea", "1"),
            _shape({**box, "rotation": 90}, "rectanglelabels", "2"),
            _shape(polygon, "polygonlabels", "3"),
            _shape({**polygon, "text": "###"}, "textarea", "3"),
        ),
    )
    sample = open_pages(file)[0]
    assert sample.texts == ("upright", "", "###")
    assert sample.ignored.tolist() == [False, False, True]
    # 50 % of 200 and 20 % of 100; a box of 20 x 10 pixels.
    np.testing.assert_allclose(sample.polygons_xy[0], [[100, 20], [120, 20], [120, 30], [100, 30]], atol=1e-4)
    # A quarter turn clockwise about its top left corner: its width points down, its height to the left.
    np.testing.assert_allclose(sample.polygons_xy[1], [[100, 20], [100, 40], [90, 40], [90, 20]], atol=1e-4)
    np.testing.assert_allclose(sample.polygons_xy[2], [[20, 10], [40, 10], [30, 30]], atol=1e-4)


BOX = {"x": 0, "y": 0, "width": 10, "height": 10}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (_task(_shape(BOX, "rectangle"), annotations=[]), "has no annotation"),
        (_task(annotations=[{"result": []}, {"result": []}]), "2 annotations"),
        (_task(annotations=[{"result": [], "was_cancelled": True}]), "has no annotation"),
        (_task({**_shape(BOX, "rectangle"), "image_rotation": 90}), "turned by 90"),
        (_task(_shape({"x": 0, "width": 10}, "rectangle")), "lacks 'y'"),
        (
            _task(_shape(BOX, "rectangle"), _shape({**BOX, "text": ["a", "b"]}, "textarea")),
            "region r has 2 texts",
        ),
        (_task({**_shape(BOX, "rectangle"), "original_width": 300}), "made for 300 x 100"),
        (_task(_shape(BOX, "rectangle"), data={"a": "x.png", "b": "y.png"}), "one picture is meant"),
    ],
)
def test_a_bad_label_studio_task_is_named(tmp_path: Path, task: object, message: str) -> None:
    with pytest.raises(BadSample, match=f"task 7: .*{message}"):
        open_pages(_export(tmp_path, task))[0]


def test_of_several_annotations_the_truth_counts(tmp_path: Path) -> None:
    truth = {"result": [_shape(BOX, "rectangle")], "ground_truth": True}
    assert len(open_pages(_export(tmp_path, _task(annotations=[{"result": []}, truth])))[0].texts) == 1


def test_coco_text(tmp_path: Path) -> None:
    picture(tmp_path / "a.jpg")
    picture(tmp_path / "b.jpg")
    content = {
        "imgs": {
            "1": {"id": 1, "width": 100, "height": 60, "file_name": "a.jpg", "set": "train"},
            "2": {"id": 2, "width": 100, "height": 60, "file_name": "b.jpg", "set": "val"},
        },
        "anns": {
            "11": {"id": 11, "image_id": 1, "mask": [1, 2, 9, 2, 9, 8], "bbox": [1, 2, 8, 6], "legibility": "legible",
                   "utf8_string": "Hi"},
            "12": {"id": 12, "image_id": 1, "mask": [1, 2, 9, 2, 9, 8], "bbox": [1, 2, 8, 6],
                   "legibility": "illegible"},
            "13": {"id": 13, "image_id": 1, "bbox": [10, 20, 5, 6], "legibility": "legible", "utf8_string": "box"},
        },
        "imgToAnns": {},
    }  # fmt: skip
    (tmp_path / "coco.json").write_text(json.dumps(content), encoding="utf-8")
    pages = open_pages(tmp_path / "coco.json")
    first = pages[0]
    assert (len(pages), first.texts, first.ignored.tolist()) == (2, ("Hi", "###", "box"), [False, True, False])
    np.testing.assert_array_equal(first.polygons_xy[0], [[1, 2], [9, 2], [9, 8]])
    np.testing.assert_array_equal(first.polygons_xy[2], [[10, 20], [15, 20], [15, 26], [10, 26]])
    assert pages[1].texts == ()


def test_coco_lists(tmp_path: Path) -> None:
    picture(tmp_path / "a.jpg")
    content = {
        "images": [{"id": 1, "width": 100, "height": 60, "file_name": "a.jpg"}],
        "annotations": [
            {"id": 1, "image_id": 1, "segmentation": [[1, 2, 9, 2, 9, 8, 1, 8]], "bbox": [0, 0, 1, 1],
             "utf8_string": "one"},
            {"id": 2, "image_id": 1, "segmentation": [[1, 2, 9, 2, 9, 8], [20, 2, 29, 2, 29, 8]],
             "bbox": [1, 2, 28, 6], "utf8_string": "two pieces"},
        ],
    }  # fmt: skip
    (tmp_path / "coco.json").write_text(json.dumps(content), encoding="utf-8")
    sample = open_pages(tmp_path / "coco.json")[0]
    np.testing.assert_array_equal(sample.polygons_xy[0], [[1, 2], [9, 2], [9, 8], [1, 8]])
    np.testing.assert_array_equal(sample.polygons_xy[1], [[1, 2], [29, 2], [29, 8], [1, 8]])
    content["annotations"].append({"id": 3, "image_id": 5, "bbox": [0, 0, 1, 1]})
    (tmp_path / "coco.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match="1 annotated pictures are not listed, such as 5"):
        open_pages(tmp_path / "coco.json")


def test_json_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"anns":\n {,', encoding="utf-8")
    with pytest.raises(ValueError, match=r"x.json:2: is no JSON"):
        open_pages(tmp_path / "x.json")


def test_a_table_names_its_columns(tmp_path: Path) -> None:
    table = listed(tmp_path / "t.tsv", "id\ttext\tfile", "1\tone\ta.png", "2\ttwo")
    lines = open_lines(table)
    assert (len(lines), lines.label(0), lines.entry(0).picture) == (2, "one", "a.png")
    assert lines.name(0) == f"{table}:2"
    with pytest.raises(BadSample, match=r"t.tsv:3: has 2 columns, the first line has 3"):
        lines.label(1)
    with pytest.raises(ValueError, match="names no columns"):
        open_lines(listed(tmp_path / "u.tsv", "a.png\tone"), format="tsv")


def test_texts_in_names(tmp_path: Path) -> None:
    for name in ("10_皖A12345.jpg", "9_京B00001.jpg", "note.jpg"):
        picture(tmp_path / name)
    lines = open_lines(tmp_path, pattern=r"\d+_(.+)")
    assert [lines.entry(i).picture for i in range(2)] == ["9_京B00001.jpg", "10_皖A12345.jpg"]
    assert [lines.label(i) for i in range(2)] == ["京B00001", "皖A12345"]
    with pytest.raises(BadSample, match="does not match"):
        lines.label(2)
    named = open_lines(tmp_path, pattern=r"(\d+)_(?P<text>.)?.*")
    assert named.label(0) == "京"
    assert open_lines(tmp_path, format="names").label(2) == "note"
    with pytest.raises(ValueError, match="no regular expression"):
        open_lines(tmp_path, pattern="(")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.write(tmp_path / "note.jpg", "deep/note.jpg")
    zipped = open_lines(tmp_path / "set.zip", pattern=".+")
    assert (len(zipped), zipped[0].text, zipped[0].image.shape) == (1, "note", (60, 100, 3))


def test_a_zip_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="is no zip file"):
        open_lines(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("a.png", b"")
    with pytest.raises(ValueError, match="holds 0 lists"):
        open_lines(tmp_path / "y.zip")


def test_lmdb_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lmdb = pytest.importorskip("lmdb")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "data.mdb").write_bytes(b"no base")
    with pytest.raises(ValueError, match="no LMDB that can be read"):
        open_lines(tmp_path / "x")
    base = lmdb.open(str(tmp_path / "y"))
    base.close()
    with pytest.raises(ValueError, match="num-samples holds None"):
        len(open_lines(tmp_path / "y"))
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(ValueError, match="pip install lmdb"):
        open_lines(tmp_path / "x")
