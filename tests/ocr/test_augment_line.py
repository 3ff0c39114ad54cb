"""Augmented lines keep their text, joined ones fit, and batches of several sizes are shared out fairly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.ocr import tia
from zoo.ocr.augment_line import (
    NO_LINE_AUGMENT,
    LineAugment,
    add_noise,
    augment_line,
    blur,
    bucket_batches,
    concat_lines,
    crop,
    fit_line,
    jitter,
    recolour,
)
from zoo.ocr.degrade import Degrade
from zoo.ocr.predict import line_tensor
from zoo.ocr.samples import LineSample


def line(height: int, width: int, text: str = "abc", seed: int = 0) -> LineSample:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    image.flags.writeable = False
    return LineSample(image, text, f"line {text}")


EVERY = LineAugment(
    tia=1,
    perspective=1,
    crop=1,
    blur=1,
    colour=1,
    jitter=1,
    noise=1,
    invert=1,
    degrade=Degrade(fold=1, stamp=1, fade=1),
)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 70), width=st.integers(1, 300))
def test_any_line_keeps_its_text(seed: int, height: int, width: int) -> None:
    """Also pictures of one row or one column; equal seeds give equal pictures, and the input is not written to."""
    for recipe in (LineAugment(), EVERY):
        made, again = (augment_line(line(height, width), recipe, np.random.default_rng(seed)) for _ in range(2))
        assert made.text == "abc" and made.name == "line abc"
        assert made.image.dtype == np.uint8 and made.image.ndim == 3 and made.image.shape[2] == 3
        assert made.image.shape[1] == width and 0.8 * height <= made.image.shape[0] <= height
        np.testing.assert_array_equal(made.image, again.image)


def test_without_chances_nothing_changes() -> None:
    sample = line(48, 100)
    assert augment_line(sample, NO_LINE_AUGMENT, np.random.default_rng(0)).image is sample.image


@pytest.mark.parametrize("name", ["tia", "perspective", "crop", "blur", "invert"])
def test_each_step_befalls_its_share(name: str) -> None:
    sample, some = line(24, 40), replace(NO_LINE_AUGMENT, **{name: 0.4})
    changed = [augment_line(sample, some, np.random.default_rng(s)).image is not sample.image for s in range(300)]
    assert 85 <= sum(changed) <= 155  # four standard deviations around 120


def test_steps_by_hand() -> None:
    sample = line(60, 90)
    inverted = augment_line(sample, replace(NO_LINE_AUGMENT, invert=1), np.random.default_rng(0)).image
    np.testing.assert_array_equal(inverted, 255 - sample.image)
    grey = np.full((20, 20, 3), 100, np.uint8)
    assert {int(recolour(grey, 0.3, np.random.default_rng(s))[0, 0, 0]) for s in range(99)} <= set(range(70, 131))
    np.testing.assert_array_equal(recolour(grey, 0.0, np.random.default_rng(0)), grey)
    np.testing.assert_array_equal(blur(grey), grey)
    dot = np.zeros((9, 9, 3), np.uint8)
    dot[4, 4] = 255
    weight = np.exp(-(np.arange(-2, 3) ** 2) / 2.0)
    expected = 255 * (weight[2] / weight.sum()) ** 2
    assert blur(dot)[4, 4, 0] == pytest.approx(expected, abs=1)


def test_noise_has_its_sigma() -> None:
    noisy = add_noise(np.full((200, 200, 3), 128, np.uint8), 8, np.random.default_rng(0)).astype(float)
    assert noisy.std() == pytest.approx(8, rel=0.03) and noisy.mean() == pytest.approx(128, abs=0.2)
    nothing = np.full((9, 9, 3), 128, np.uint8)
    np.testing.assert_array_equal(add_noise(nothing, 0, np.random.default_rng(0)), nothing)


def test_a_crop_takes_one_to_eight_rows_above_or_below_and_a_sixth_at_most() -> None:
    for height, most in ((48, 8), (90, 8), (20, 3), (6, 1)):
        image, seen = line(height, 30).image, set()
        for seed in range(200):
            made = crop(image, np.random.default_rng(seed))
            gone = height - len(made)
            above = np.array_equal(made, image[gone:])
            assert above or np.array_equal(made, image[: height - gone])
            seen.add((gone, above))
        assert seen == {(gone, above) for gone in range(1, most + 1) for above in (True, False)}


def test_jitter_smears_large_pictures_only() -> None:
    small = line(48, 300).image
    assert jitter(small, np.random.default_rng(0)) is small  # a hundredth of 48 is no pixel
    large = line(300, 400).image
    made = [jitter(large, np.random.default_rng(s)) for s in range(30)]
    shifts = {next(d for d in range(3) if np.array_equal(m[d:, d:], large[: 300 - d, : 400 - d])) for m in made}
    assert shifts == {0, 1, 2}


# --- bending ---------------------------------------------------------------------------------------------------------


def test_points_that_stay_leave_the_line_as_it_is() -> None:
    image = line(37, 101).image
    points = np.array([[0, 0], [101, 0], [101, 37], [0, 37], [50, 0.0]])
    np.testing.assert_array_equal(tia.warp(image, points, points), image)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_moving_least_squares_keep_rotations_and_reach_their_points(seed: int) -> None:
    """Points turned and shifted as a whole carry every place along; any points are reached by themselves."""
    random = np.random.default_rng(seed)
    points, places = (random.uniform(0, 100, n) + 1j * random.uniform(0, 50, n) for n in (6, 20))
    turn, shift = np.exp(1j * random.uniform(0, 2 * np.pi)), complex(*random.uniform(-20, 20, 2))
    np.testing.assert_allclose(tia.deformed(places, points, points * turn + shift), places * turn + shift, atol=1e-6)
    moved = points + random.normal(0, 5, 6) + 1j * random.normal(0, 5, 6)
    np.testing.assert_allclose(tia.deformed(points, points, moved), moved, atol=0.05)


MARKS = ((40, 40, 230), (40, 220, 40), (230, 60, 40), (30, 220, 230), (230, 40, 220), (220, 220, 30))


@pytest.mark.parametrize("height", [20, 48, 64])
@pytest.mark.parametrize("name", ["distort", "stretch", "perspective"])
def test_bending_cuts_nothing_off(name: str, height: int) -> None:
    """Marks in the corners and in the middle of the upper and the lower edge can be seen afterwards."""
    side = max(4, height // 6)
    lefts, tops = (0, 118, 240 - side), (0, height - side)
    image = np.zeros((height, 240, 3), np.uint8)
    for i, colour in enumerate(MARKS):
        left, top = lefts[i // 2], tops[i % 2]
        image[top : top + side, left : left + side] = colour
    changed = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        if name == "perspective":
            made = tia.perspective(image, random)
        else:
            made = (tia.distort if name == "distort" else tia.stretch)(image, int(random.integers(3, 7)), random)
        assert made.shape == image.shape and made.dtype == np.uint8
        changed += (made != image).any()
        for colour in MARKS:
            away = np.abs(made.astype(int) - colour).max(axis=2)
            assert (away < 90).any(), f"seed {seed}: the mark {colour} is gone"
    assert changed == 60


def test_a_tilted_line_keeps_half_of_its_height_at_each_end() -> None:
    image = np.zeros((40, 120, 3), np.uint8)
    image[1:-1, 1:5] = image[1:-1, -5:-1] = 255
    for seed in range(50):
        made = tia.perspective(image, np.random.default_rng(seed))[..., 0] > 100
        assert made[:, :8].any(axis=1).sum() >= 17 and made[:, -8:].any(axis=1).sum() >= 17


# --- joined lines ----------------------------------------------------------------------------------------------------


def test_lines_are_joined_at_one_height() -> None:
    """40 x 80 becomes 96 wide at height 48, and 24 x 30 becomes 60."""
    joined = concat_lines(line(40, 80, "ab"), [line(24, 30, "cde")], 25, 320 / 48)
    assert joined.image.shape == (48, 156, 3) and joined.text == "abcde" and joined.name == "line ab + line cde"
    assert joined.image.dtype == np.uint8


def test_joining_stops_at_the_first_line_that_does_not_fit() -> None:
    first, long, short = line(48, 96, "ab"), line(48, 48, "cdefg"), line(48, 24, "h")
    assert concat_lines(first, [long, short], 6, 9).text == "ab"
    assert concat_lines(first, [long, short], 7, 9).text == "abcdefg"
    assert concat_lines(first, [short, long], 7, 9).text == "abh"
    assert concat_lines(first, [short, long], 25, 3.4).text == "abh"
    assert concat_lines(first, [short, long], 25, 3.5).text == "abhcdefg"
    assert concat_lines(first, [short], 25, 2.4) is first and concat_lines(first, [], 25, 9) is first


# --- fitted lines ----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(height=st.integers(1, 90), width=st.integers(1, 500), wide=st.integers(1, 400))
def test_training_and_reading_fit_lines_alike(height: int, width: int, wide: int) -> None:
    image = line(height, width).image
    np.testing.assert_array_equal(fit_line(image, 48, wide), line_tensor(image, wide)[0])


def test_fitted_by_hand() -> None:
    """White at 2 x 3 becomes 32 x 48 of 1, and zeros behind it; a longer line fills the width."""
    white = np.full((2, 3, 3), 255, np.uint8)
    fitted = fit_line(white, 32, 100)
    assert fitted.shape == (3, 32, 100) and fitted.dtype == np.float32
    np.testing.assert_allclose(fitted[..., :48], 1)
    assert not fitted[..., 48:].any()
    np.testing.assert_allclose(fit_line(np.zeros((5, 500, 3), np.uint8), 64, 320), -1)


# --- batches ---------------------------------------------------------------------------------------------------------

SCALES = ((320, 32), (320, 48), (320, 64))
Batches = list[tuple[int, int, np.ndarray]]


def batches(ratios: np.ndarray, rank: int = 0, world: int = 1, epoch: int = 0, **changes: object) -> Batches:
    arguments = {"scales": SCALES, "first_batch": 192, "seed": 7, "drop_last": True} | changes
    return bucket_batches(ratios, epoch=epoch, rank=rank, world=world, **arguments)  # type: ignore[arg-type]


def test_the_published_scales_keep_the_number_of_pixels() -> None:
    """192 lines of 320 x 32, 128 of 320 x 48, 96 of 320 x 64, in equal numbers of batches."""
    made = batches(np.full(416 * 5, 10.0))
    assert sorted({(h, w, len(part)) for h, w, part in made}) == [(32, 320, 192), (48, 320, 128), (64, 320, 96)]
    assert [sum(h == height for h, _, _ in made) for height in (32, 48, 64)] == [5, 5, 5]
    assert sorted(np.concatenate([part for _, _, part in made])) == list(range(416 * 5))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 300),
    world=st.integers(1, 3),
    first=st.integers(1, 20),
    drop_last=st.booleans(),
)
def test_batches_of_any_lines(seed: int, count: int, world: int, first: int, drop_last: bool) -> None:
    ratios = np.random.default_rng(seed).lognormal(1, 1, count)
    ranks = [batches(ratios, r, world, first_batch=first, seed=seed, drop_last=drop_last) for r in range(world)]
    sizes = [[(h, w, len(part)) for h, w, part in made] for made in ranks]
    assert all(size == sizes[0] for size in sizes)
    everything = [int(i) for made in ranks for _, _, part in made for i in part]
    if drop_last:
        assert len(everything) == len(set(everything))
        assert count - len(everything) < 320 * 32 * first // (8 * 32) * world + world
    else:
        assert set(everything) == set(range(count))
    for made in ranks:
        for height, width, part in made:
            assert (320, height) in SCALES and 8 <= width <= 320 and width % 8 == 0
            assert len(part) * height * width <= max(320 * 32 * first, height * width)
            assert width == 320 or width >= height * ratios[part].max()


def test_lines_of_similar_ratio_go_together() -> None:
    """With one half of the lines eight times as long, few pixels are padding."""
    ratios = np.repeat([1.0, 8.0], 2000)
    made = batches(ratios, scales=((512, 48),), first_batch=16)
    padded = sum(h * w * len(part) for h, w, part in made)
    needed = sum(48 * 48 * ratios[part].sum() for _, _, part in made)
    assert needed / padded > 0.9
    assert {w for _, w, _ in made} == {48, 384}


def test_epochs_differ_and_the_same_one_does_not() -> None:
    ratios = np.random.default_rng(0).lognormal(1, 1, 500)

    def plain(made: Batches) -> list[tuple[int, int, list[int]]]:
        return [(h, w, part.tolist()) for h, w, part in made]

    assert plain(batches(ratios, first_batch=8)) == plain(batches(ratios, first_batch=8))
    assert plain(batches(ratios, first_batch=8)) != plain(batches(ratios, first_batch=8, epoch=1))
    assert plain(batches(ratios, first_batch=8)) != plain(batches(ratios, first_batch=8, seed=8))


def test_what_is_left_out_differs_between_epochs() -> None:
    ratios = np.linspace(0.5, 10, 100)
    seen: set[int] = set()
    for epoch in range(40):
        seen |= {int(i) for _, _, part in batches(ratios, epoch=epoch, first_batch=3) for i in part}
    assert seen == set(range(100))


def test_no_lines_make_no_batches() -> None:
    assert batches(np.zeros(0)) == [] and batches(np.zeros(0), drop_last=False) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": ()}, "scales="),
        ({"first_batch": 0}, "first_batch=0"),
        ({"rank": 2, "world": 2}, "rank=2 of world=2"),
    ],
)
def test_buckets_that_are_wrong_are_said(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(np.ones(3), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blur": 2}, r"augment\.blur=2"),
        ({"segments": (5, 3)}, r"augment\.segments"),
        ({"noise_sigma": -1}, r"augment\.noise_sigma"),
    ],
)
def test_settings_that_are_wrong_are_said(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LineAugment(), **changes)
