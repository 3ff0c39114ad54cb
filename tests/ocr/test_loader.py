"""Plans of epochs, replacement of bad samples, and the loader with and without worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zoo.ocr.loader import Draw, Loader, Made, Work, good_items, in_batches, mixed, random_of
from zoo.ocr.samples import BadSample


class Numbers:
    """Samples that are their own index; some are bad."""

    def __init__(self, size: int, bad: frozenset[int] = frozenset()) -> None:
        self.size, self.bad = size, bad

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if index in self.bad:
            raise BadSample(f"list.txt:{index + 1}: is bad")
        return index


class Make:
    """A batch of (index, a random number)."""

    def __init__(self, samples: Numbers) -> None:
        self.samples = samples

    def __call__(self, work: Work) -> Made:
        items, bad = good_items(self.samples, work, self._item)
        return Made(torch.tensor(items), tuple(bad))

    def _item(self, sample: int, draw: Draw, work: Work) -> tuple[float, float]:
        return float(sample), float(random_of(3, work.epoch, draw).random())


def loader(samples: Numbers, batch: int = 2, workers: int = 0) -> Loader[Any]:
    def plan(epoch: int) -> list[Work]:
        return in_batches(
            mixed([len(samples)], [None], seed=3, epoch=epoch), batch, epoch=epoch, size=(1, 1), rank=0, world=1
        )

    return Loader(plan, Make(samples), workers)


def test_an_epoch_has_every_sample_once_in_its_own_order() -> None:
    first, second = (mixed([5, 3], [None, 1.0], seed=1, epoch=epoch) for epoch in (0, 1))
    assert sorted(draw.index for draw in first) == sorted(draw.index for draw in second) == list(range(8))
    assert first != second
    assert first == mixed([5, 3], [None, 1.0], seed=1, epoch=0)
    assert mixed([], [], seed=0, epoch=0) == mixed([0], [2.0], seed=0, epoch=0) == []


def test_ratios_mix_sources() -> None:
    """Of ten 0.3 are three different ones; of four 2.5 are ten, each twice or three times."""
    draws = mixed([10, 4], [0.3, 2.5], seed=1, epoch=0)
    counts = Counter(draw.index for draw in draws)
    general, own = ([index for index in counts if (index < 10) is first] for first in (True, False))
    assert [counts[index] for index in general] == [1, 1, 1]
    assert sorted(counts[index] for index in own) == [2, 2, 3, 3]
    assert len(set(draws)) == len(draws), "no repetition is augmented as the one before"


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 3))
def test_processes_share_an_epoch(count: int, batch: int, world: int) -> None:
    draws = [Draw(i, 0) for i in range(count)]
    if count < batch * world:
        with pytest.raises(ValueError, match="make no batch"):
            in_batches(draws, batch, epoch=0, size=(8, 8), rank=0, world=world)
        return
    shares = [in_batches(draws, batch, epoch=0, size=(8, 8), rank=rank, world=world) for rank in range(world)]
    assert {len(share) for share in shares} == {count // (batch * world)}
    seen = [draw.index for share in shares for work in share for draw in work.draws]
    assert len(seen) == len(set(seen)) == count // (batch * world) * batch * world


@pytest.mark.parametrize("workers", [0, 2])
def test_going_on_within_an_epoch(workers: int) -> None:
    """The rest of an epoch is what it would have been, with workers too; the length stays that of the whole."""
    whole = list(loader(Numbers(9)).batches(4))
    assert len(whole) == 4
    other = loader(Numbers(9), workers=workers)
    rest = other.batches(4, start=2)
    assert len(rest) == 4
    assert all(torch.equal(a, b) for a, b in zip(rest, whole[2:], strict=True))
    again = list(other.batches(4))  # the same workers, after an epoch that was cut short
    assert all(torch.equal(a, b) for a, b in zip(again, whole, strict=True))


def test_a_broken_off_epoch_leaves_workers_usable() -> None:
    made = loader(Numbers(9), workers=1)
    first = next(iter(made.batches(0)))
    assert torch.equal(next(iter(made.batches(0))), first)


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    list(loader(Numbers(6)).batches(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_sample_is_replaced_and_named_once(workers: int) -> None:
    made = loader(Numbers(6, frozenset({2, 3})), workers=workers)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        seen = [int(index) for epoch in (0, 1) for batch in made.batches(epoch) for index in batch[:, 0]]
    assert Counter(seen) == {0: 2, 1: 2, 4: 6, 5: 2}, "4 stands in for 2 and 3 in both epochs"
    messages = sorted(str(one.message).partition(": ")[2] for one in said)
    assert messages == ["list.txt:3: is bad", "list.txt:4: is bad"]
    assert len(made.bad) == 2


def test_all_bad_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match=r"4 samples in a row cannot be used.*the last: list\.txt:\d: is bad"):
        list(loader(Numbers(4, frozenset(range(4)))).batches(0))


def test_no_data_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 samples make no batch of 2"):
        loader(Numbers(0)).batches(0)


def test_randomness_depends_on_seed_epoch_and_draw_alone() -> None:
    values = {random_of(s, e, Draw(i, a)).random() for s in (0, 1) for e in (0, 1) for i in (0, 1) for a in (0, 1)}
    assert len(values) == 16
    assert random_of(1, 2, Draw(3, 0)).random() == random_of(1, 2, Draw(3, 0)).random()
    assert isinstance(random_of(0, 0, Draw(0, 0)), np.random.Generator)


def _plan(epoch: int) -> list[Work]:
    return [Work(epoch, (Draw(i, 0),), 32, 32) for i in range(12)]


def _make(work: Work) -> Made:
    return Made(work.draws[0].index, ())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_leaves_the_workers_at_work(number: signal.Signals) -> None:
    loader = Loader(_plan, _make, workers=2)
    others = multiprocessing.active_children()
    seen: list[int] = []
    for index in loader.batches(0):
        if len(seen) == 1:  # both workers have given a batch, so both are set up
            children = [child for child in multiprocessing.active_children() if child not in others]
            assert len(children) == 2
            for child in children:
                assert child.pid is not None
                os.kill(child.pid, number)
            time.sleep(0.2)
            assert all(child.is_alive() for child in children)
        seen.append(int(index))
    assert seen == list(range(12))
