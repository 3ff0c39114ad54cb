"""How a training goes on, on stderr: a bar on a terminal, otherwise a line now and then. No domain, no torch."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Of the steps since the last look. samples_per_second: of all processes. waiting: part of the time spent waiting
    for data, 0..1."""

    samples_per_second: float
    waiting: float


class Clock:
    """Counts samples and time between two looks."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._samples = 0
        self._waited = 0.0

    def count(self, samples: int, waited: float) -> None:
        """samples: taken in a step; waited: seconds until they were there."""
        self._samples += samples
        self._waited += waited

    def pause(self, seconds: float) -> None:
        """Leaves time out that was not training."""
        self._start += seconds

    def look(self) -> Pace:
        """The pace since the last look, or since the start."""
        now = time.perf_counter()
        spent = max(now - self._start, 1e-9)
        pace = Pace(samples_per_second=self._samples / spent, waiting=min(1.0, self._waited / spent))
        self._start, self._samples, self._waited = now, 0, 0.0
        return pace


class Display:
    """The bar, or the lines. shows: False on all processes but the first."""

    def __init__(self, *, steps: int, done: int, shows: bool) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._shows = shows
        self._steps, self._first, self._start = steps, done, time.perf_counter()
        self._bar: Progress | None = None
        if shows and sys.stderr.isatty():
            columns = (
                TextColumn("epoch {task.fields[epoch]}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, TextColumn("{task.fields[numbers]}"), console=self._console)
            self._task = self._bar.add_task("training", total=steps, completed=done, epoch=0, numbers="")

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, step: int, epoch: int, loss: float, lr: float, pace: Pace | None) -> None:
        """After each step. pace: where this step is one to be logged; without a terminal only these give a line."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step, epoch=epoch)
        if pace is None:
            return
        numbers = (
            f"loss {loss:.4f}  lr {lr:.3g}  {pace.samples_per_second:.1f} samples/s  waiting {100 * pace.waiting:.0f} %"
        )
        if self._bar is not None:
            self._bar.update(self._task, numbers=numbers)
        else:
            self.say(f"epoch {epoch}  step {step}/{self._steps}  {numbers}  {self._left(step)} left")

    def say(self, text: str) -> None:
        """One line."""
        if self._shows:
            self._console.print(text, markup=False)

    def _left(self, step: int) -> str:
        each = (time.perf_counter() - self._start) / max(1, step - self._first)
        seconds = round(each * max(0, self._steps - step))
        return f"{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
