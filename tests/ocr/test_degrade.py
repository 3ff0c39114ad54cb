"""Degraded pages and lines: regions move with their pixels, covered ones are ignored, text stays legible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ocr.painted import assert_over_its_colour, box, painted, same
from zoo.ocr.degrade import (
    CHANCES,
    NO_DEGRADE,
    Degrade,
    Folds,
    Stamped,
    covered_share,
    degrade_line,
    degrade_page,
    fade,
    fold,
    folded,
    jpeg,
    lighting,
    make_folds,
    moire,
    shadow,
    stamp,
)
from zoo.ocr.samples import LineSample, PageSample
from zoo.ocr.seal import draw_seal

ALL = Degrade(stamp=1, fade=1, fold=1, lighting=1, shadow=1, moire=1, jpeg=1)


def page() -> PageSample:
    triangle = np.array([[150, 30], [220, 60], [160, 90]], np.float32)
    return painted(240, 320, [box(20, 30, 100, 60), triangle, box(200, 130, 300, 170), box(0, 200, 60, 240)])


def only(name: str) -> Degrade:
    return replace(NO_DEGRADE, **{name: 1.0})


def written(height: int = 48, width: int = 200) -> LineSample:
    """Black bars on white paper."""
    image = np.full((height, width, 3), 250, np.uint8)
    image[height // 4 : -height // 4, 10:-10:12] = image[height // 4 : -height // 4, 11:-10:12] = 20
    image.flags.writeable = False
    return LineSample(image, "|||||", "line")


# --- every one of them -----------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 80), width=st.integers(1, 80), count=st.integers(0, 4))
def test_any_page_keeps_its_size_and_its_regions(seed: int, height: int, width: int, count: int) -> None:
    random = np.random.default_rng(seed)
    polygons = [
        (random.uniform(0, 80, 2) + random.normal(0, random.choice([0, 5, 500]), (random.integers(3, 13), 2)))
        for _ in range(count)
    ]
    sample = painted(height, width, [p.astype(np.float32) for p in polygons], list(random.random(count) < 0.5))
    made = degrade_page(sample, ALL, np.random.default_rng(seed))
    assert made.image.shape == (height, width, 3) and made.image.dtype == np.uint8
    assert made.texts == sample.texts and len(made.polygons_xy) == count and made.ignored.dtype == bool
    assert made.ignored[sample.ignored].all()
    assert all(np.isfinite(p).all() and p.dtype == np.float32 for p in made.polygons_xy)
    assert same(made, degrade_page(sample, ALL, np.random.default_rng(seed)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 80), width=st.integers(1, 300))
def test_any_line_keeps_its_size_and_text(seed: int, height: int, width: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    image.flags.writeable = False
    made, again = (degrade_line(LineSample(image, "abc", "n"), ALL, np.random.default_rng(seed)) for _ in range(2))
    assert made.text == "abc" and made.image.shape == image.shape and made.image.dtype == np.uint8
    np.testing.assert_array_equal(made.image, again.image)


def test_without_chances_nothing_changes() -> None:
    sample, line = page(), written()
    assert degrade_page(sample, NO_DEGRADE, np.random.default_rng(0)).image is sample.image
    assert degrade_line(line, NO_DEGRADE, np.random.default_rng(0)).image is line.image


@pytest.mark.parametrize("name", CHANCES)
def test_each_one_changes_the_picture_by_itself(name: str) -> None:
    seeds = range(5)
    sample, line = page(), written()
    assert all((degrade_page(sample, only(name), np.random.default_rng(s)).image != sample.image).any() for s in seeds)
    changed = [(degrade_line(line, only(name), np.random.default_rng(s)).image != line.image).any() for s in seeds]
    assert sum(changed) >= 4  # a seal may miss a line, or cover too much of it


@pytest.mark.parametrize("name", CHANCES)
def test_each_one_befalls_its_share(name: str) -> None:
    quarter = replace(NO_DEGRADE, **{name: 0.25})
    tiny = painted(20, 20, [])
    changed = [degrade_page(tiny, quarter, np.random.default_rng(s)).image is not tiny.image for s in range(400)]
    assert 60 <= sum(changed) <= 140  # four standard deviations around 100


# --- folds -----------------------------------------------------------------------------------------------------------


def test_regions_move_with_a_fold() -> None:
    seen = moved = 0
    for seed in range(20):
        folds = make_folds(240, 320, np.random.default_rng(seed))._replace(light=np.ones((240, 320), np.float32))
        sample = page()
        polygons = tuple(folded(p, folds) for p in sample.polygons_xy)
        made = replace(sample, image=fold(sample.image, folds), polygons_xy=polygons)
        seen += assert_over_its_colour(made)
        moved += any(np.abs(a - b).max() > 2 for a, b in zip(polygons, sample.polygons_xy, strict=True))
    assert seen > 40 and moved > 5


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(16, 200), width=st.integers(16, 200))
def test_the_way_back_of_a_fold(seed: int, height: int, width: int) -> None:
    """A pixel's middle, sent where it comes from and folded again, is where it was; the picture's edges stay."""
    random = np.random.default_rng(seed)
    folds = make_folds(height, width, random)
    y, x = random.integers(0, height, 20), random.integers(0, width, 20)
    middles = np.stack([x, y], axis=1) + 0.5
    flat = middles + np.stack([folds.dx[y, x], folds.dy[y, x]], axis=1)
    np.testing.assert_allclose(folded(flat.astype(np.float32), folds), middles, atol=0.1)
    edge = np.concatenate([folds.dx[0], folds.dx[-1], folds.dy[:, 0], folds.dy[:, -1]])
    assert np.abs(edge).max() < 1.5


def test_a_fold_by_hand() -> None:
    """Every pixel comes from 3 to its right and 2 below, so that points go 3 to the left and 2 up."""
    shift = Folds(np.full((9, 9), 3, np.float32), np.full((9, 9), 2, np.float32), np.ones((9, 9), np.float32))
    np.testing.assert_allclose(folded(np.array([[5, 5], [6, 8]]), shift), [[2, 3], [3, 6]], atol=1e-5)
    image = np.arange(81, dtype=np.uint8).reshape(9, 9, 1).repeat(3, axis=2)
    np.testing.assert_array_equal(fold(image, shift)[:7, :6], image[2:, 3:])


# --- seals -----------------------------------------------------------------------------------------------------------


def test_the_covered_share_by_hand() -> None:
    """Solid ink over 10 x 20 pixels, from (10, 10): half of the first box, all of the second, none of the third."""
    ink = np.full((20, 10), 255, np.uint8)
    ink[:, 5:] = 128
    stamped = Stamped(np.zeros((40, 40, 3), np.uint8), ink, (10, 10))
    assert covered_share(stamped, box(0, 12, 20, 28)) == pytest.approx(
        170 / 357
    )  # rows 12..28 of columns 10..19, of 0..20
    assert covered_share(stamped, box(12, 12, 18, 28)) == pytest.approx(1)
    assert covered_share(stamped, box(25, 10, 39, 30)) == 0
    thin = stamped._replace(ink=np.full((20, 10), 127, np.uint8))
    assert covered_share(thin, box(12, 12, 18, 28)) == 0
    assert covered_share(stamped._replace(ink=np.zeros((0, 0), np.uint8)), box(0, 0, 9, 9)) == 0


def test_a_covered_region_is_ignored_and_the_others_are_not() -> None:
    """Where any ink is too much, a region is ignored only if the seal touches it; where none is, never."""
    far = [box(5, 5, 60, 20), box(60, 60, 240, 240)]
    strict, ignored = replace(only("stamp"), ignore_over=0.0), []
    for seed in range(60):
        made = degrade_page(painted(300, 300, far), strict, np.random.default_rng(seed))
        changed = (made.image != painted(300, 300, far).image).any(axis=2)
        assert made.ignored[0] <= changed[4:22, 4:62].any()
        assert made.ignored[1] <= changed[59:242, 59:242].any()
        ignored.append(made.ignored[1])
        lenient = degrade_page(painted(300, 300, far), replace(strict, ignore_over=1.0), np.random.default_rng(seed))
        assert not lenient.ignored.any()
    assert 10 < sum(ignored) < 60


def test_dark_text_stays_under_a_seal() -> None:
    image = np.full((120, 120, 3), 245, np.uint8)
    image[50:70, 10:110] = 15
    for seed in range(20):
        stamped = stamp(image, 100, np.array([60, 60]), np.random.default_rng(seed))
        assert stamped.image[52:68, 12:108].max() <= 15
        assert (stamped.image[stamped.image.max(axis=2) > 60].max(axis=1) > 60).all()
        assert (stamped.image <= image).all() and (stamped.image[:45] < image[:45]).any()


def test_a_seal_beyond_the_picture_changes_nothing() -> None:
    image = np.full((50, 50, 3), 200, np.uint8)
    stamped = stamp(image, 20, np.array([90, 90]), np.random.default_rng(0))
    assert stamped.image is image and covered_share(stamped, box(0, 0, 50, 50)) == 0


@pytest.mark.parametrize("size", [16, 17, 120])
def test_seals_differ_and_leave_paper_free(size: int) -> None:
    seals = [draw_seal(size, np.random.default_rng(seed)) for seed in range(10)]
    assert all(s.shape == (size, size) and s.dtype == np.uint8 for s in seals)
    assert all(0.1 < (s > 60).mean() < 0.7 for s in seals) and not np.array_equal(seals[0], seals[1])


def test_a_line_under_too_much_ink_is_not_stamped() -> None:
    """Ink of less than half opacity takes at most 0.5 * (1 - 15 / 255) of the paper's 250, which is 118."""
    line, darkest = written(), {}
    for over in (0.0, 1.0):
        stamping = replace(only("stamp"), ignore_over=over)
        made = [degrade_line(line, stamping, np.random.default_rng(seed)).image for seed in range(30)]
        darkest[over] = max((line.image.astype(int) - image).max() for image in made)
    assert darkest[0.0] <= 118 < darkest[1.0]


# --- light and ink ---------------------------------------------------------------------------------------------------


def test_text_is_still_told_from_paper() -> None:
    """Of bars at 20 on paper at 250, a fifth of the contrast is left wherever one looks, after each by itself."""
    image = written(60, 240).image
    bars, paper = image[30, :, 0] < 100, image[30, :, 0] > 200
    for seed in range(30):
        random = np.random.default_rng(seed)
        for change in (fade, lighting, shadow, moire):
            row = change(image, random)[30].astype(float).mean(axis=1)
            for left in range(0, 240, 60):
                part = slice(left, left + 60)
                contrast = row[part][paper[part]].mean() - row[part][bars[part]].mean()
                assert contrast > 0.2 * 230, change.__name__


def test_fading_brings_ink_to_the_paper_which_stays() -> None:
    for values in ((20, 250), (230, 10)):  # ink, paper: dark on light and light on dark
        image = np.full((60, 200, 3), values[1], np.uint8)
        image[20:40, 20:180:8] = values[0]
        faded = fade(image, np.random.default_rng(1))
        assert np.abs(faded[:10].astype(int) - values[1]).max() <= 1
        before, after = (np.abs(p[30, 20:180:8].astype(float) - values[1]).mean() for p in (image, faded))
        assert 0.25 * before < after < 0.95 * before


def test_jpeg_of_low_quality_changes_more() -> None:
    image = written().image
    low, high = (np.abs(jpeg(image, quality).astype(int) - image).mean() for quality in (10, 95))
    assert low > 2 * high > 0


def test_a_share_out_of_range_is_said() -> None:
    with pytest.raises(ValueError, match=r"degrade\.fold=1\.2"):
        Degrade(fold=1.2)
    with pytest.raises(ValueError, match=r"degrade\.ignore_over=-1"):
        Degrade(ignore_over=-1)
