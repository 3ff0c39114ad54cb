"""Batches for training: what each one holds is planned from (seed, epoch) alone, then made by worker processes.

A bad sample is replaced by the next good one, counted, and named once; where there is no good one that is an error.
"""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from atexit import register as at_exit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from zoo.interrupt import OutOfMemory
from zoo.ocr.evaluation import Samples
from zoo.ocr.samples import BadSample

Sample = TypeVar("Sample")
Item = TypeVar("Item")
MOST_BAD = 1000  # samples in a row, after which a set counts as bad as a whole


class Draw(NamedTuple):
    """One place in an epoch: which sample, and how often the epoch has had it before."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    again: int


class Work(NamedTuple):
    """One batch to be made. height, width: of its pictures in pixels."""

    epoch: int
    draws: tuple[Draw, ...]
    height: int
    width: int


class Made(NamedTuple):
    """A batch as it came from a worker, and a line for each sample that was bad on the way.

    none: why there is no batch, "" where there is one.
    """

    batch: Any
    bad: tuple[str, ...]
    none: str = ""


class AllBad(ValueError):
    """Of many samples in a row not one can be used."""


def random_of(seed: int, epoch: int, draw: Draw) -> np.random.Generator:
    """The randomness of one sample's augmentation: it depends on nothing but this."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch, draw.index, draw.again]))


def mixed(sizes: Sequence[int], ratios: Sequence[float | None], *, seed: int, epoch: int) -> list[Draw]:
    """The samples of one epoch in random order; indices count through the sources one after another.

    ratios: how many samples of each source an epoch takes for each one it has; None and 1 take every sample once. What
    is taken of a source that is not taken whole differs from epoch to epoch.
    """
    random = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    draws: list[Draw] = []
    start = 0
    for size, ratio in zip(sizes, ratios, strict=True):
        wanted = size if ratio is None else round(size * ratio)
        for again in range(-(-wanted // size) if size else 0):
            order = random.permutation(size)[: wanted - again * size]
            draws += [Draw(start + int(index), again) for index in order]
        start += size
    return [draws[i] for i in random.permutation(len(draws))]


def in_batches(
    draws: Sequence[Draw], batch: int, *, epoch: int, size: tuple[int, int], rank: int, world: int
) -> list[Work]:
    """One process's batches of a fixed size (height, width); what does not fill a batch on every process is left out.

    Raises ValueError where not one batch comes about.
    """
    count = len(draws) // (batch * world)
    if not count:
        raise ValueError(
            f"{len(draws)} samples make no batch of {batch} on {world} process(es): lower the batch or give more data"
        )
    mine = [draws[(i * world + rank) * batch : (i * world + rank + 1) * batch] for i in range(count)]
    return [Work(epoch, tuple(part), *size) for part in mine]


def good_items(
    samples: Samples[Sample],
    work: Work,
    make: Callable[[Sample, Draw, Work], Item],
) -> tuple[list[Item], list[str]]:
    """One item for each draw of a batch, and what was said of the bad samples whose places the next good ones took.

    `make` may raise BadSample itself, for what its augmentation left no use for. Raises AllBad when MOST_BAD samples
    in a row, or all of them, are bad.
    """
    items, bad = [], []
    size = len(samples)
    for draw in work.draws:
        for step in range(min(size, MOST_BAD)):
            index = (draw.index + step) % size
            try:
                items.append(make(samples[index], Draw(index, draw.again + step), work))
                break
            except BadSample as error:
                bad.append(str(error))
        else:
            raise AllBad(
                f"{min(size, MOST_BAD)} samples in a row cannot be used, so there is nothing to learn from; "
                f"the last: {bad[-1]}"
            )
    return items, bad


def _outlive_signals(worker: int) -> None:
    """A signal to stop goes to the whole process group; the training needs its workers until its checkpoint stands."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _kill(workers: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """Ends workers at the end of the program: Python and torch ask by SIGTERM, which they ignore, and then wait."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler takes a worker's end for an error
    for worker in workers:
        worker.kill()


class _Made(Dataset[Made]):
    """A batch for each `Work` that it is asked for."""

    def __init__(self, make: Callable[[Work], Made]) -> None:
        self.make = make

    def __getitem__(self, work: Work) -> Made:
        try:
            return self.make(work)
        except AllBad as error:  # as a value: torch would put the worker's traceback into the message
            return Made(None, (), str(error))


class _Order(Sampler[Work]):
    """The batches that are still to be made in this epoch."""

    def __init__(self) -> None:
        self.works: Sequence[Work] = ()

    def __iter__(self) -> Iterator[Work]:
        return iter(self.works)

    def __len__(self) -> int:
        return len(self.works)


@dataclass(frozen=True)
class Epoch:
    """The batches of an epoch from `start` on; its length is that of the whole epoch."""

    loader: Loader[Any]
    works: Sequence[Work]
    start: int

    def __len__(self) -> int:
        return len(self.works)

    def __iter__(self) -> Iterator[Any]:
        return self.loader.run(self.works[self.start :])


@dataclass
class Loader(Generic[Item]):
    """Makes the batches that `plan` lists for an epoch. workers: processes, 0 for this one.

    make: from a `Work` to a batch, picklable; it runs in the workers. bad: what was said of each bad sample so far.
    """

    plan: Callable[[int], list[Work]]
    make: Callable[[Work], Made]
    workers: int = 0
    pin: bool = False
    bad: dict[str, None] = field(default_factory=dict)
    _order: _Order = field(default_factory=_Order)
    _torch: DataLoader[Made] | None = None

    def batches(self, epoch: int, start: int = 0) -> Epoch:
        """The batches of an epoch, beginning with number `start`; those before it are not made."""
        return Epoch(self, self.plan(epoch), start)

    def run(self, works: Sequence[Work]) -> Iterator[Any]:
        """The batches of `works` in order."""
        self._order.works = works
        if self._torch is None:
            self._torch = DataLoader(
                _Made(self.make),
                batch_size=None,
                sampler=self._order,
                num_workers=self.workers,
                persistent_workers=self.workers > 0,
                pin_memory=self.pin,
                worker_init_fn=_outlive_signals,
                # Its own: iterating takes a number from it, and the global one belongs to the training.
                generator=torch.Generator().manual_seed(0),
            )
        for made in self._made(self._torch):
            if made.none:
                raise ValueError(made.none)
            self._name(made.bad)
            yield made.batch

    def _made(self, loader: DataLoader[Made]) -> Iterator[Made]:
        """What the workers make. Raises OutOfMemory where one of them was killed."""
        before = multiprocessing.active_children()
        try:
            batches = iter(loader)
            # Registered after torch's and Python's own handlers of the end, and so called before them.
            if started := [child for child in multiprocessing.active_children() if child not in before]:
                at_exit(_kill, started)
            yield from batches
        except RuntimeError as error:
            if "DataLoader worker" not in str(error) or "killed" not in str(error):
                raise
            raise OutOfMemory(
                f"a process that makes batches was killed, as the system does when memory (or /dev/shm) runs out: "
                f"lower workers, now {self.workers}, or the batch. {str(error).splitlines()[0]}"
            ) from None

    def _name(self, bad: Sequence[str]) -> None:
        for message in bad:
            if message not in self.bad:
                self.bad[message] = None
                warnings.warn(f"left out, {len(self.bad)} so far: {message}", stacklevel=2)
