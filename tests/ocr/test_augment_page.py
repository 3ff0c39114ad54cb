"""Augmented pages: polygons stay over their pixels, crops cut no text, nothing but the seed decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import Polygon

from tests.ocr.painted import COLOURS, GROUND, assert_over_its_colour, box, painted, same
from zoo.ocr.augment_page import (
    NO_PAGE_AUGMENT,
    PP_OCRV3,
    PP_OCRV4,
    PP_OCRV6,
    ColourJitter,
    Frame,
    PageAugment,
    augment_page,
    choose_crop,
    clipped,
    jitter_colour,
    mirrored,
    move,
    resized,
    turned,
)
from zoo.ocr.degrade import Degrade
from zoo.ocr.paste import CopyPaste, copy_paste
from zoo.ocr.samples import PageSample


def curve(left: float, top: float) -> np.ndarray:
    """Twelve corners of a bent band 66 pixels wide and 24 high."""
    xs = left + np.arange(6) * 13.2
    upper = np.stack([xs, top + 8 * np.sin(np.arange(6) / 2)], axis=1)
    lower = upper[::-1] + np.array([0, 24])
    return np.concatenate([upper, lower]).astype(np.float32)


def page() -> PageSample:
    triangle = np.array([[150, 30], [220, 60], [160, 90]], np.float32)
    return painted(240, 320, [box(20, 30, 100, 60), triangle, curve(30, 120), box(200, 130, 300, 170)])


RECIPES = {"v3": PP_OCRV3, "v4": PP_OCRV4, "v6": replace(PP_OCRV6, colour=None)}


@pytest.mark.parametrize("name", RECIPES)
def test_polygons_stay_over_their_pixels(name: str) -> None:
    recipe = replace(RECIPES[name], crop=(320, 256))
    seen = 0
    for seed in range(40):
        made = augment_page(page(), recipe, np.random.default_rng(seed))
        assert made.image.shape == (320, 256, 3) and made.image.dtype == np.uint8
        seen += assert_over_its_colour(made)
    assert seen > 40  # else the crops were empty, and nothing was looked at


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 90), width=st.integers(1, 90), count=st.integers(0, 4))
def test_any_page_gives_a_crop(seed: int, height: int, width: int, count: int) -> None:
    """Also 1 x N pictures, regions that reach far beyond them or lie outside, and regions without area."""
    random = np.random.default_rng(seed)
    polygons = []
    for _ in range(count):
        corners = int(random.integers(3, 13))
        spread = random.choice([0.0, 3.0, 40.0, 4000.0])
        polygons.append(
            (random.uniform([0, 0], [width, height]) + random.normal(0, spread, (corners, 2))).astype(np.float32)
        )
    sample = painted(height, width, polygons, list(random.random(count) < 0.3))
    recipe = replace(PP_OCRV6, crop=(40, 56), copy_paste=CopyPaste(), degrade=Degrade(fold=0.5, stamp=0.5, moire=0.5))
    made = augment_page(sample, recipe, np.random.default_rng(seed), page())
    assert made.image.shape == (40, 56, 3)
    assert len(made.polygons_xy) == len(made.texts) == len(made.ignored) and made.ignored.dtype == bool
    assert all(p.dtype == np.float32 and np.isfinite(p).all() for p in made.polygons_xy)
    assert same(made, augment_page(sample, recipe, np.random.default_rng(seed), page()))


def test_another_seed_gives_another_crop() -> None:
    one, two = (augment_page(page(), PP_OCRV4, np.random.default_rng(seed)) for seed in (1, 2))
    assert not same(one, two)


def test_what_changes_nothing_but_the_size_gives_the_page() -> None:
    """240 x 320 into 480 x 700: twice as large, and black to the right."""
    whole = replace(NO_PAGE_AUGMENT, tries=0, crop=(480, 700))
    made = augment_page(page(), whole, np.random.default_rng(0))
    assert not made.image[:, 640:].any() and made.image[:, :640].any(axis=2).all()
    for before, after in zip(page().polygons_xy, made.polygons_xy, strict=True):
        np.testing.assert_allclose(after, 2 * before, atol=1e-3)
    same_size = augment_page(page(), replace(whole, crop=(240, 320)), np.random.default_rng(0))
    np.testing.assert_array_equal(same_size.image, page().image)


def test_mirrored_by_hand() -> None:
    always = replace(NO_PAGE_AUGMENT, tries=0, crop=(240, 320), fliplr=1)
    made = augment_page(page(), always, np.random.default_rng(0))
    np.testing.assert_array_equal(made.image, page().image[:, ::-1])
    np.testing.assert_allclose(made.polygons_xy[0], [[300, 30], [220, 30], [220, 60], [300, 60]], atol=1e-4)


def test_frames_by_hand() -> None:
    """Half a turn of a 40 x 20 frame takes (10, 5) to (30, 15); a quarter, clockwise on the screen, to (25, 0)."""
    start, point = Frame(np.eye(3), 40, 20), np.array([[10, 5]], np.float32)
    np.testing.assert_allclose(move(point, turned(start, 180).matrix), [[30, 15]], atol=1e-4)
    np.testing.assert_allclose(move(point, turned(start, 90).matrix), [[25, 0]], atol=1e-4)
    np.testing.assert_allclose(move(point, mirrored(start).matrix), [[30, 5]], atol=1e-4)
    larger = resized(start, 1.5)
    assert (larger.width, larger.height) == (60, 30)
    np.testing.assert_allclose(move(point, resized(mirrored(start), 1.5).matrix), [[45, 7.5]], atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_crop_cuts_no_text_and_holds_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    texts = []
    for _ in range(int(random.integers(1, 7))):
        left, top = random.uniform([-10, -10], [190, 140])
        texts.append(box(left, top, left + random.uniform(1, 60), top + random.uniform(1, 30)))
    left, top, right, bottom = choose_crop(texts, 200, 150, PageAugment(), random)
    assert 0 <= left < right <= 200 and 0 <= top < bottom <= 150
    inside = 0
    for low, high in ((t.min(axis=0).clip(0), np.minimum(t.max(axis=0), [200, 150])) for t in texts):
        apart = high[0] <= left or high[1] <= top or low[0] >= right or low[1] >= bottom
        whole = low[0] >= left and low[1] >= top and high[0] <= right and high[1] <= bottom
        assert apart or whole
        inside += not apart
    assert inside or (left, top, right, bottom) == (0, 0, 200, 150)


def test_crops_are_small_and_large_and_reach_every_gap() -> None:
    """One text in the middle: each side of the crop can be drawn on either side of it, the last gap included."""
    text = [box(90, 60, 110, 80)]
    crops = np.array([choose_crop(text, 200, 150, PageAugment(), np.random.default_rng(s)) for s in range(300)])
    assert crops[:, 2].max() == 200 and crops[:, 0].min() == 0 and (crops[:, 2] < 150).any()
    sides = crops[:, 2:] - crops[:, :2]
    assert (sides >= [20, 15]).all() and (sides <= [200, 150]).all()


def test_a_page_without_learned_text_is_taken_whole() -> None:
    assert choose_crop([], 30, 20, PageAugment(), np.random.default_rng(0)) == (0, 0, 30, 20)
    sample = painted(20, 30, [box(5, 5, 20, 15)], [True])
    made = augment_page(sample, replace(NO_PAGE_AUGMENT, crop=(40, 60)), np.random.default_rng(0))
    np.testing.assert_allclose(made.polygons_xy[0], box(10, 10, 40, 30), atol=1e-4)
    assert made.ignored.tolist() == [True]


def test_regions_outside_are_gone_with_their_texts() -> None:
    sample = painted(100, 100, [box(120, 10, 150, 30), box(10, 10, 50, 30), box(-30, 40, 0, 60)], [False, True, False])
    made = augment_page(sample, replace(NO_PAGE_AUGMENT, tries=0, crop=(100, 100)), np.random.default_rng(0))
    assert made.texts == ("text 1",) and made.ignored.tolist() == [True] and len(made.polygons_xy) == 1


def test_a_picture_longer_than_opencv_warps() -> None:
    sample = painted(8, 40_000, [box(100, 0, 39_000, 8)])
    made = augment_page(sample, replace(NO_PAGE_AUGMENT, tries=0, crop=(32, 800)), np.random.default_rng(0))
    np.testing.assert_allclose(made.polygons_xy[0][:, 0], [2, 780, 780, 2], atol=0.1)
    assert (np.abs(made.image[0, 10:770].astype(int) - COLOURS[0]).max(axis=1) < 30).all()


def test_clipped_by_hand() -> None:
    """A box over the upper left corner; a triangle of which the top is cut; what lies beside or has no area."""
    assert clipped(box(-5, -3, 10, 8), 20, 20).tolist() == [[0, 0], [10, 0], [10, 8], [0, 8]]
    triangle = np.array([[10, -10], [20, 10], [0, 10]], np.float32)
    assert sorted(clipped(triangle, 20, 20).tolist()) == [[0, 10], [5, 0], [15, 0], [20, 10]]
    whole = box(0, 0, 20, 20)
    assert clipped(whole, 20, 20) is whole
    np.testing.assert_array_equal(clipped(box(-5, -5, 50, 50), 20, 20).max(axis=0), [20, 20])
    for outside in (box(20, 0, 30, 10), box(-9, 0, 0, 10), box(5, -20, 9, -1), np.zeros((3, 2), np.float32) - 1):
        assert clipped(outside, 20, 20).shape == (0, 2)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_clipped_as_shapely_clips(seed: int) -> None:
    random = np.random.default_rng(seed)
    angles = np.sort(random.uniform(0, 2 * np.pi, random.integers(3, 13)))
    away = random.uniform(5, 40, len(angles))[:, None]
    polygon = (np.stack([np.cos(angles), np.sin(angles)], axis=1) * away + random.uniform(-20, 50, 2)).astype(
        np.float32
    )
    shape = Polygon(polygon)
    if not shape.is_valid:
        return
    found = clipped(polygon, 30, 20)
    expected = shape.intersection(Polygon([(0, 0), (30, 0), (30, 20), (0, 20)])).area
    area = Polygon(found).area if len(found) else 0.0
    assert area == pytest.approx(expected, rel=1e-4, abs=1e-3)


# --- pasted texts ----------------------------------------------------------------------------------------------------


def test_pasted_texts_lie_under_their_polygons_and_over_no_other() -> None:
    ground = painted(300, 400, [box(150, 100, 250, 200)])
    ground = replace(ground, texts=("old 0",))
    other = painted(240, 320, [box(5, 5, 25, 15), box(60, 20, 140, 44), box(20, 100, 100, 130), box(180, 90, 260, 200)])
    pasted = 0
    for seed in range(25):
        made = copy_paste(ground, other, CopyPaste(ratio=1.0), np.random.default_rng(seed))
        assert made.texts[0] == "old 0" and len(made.texts) == len(made.polygons_xy) == len(made.ignored)
        bounds = [(p.min(axis=0), p.max(axis=0)) for p in made.polygons_xy]
        for i, (low, high) in enumerate(bounds):
            assert (low >= -0.01).all() and (high <= [400.01, 300.01]).all()
            assert all((high <= a + 0.01).any() or (low >= b - 0.01).any() for a, b in bounds[:i])
        pasted += (
            assert_over_its_colour(replace(made, polygons_xy=made.polygons_xy[1:], texts=made.texts[1:]))
            if "text 0" not in made.texts
            else 0
        )
        np.testing.assert_array_equal(made.image[105:195, 155:245], ground.image[105:195, 155:245])
    assert ground.image[0, 0, 0] == GROUND


def test_how_many_texts_are_pasted() -> None:
    """A fifth of 100 texts; a third of 100, but 30 at most; one at least; of four corners, and none that is ignored."""
    ground = painted(2000, 2000, [])
    many = painted(
        1000,
        1000,
        [box(10 + 95 * (i % 10), 10 + 95 * (i // 10), 40 + 95 * (i % 10), 25 + 95 * (i // 10)) for i in range(100)],
    )
    random = np.random.default_rng(0)
    assert len(copy_paste(ground, many, CopyPaste(), random).texts) == 20
    assert len(copy_paste(ground, many, CopyPaste(ratio=0.34), random).texts) == 30
    few = painted(100, 100, [box(10, 10, 40, 25), curve(10, 40), box(50, 10, 90, 30)], [True, False, False])
    assert copy_paste(ground, few, CopyPaste(), random).texts == ("text 2",)
    assert copy_paste(ground, few, CopyPaste(ratio=1), random).texts == ("text 2",)
    assert same(copy_paste(ground, painted(9, 9, []), CopyPaste(), random), ground)


def test_what_has_no_room_is_not_pasted() -> None:
    full = painted(100, 100, [box(0, 0, 100, 100)])
    assert same(copy_paste(full, page(), CopyPaste(), np.random.default_rng(0)), full)
    small = painted(10, 10, [])
    assert same(copy_paste(small, page(), CopyPaste(), np.random.default_rng(0)), small)


# --- colours and settings --------------------------------------------------------------------------------------------


def test_colours_change_within_their_bounds() -> None:
    grey = np.full((4, 4, 3), 100, np.uint8)
    bright = ColourJitter(brightness=0.4, contrast=0, saturation=0, hue=0)
    values = {int(jitter_colour(grey, bright, np.random.default_rng(s))[0, 0, 0]) for s in range(60)}
    assert min(values) >= 60 and max(values) <= 140 and len(values) > 20
    for settings_of in (ColourJitter(brightness=0), ColourJitter(brightness=0, contrast=0)):
        np.testing.assert_allclose(jitter_colour(grey, settings_of, np.random.default_rng(1)), 100, atol=1)
    nothing = ColourJitter(brightness=0, contrast=0, saturation=0, hue=0)
    np.testing.assert_array_equal(jitter_colour(page().image, nothing, np.random.default_rng(1)), page().image)


def test_the_hue_turns() -> None:
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 2] = 200
    only = ColourJitter(brightness=0, contrast=0, saturation=0, hue=0.5)
    greatest = {int(jitter_colour(red, only, np.random.default_rng(s))[0, 0].argmax()) for s in range(30)}
    assert greatest == {0, 1, 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop": (0, 640)}, "augment.crop"),
        ({"fliplr": 1.5}, "augment.fliplr=1.5"),
        ({"scale": (0, 2)}, "augment.scale"),
        ({"rotate": (10, -10)}, "augment.rotate"),
        ({"tries": -1}, "augment.tries"),
    ],
)
def test_settings_that_are_wrong_are_said(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PageAugment(), **changes)
    with pytest.raises(ValueError, match=r"augment\.copy_paste"):
        CopyPaste(ratio=2)
    with pytest.raises(ValueError, match=r"augment\.colour"):
        ColourJitter(hue=0.6)
