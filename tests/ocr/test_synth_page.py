"""Made pages: the corners of lines and words are where the ink is, and nowhere else."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.ocr.fonts_here import chinese_font
from zoo import images
from zoo.ocr import fonts, synth_page
from zoo.ocr.samples import PageSample
from zoo.ocr.synth_ground import contrast, ground, ink_on, luminance
from zoo.ocr.synth_ink import Face, corners, draw_across, draw_down, face_for, faces, ink_box, moved, put
from zoo.ocr.synth_settings import LAYOUTS, SynthSettings

WITHOUT_RULES = ("column", "columns", "labels", "vertical", "rotated")
CLEAN = SynthSettings(seed=3, lang="en", degrade=0, page_side=(400, 700))


@pytest.fixture
def white(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grounds are white, so that whatever is darker is ink."""
    monkeypatch.setattr(synth_page, "ground", lambda height, width, *_: np.full((height, width, 3), 255, np.uint8))


def ink(sample: PageSample) -> np.ndarray:
    """Where a white page has ink, for sure."""
    return sample.image.min(axis=2) < 170


def covered(sample: PageSample, more: int) -> np.ndarray:
    """The pixels within any polygon, which are grown by `more` pixels."""
    mask = np.zeros(sample.image.shape[:2], np.uint8)
    for polygon in sample.polygons_xy:
        cv2.fillPoly(mask, [np.rint(polygon * 16).astype(np.int32)], 1, shift=4)
    return cv2.dilate(mask, np.ones((2 * more + 1, 2 * more + 1), np.uint8)) > 0


@pytest.mark.usefixtures("white")
@pytest.mark.parametrize("warp", [0.0, 1.0])
@pytest.mark.parametrize("layout", WITHOUT_RULES)
def test_all_ink_is_in_the_polygons(layout: str, warp: float) -> None:
    for index in range(3):
        page = synth_page.synth_page(index, SynthSettings(**{**CLEAN.__dict__, "layouts": (layout,), "warp": warp}))
        assert ink(page.lines).any()
        assert not (ink(page.lines) & ~covered(page.lines, 2)).any(), (layout, index)
        assert not (ink(page.words) & ~covered(page.words, 2)).any(), (layout, index)


@pytest.mark.usefixtures("white")
@pytest.mark.parametrize("layout", WITHOUT_RULES)
def test_polygons_fit_their_ink(layout: str) -> None:
    """Ink comes within a fifth of the height, or 3 pixels, of the ends of lines and words, and fills lines' height."""
    for index in range(2):
        page = synth_page.synth_page(index, SynthSettings(**{**CLEAN.__dict__, "layouts": (layout,)}))
        for sample in (page.lines, page.words):
            for polygon, text in zip(sample.polygons_xy, sample.texts, strict=True):
                crop = images.warp_quad(sample.image, polygon).min(axis=2) < 170
                columns, rows = np.flatnonzero(crop.any(axis=0)), np.flatnonzero(crop.any(axis=1))
                room = max(3, crop.shape[0] / 5)
                assert len(columns), (layout, text)
                assert columns[0] <= room and columns[-1] >= crop.shape[1] - 1 - room, (layout, text)
                if sample is page.lines and any(c.isalnum() for c in text):
                    assert rows[0] <= room and rows[-1] >= crop.shape[0] - 1 - room, (layout, text)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_page_of_each_layout(layout: str) -> None:
    page = synth_page.synth_page(0, SynthSettings(**{**CLEAN.__dict__, "layouts": (layout,), "warp": 1.0}))
    sample = page.lines
    height, width = sample.image.shape[:2]
    assert sample.image.dtype == np.uint8 and page.layout == layout and layout in sample.name
    assert 400 <= height <= 700 and 320 <= width <= 700
    assert len(sample.texts) == len(sample.polygons_xy) == len(sample.ignored) >= 1 and not sample.ignored.any()
    for polygon in (*sample.polygons_xy, *page.words.polygons_xy):
        assert polygon.shape == (4, 2) and polygon.dtype == np.float32
        assert (polygon >= 0).all() and (polygon <= (width, height)).all()
        assert cv2.contourArea(polygon, oriented=True) > 0  # clockwise, as y goes down
    assert "".join(page.words.texts) == "".join("".join(text.split()) for text in sample.texts)
    assert page.words.image is sample.image


def test_lines_do_not_overlap() -> None:
    for layout in LAYOUTS:
        sample = synth_page.synth_page(1, SynthSettings(**{**CLEAN.__dict__, "layouts": (layout,)})).lines
        count = np.zeros(sample.image.shape[:2], np.uint8)
        for polygon in sample.polygons_xy:
            mask = np.zeros_like(count)
            cv2.fillConvexPoly(mask, np.rint(polygon).astype(np.int32), 1)
            count += cv2.erode(mask, np.ones((3, 3), np.uint8))
        assert count.max() == 1, layout


def test_equal_settings_give_equal_pages_and_others_other_ones() -> None:
    one, again, other = (synth_page.synth_page(i, CLEAN) for i in (4, 4, 5))
    assert np.array_equal(one.lines.image, again.lines.image) and one.words.texts == again.words.texts
    assert one.lines.texts != other.lines.texts
    reseeded = synth_page.synth_page(4, SynthSettings(**{**CLEAN.__dict__, "seed": 4}))
    assert reseeded.lines.texts != one.lines.texts


def test_lines_downwards_have_a_word_for_each_character() -> None:
    settings = SynthSettings(lang="ch", fonts=(chinese_font(),), layouts=("vertical",), degrade=0, page_side=(400, 700))
    page = synth_page.synth_page(0, settings)
    down = [p for p, text in zip(page.lines.polygons_xy, page.lines.texts, strict=True) if len(text) > 3]
    assert down and all(np.ptp(p[:, 1]) > 2 * np.ptp(p[:, 0]) for p in down)
    assert list(page.words.texts) == list("".join(page.lines.texts))


# --- ink -------------------------------------------------------------------------------------------------------


def test_only_fonts_with_all_glyphs_are_taken() -> None:
    """Pillow's own font is Latin: it has neither Chinese characters nor a snowman."""
    own = Face(None)
    assert own.covers("Total 12.50") and own.covers("") and own.covers(" ")
    assert not own.covers("永") and not own.covers("a永") and not own.covers("☃")
    random = np.random.default_rng(0)
    assert face_for("abc", (own,), random) == own
    assert face_for("ab永", (own,), random) is None


def test_a_missing_glyph_is_never_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(fonts, "candidates", lambda: (None,))
    faces.cache_clear()
    try:
        (tmp_path / "corpus.txt").write_text(
            "only Latin words\n永和九年永和九年\nother Latin words\n", encoding="utf-8"
        )
        settings = SynthSettings(corpus=tmp_path / "corpus.txt", rules=0, degrade=0, page_side=(320, 480))
        texts = [text for index in range(8) for text in synth_page.synth_page(index, settings).lines.texts]
        assert texts and all(text.isascii() for text in texts)
        (tmp_path / "chinese.txt").write_text("永和九年\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"none of the 1 fonts has all characters.*--font"):
            synth_page.synth_page(0, SynthSettings(corpus=tmp_path / "chinese.txt", rules=0))
    finally:
        faces.cache_clear()


@pytest.mark.parametrize("name", ["missing.ttf", "words.ttf", "words.ttf#1", "empty"])
def test_a_font_that_is_none_is_named(tmp_path, name: str) -> None:
    (tmp_path / "words.ttf").write_text("no font")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=f"font .*{name.split('#')[0]}"):
        faces((str(tmp_path / name),))


def test_drawn_text_is_put_unchanged_where_it_is_told() -> None:
    drawn = draw_across("Ink", Face(None), 32)
    image = np.full((80, 120, 3), 255, np.uint8)
    put(image, drawn.alpha, np.array([[1.0, 0, 20], [0, 1, 10], [0, 0, 1]]), np.zeros(3))
    height, width = drawn.alpha.shape
    assert np.abs(image[10 : 10 + height, 20 : 20 + width, 0].astype(int) - (255 - drawn.alpha)).max() <= 1
    assert (image[:10] == 255).all() and (image[:, :20] == 255).all()


@pytest.mark.parametrize("where", [(-500.0, 0.0), (0.0, 500.0), (-15.0, -15.0)])
def test_ink_beyond_the_picture_is_cut_off(where: tuple[float, float]) -> None:
    drawn = draw_across("Ink", Face(None), 32)
    image = np.full((20, 20, 3), 255, np.uint8)
    put(image, drawn.alpha, np.array([[1.0, 0, where[0]], [0, 1, where[1]], [0, 0, 1]]), np.zeros(3))
    assert image.shape == (20, 20, 3)


def test_a_line_of_dots_has_a_height() -> None:
    left, top, right, bottom = draw_across("...", Face(None), 40).box
    assert bottom - top == pytest.approx(20) and right - left > 10


def test_characters_downwards() -> None:
    drawn = draw_down("ab", Face(None), 20)
    (first, upper), (second, lower) = drawn.words
    assert (first, second) == ("a", "b") and upper[3] <= lower[1]
    for _, (left, top, right, bottom) in drawn.words:
        part = drawn.alpha[int(top) : int(np.ceil(bottom)), int(left) : int(right)]
        assert part.max() > 200


def test_ink_box() -> None:
    alpha = np.zeros((6, 8), np.uint8)
    assert ink_box(alpha) == (0, 0, 8, 6)
    alpha[2:4, 3:7] = 255
    assert ink_box(alpha) == (3, 2, 7, 4)


def test_moved_by_a_projective_map() -> None:
    halved = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 2]])
    assert moved(corners((0, 0, 4, 2)), halved).tolist() == [[0, 0], [2, 0], [2, 1], [0, 1]]


# --- colours ---------------------------------------------------------------------------------------------------


def test_contrast_is_that_of_wcag() -> None:
    """21:1 for black on white; 4.48:1 for #777777 on white, as the W3C's and other checkers give."""
    white, black, grey = (float(luminance(np.full(3, v))) for v in (255, 0, 0x77))
    assert contrast(white, black) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.48, abs=0.01)
    assert float(luminance(np.array([0, 0, 255]))) == pytest.approx(0.2126, abs=1e-4)  # BGR: this is red


@pytest.mark.parametrize("tone", [0, 40, 128, 200, 255])
def test_ink_can_be_told_from_its_ground(tone: int) -> None:
    random = np.random.default_rng(tone)
    for _ in range(30):
        colour = ink_on(np.full((5, 7, 3), tone, np.uint8), 3.5, random)
        assert colour is not None
        assert contrast(float(luminance(colour)), float(luminance(np.full(3, tone)))) >= 3.5


def test_no_ink_shows_on_black_and_white() -> None:
    checks = np.indices((20, 20)).sum(axis=0) % 2 * np.uint8(255)
    assert ink_on(np.repeat(checks[..., None], 3, axis=2).astype(np.uint8), 3.5, np.random.default_rng(0)) is None


def test_grounds_of_odd_sizes() -> None:
    random = np.random.default_rng(0)
    for height, width in [(1, 1), (1, 300), (333, 7), (50, 51)] * 6:
        made = ground(height, width, None, random)
        assert made.shape == (height, width, 3) and made.dtype == np.uint8 and made.flags.writeable


def test_grounds_from_pictures(tmp_path) -> None:
    picture = np.zeros((30, 40, 3), np.uint8)
    picture[..., 1] = 90
    (tmp_path / "green.png").write_bytes(images.encode(picture, ".png"))
    made = ground(50, 20, tmp_path, np.random.default_rng(0))
    assert made.shape == (50, 20, 3) and (made == (0, 90, 0)).all()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no picture there"):
        ground(5, 5, tmp_path / "empty", np.random.default_rng(0))


def test_text_on_a_lively_picture_gets_a_panel(tmp_path) -> None:
    checks = (np.indices((600, 600)).sum(axis=0) // 3 % 2 * 255).astype(np.uint8)
    (tmp_path / "checks.png").write_bytes(images.encode(np.repeat(checks[..., None], 3, axis=2), ".png"))
    settings = SynthSettings(**{**CLEAN.__dict__, "backgrounds": tmp_path, "layouts": ("labels",), "warp": 0.0})
    page = synth_page.synth_page(0, settings).lines
    for polygon in page.polygons_xy:
        crop = images.warp_quad(page.image, polygon)
        edge = np.concatenate([crop[:, :1].reshape(-1, 3), crop[:, -1:].reshape(-1, 3)])
        assert np.median(np.abs(edge.astype(int) - np.median(edge, axis=0))) < 60  # of checks it would be 255
