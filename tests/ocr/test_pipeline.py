"""The reader's rules, with networks that are rules themselves: see fakes.py."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from tests.ocr import fakes
from zoo.ocr.predict import _spans, resized_shape
from zoo.ocr.settings import DetSettings, ReaderSettings, RecSettings


def corners(left: int, top: int, right: int, bottom: int) -> np.ndarray:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def test_a_blank_picture_is_an_empty_page() -> None:
    page = fakes.reader()(np.zeros((100, 200, 3), np.uint8))
    assert page.lines == () and page.text == "" and (page.width, page.height) == (200, 100)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 500, 3), (500, 1, 3), (20, 30, 3), (31, 32, 3)])
def test_tiny_pictures_are_no_error(shape: tuple[int, ...]) -> None:
    assert fakes.reader()(np.zeros(shape, np.uint8)).lines == ()


def test_one_line_in_its_place() -> None:
    page = fakes.reader()(fakes.picture(400, 640, {(100, 200): fakes.bar("rgb")}))
    assert page.text == "rgb"
    (line,) = page.lines
    # Unclipped by area * 1.5 / perimeter = 180 * 40 * 1.5 / 440 = 24.5 pixels on each side.
    np.testing.assert_allclose(line.polygon_xy, corners(176, 76, 404, 164), atol=3)
    assert line.direction == 0 and line.score == pytest.approx(0.96, abs=1e-6)


def test_a_line_on_its_head_is_turned_and_its_corners_with_it() -> None:
    page = fakes.reader()(fakes.picture(400, 640, {(100, 200): cv2.rotate(fakes.bar("rgb"), cv2.ROTATE_180)}))
    (line,) = page.lines
    assert (line.text, line.direction) == ("rgb", 180)
    np.testing.assert_allclose(line.polygon_xy, np.roll(corners(176, 76, 404, 164), -2, axis=0), atol=3)


@pytest.mark.parametrize(
    ("rotation", "direction", "first"), [(cv2.ROTATE_90_CLOCKWISE, 90, 1), (cv2.ROTATE_90_COUNTERCLOCKWISE, 270, 3)]
)
def test_vertical_lines_are_read_along_their_own_direction(rotation: int, direction: int, first: int) -> None:
    page = fakes.reader()(fakes.picture(640, 400, {(200, 100): cv2.rotate(fakes.bar("rrgb"), rotation)}))
    (line,) = page.lines
    assert (line.text, line.direction) == ("rrgb".replace("rr", "r"), direction)
    box = corners(*line.polygon_xy.min(axis=0), *line.polygon_xy.max(axis=0))
    np.testing.assert_allclose(line.polygon_xy[0], box[first], atol=1)


def test_a_single_upright_letter_is_not_laid_on_its_side() -> None:
    """Taller than 1.5 times its width; blue at its top, so the direction rule would turn it if it were asked."""
    letter = np.zeros((90, 40, 3), np.uint8)
    letter[:] = fakes.COLOURS["g"]
    page = fakes.reader()(fakes.picture(300, 300, {(100, 100): letter}))
    (line,) = page.lines
    assert (line.text, line.direction) == ("g", 0)


def test_text_of_a_line_does_not_depend_on_the_others() -> None:
    words = ["rgb", "rg", "rgbrgbrgb", "g", "rgbr"]
    reader = fakes.reader()
    pictures = [fakes.picture(700, 900, {(40 + 120 * i, 50): fakes.bar(word)}) for i, word in enumerate(words)]
    alone = [reader(one).lines for one in pictures]
    together = reader(fakes.picture(700, 900, {(40 + 120 * i, 50): fakes.bar(w) for i, w in enumerate(words)})).lines
    assert [line.text for (line,) in alone] == [line.text for line in together] == words
    for (single,), line in zip(alone, together, strict=True):
        assert single.score == line.score
        np.testing.assert_array_equal(single.polygon_xy, line.polygon_xy)


def test_long_line_is_read_in_windows_without_loss_or_repeat() -> None:
    text = "rgb" * 20
    crop = fakes.bar(text, height=20, letter=30)  # ratio 90
    recogniser = fakes.reader(ReaderSettings(rec=RecSettings(max_ratio=12))).recogniser
    assert recogniser([crop])[0].text.text == text
    shapes = recogniser.session.shapes  # type: ignore[attr-defined]
    assert len(shapes) > 1 and all(shape[3] < 1000 for shape in shapes)  # whole, it would be 4320 wide


def test_low_scores_are_dropped() -> None:
    image = fakes.picture(400, 640, {(100, 200): fakes.bar("rgb")})
    assert fakes.reader(ReaderSettings(drop_score=0.97))(image).lines == ()
    assert len(fakes.reader(ReaderSettings(drop_score=0.95))(image).lines) == 1


@pytest.mark.parametrize("kind", ["word", "character"])
def test_word_boxes_lie_on_the_letters(kind: str) -> None:
    settings = ReaderSettings(words=kind)  # type: ignore[arg-type]
    page = fakes.reader(settings)(fakes.picture(400, 900, {(100, 200): fakes.bar("rgb", letter=120)}))
    words = page.lines[0].words
    if kind == "word":
        assert [word.text for word in words] == ["rgb"]
    else:
        assert [word.text for word in words] == list("rgb")
        for i, word in enumerate(words):
            assert word.polygon_xy[:, 0].mean() == pytest.approx(200 + 120 * i + 60, abs=12)


def test_a_document_without_a_page_named_is_refused(tmp_path) -> None:
    from PIL import Image

    frames = [Image.new("RGB", (64, 48), colour) for colour in ("black", "white")]
    path = tmp_path / "two.tif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    reader = fakes.reader()
    with pytest.raises(ValueError, match=r"two\.tif.*2 pages.*reader\.pages"):
        reader(path)
    assert reader(path, page=1).number == 1
    assert [page.number for page in reader.pages(path)] == [1, 2]


def test_one_reader_is_shared_by_threads() -> None:
    reader = fakes.reader()
    images = [fakes.picture(300, 500, {(60, 40): fakes.bar("rgb"[i % 3] + "rgb"[(i + 1) % 3])}) for i in range(24)]
    expected = [reader(image).text for image in images]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda image: reader(image).text, images)) == expected


# (height, width, limit_side, limit_type, expected): the ratio, then whole pixels, then the nearest multiple of 32.
@pytest.mark.parametrize(
    ("height", "width", "side", "kind", "expected"),
    [
        (720, 1280, 960, "max", (544, 960)),  # 540 / 32 = 16.875
        (500, 700, 960, "max", (512, 704)),  # never enlarged
        (720, 1280, 736, "min", (736, 1312)),  # 1308.4 / 32 = 40.9
        (10, 300, 960, "max", (32, 288)),
    ],
)
def test_resize_rule(height: int, width: int, side: int, kind: str, expected: tuple[int, int]) -> None:
    settings = DetSettings(limit_side=side, limit_type=kind)  # type: ignore[arg-type]
    assert resized_shape(height, width, settings) == (*expected, False)


def test_small_text_on_a_large_sparse_page_is_not_lost() -> None:
    """8000 x 6000 pixels with one line 24 pixels tall: at the published 960 pixels it would be 3 pixels tall."""
    image = fakes.picture(8000, 6000, {(5000, 3000): fakes.bar("rgb", height=24, letter=40)})
    page = fakes.reader()(image)
    assert page.text == "rgb"
    assert fakes.reader(ReaderSettings(det=DetSettings(tile=False)))(image).lines == ()


def test_a_line_across_tiles_is_one_line() -> None:
    image = fakes.picture(1200, 9000, {(500, 300): fakes.bar("rgb" * 9, height=60, letter=300)})
    page = fakes.reader()(image)
    assert [line.text for line in page.lines] == ["rgb" * 9]


def test_letters_larger_than_a_tile_are_one_box() -> None:
    image = fakes.picture(8000, 8000, {(3000, 1000): fakes.bar("rgb", height=2500, letter=2000)})
    page = fakes.reader()(image)
    assert [line.text for line in page.lines] == ["rgb"]


@pytest.mark.parametrize("length", [1, 32, 1024, 1025, 1056, 2048, 3200, 9999])
def test_tiles_cover_the_axis_once(length: int) -> None:
    spans = _spans(length, 1024)
    assert spans[0][2] == 0 and spans[-1][3] == length
    for (start, end, keep, kept), following in zip(spans, [*spans[1:], None], strict=True):
        assert 0 <= start <= keep < kept <= end <= length and end - start == min(length, 1024)
        if following:
            assert kept == following[2]
            assert end - kept >= 100 and following[2] - following[0] >= 100  # context on both sides of a cut


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DetSettings(limit_side=0),
        lambda: DetSettings(limit_type="mean"),  # type: ignore[arg-type]
        lambda: DetSettings(thresh=2),
        lambda: DetSettings(tile_side=1000),
        lambda: RecSettings(batch=0),
        lambda: ReaderSettings(words="letters"),  # type: ignore[arg-type]
        lambda: ReaderSettings(drop_score=-1),
    ],
)
def test_a_wrong_setting_says_so(wrong) -> None:
    with pytest.raises(ValueError, match="give"):
        wrong()
