"""The training loop that every domain uses unchanged: a task says what is learned, `fit` how long and by what means.

A training of odd shape is its own function in its domain.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from zoo import checkpoint, parallel
from zoo.interrupt import NotFinite, OutOfMemory, Signals
from zoo.optim import RunningMean, make_optimizer, make_schedule
from zoo.progress import Clock, Display
from zoo.recompute import recompute
from zoo.run import Run
from zoo.stepper import Means, Result, Stepper, make_scaler
from zoo.train_settings import Train
from zoo.train_state import Best, Progress, State, untouched

__all__ = ["Batches", "Best", "NotFinite", "OutOfMemory", "Outcome", "Run", "Task", "Train", "fit"]

MOST_OVERFLOWS = 50  # of fp16 in a row, after which smaller scales are not what is missing
Stopped = Literal["finished", "early", "signal"]


class Batches(Protocol):
    """The batches of an epoch. The length is that of the whole epoch, wherever the iteration begins."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


class Task(Protocol):
    """All that the loop knows of what is learned."""

    model: nn.Module

    def batches(self, epoch: int, start: int = 0) -> Batches:
        """This process's batches of an epoch, iterated from number `start` on without loading what lies before.

        Each is a tree (tuples, NamedTuples, lists, dicts) of tensors and plain values. The order depends on the seed
        and the epoch alone. With several processes (`parallel.data_rank`, `data_world`) all have as many batches, of
        the same size: what does not fill a batch everywhere is left out.
        """
        ...

    def losses(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Weighted scalars, each a mean over the batch; their sum is minimised.

        It calls `model`, which may be `self.model` in a wrapping.
        """
        ...

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Metrics, the same on every process; the first decides which weights are best, higher is better.

        Empty where there is nothing to evaluate on.
        """
        ...

    def names(self, batch: Any) -> list[str]:
        """One for each sample of a batch."""
        ...

    def pictures(self, model: nn.Module, batch: Any) -> dict[str, np.ndarray]:
        """uint8 BGR pictures (H, W, 3) for people, such as "inputs" after augmentation and "predictions"; or none."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a training came to. step: optimiser steps; epoch: complete ones; metrics: of the last evaluation."""

    step: int
    epoch: int
    metrics: dict[str, float]
    best: Best | None
    folder: Path
    stopped: Stopped


def fit(task: Task, settings: Train, run: Run) -> Outcome:
    """Trains task.model, which has the trained weights afterwards (not their running mean), and records it in `run`.

    With a resumed run it goes on at the last checkpoint, bit for bit on the CPU. Process 0's initial weights hold; the
    loss under accumulation is the mean over the samples of all its batches, and over processes the mean of theirs.
    SIGTERM and SIGINT end it after the present step with a checkpoint. Raises ValueError for settings that do not fit
    the task or the machine, NotFinite, OutOfMemory, and DiskFull (of zoo.checkpoint).
    """
    with contextlib.closing(run), Signals() as signals:
        return _Fit(task, settings, run, signals).train()


class _Fit:
    """One call of `fit`."""

    def __init__(self, task: Task, settings: Train, run: Run, signals: Signals) -> None:
        self.task, self.settings, self.run, self.signals = task, settings, run, signals
        self.device = parallel.start(settings.device)
        recompute(task.model, settings.recompute)
        model = parallel.distribute(task.model, settings.parallel, self.device)
        if settings.compile:
            task.model.compile()
        torch.manual_seed(settings.seed + parallel.data_rank())
        self.total = self._state(settings)
        self.stepper = Stepper(model, task.losses, self.state, settings)
        if run.resumed and (last := checkpoint.last(run.folder)) is not None:
            self.state.load(last)
        self.means = Means(self.progress.sums, self.progress.summed)
        self.clock = Clock()

    def _state(self, settings: Train) -> int:
        """Sets up all that changes, and gives the number of steps."""
        model = self.task.model
        per_epoch = math.ceil(len(self.task.batches(0)) / settings.accumulate)
        if not per_epoch:
            raise ValueError("the training data give no batch: lower the batch size or give more data")
        total = settings.steps or (settings.epochs or 0) * per_epoch
        optimizer = make_optimizer(model, settings.optimizer)
        self.state = State(
            model=model,
            optimizer=optimizer,
            schedule=make_schedule(
                optimizer, settings.schedule, steps=total, per_epoch=per_epoch, lr=settings.optimizer.lr
            ),
            scaler=make_scaler(settings, self.device),
            ema=RunningMean(model, settings.ema) if settings.ema is not None else None,
            device=self.device,
        )
        return total

    @property
    def progress(self) -> Progress:
        return self.state.progress

    @property
    def finished(self) -> bool:
        if self.settings.steps is not None:
            return self.progress.step >= self.settings.steps
        return self.progress.epoch >= (self.settings.epochs or 0)

    def train(self) -> Outcome:
        self.run.begin(self.progress.step, device=str(self.device), wandb=self.settings.wandb)
        stopped: Stopped | None = "early" if self.progress.early else None
        with Display(steps=self.total, done=self.progress.step, shows=parallel.rank() == 0) as self.display:
            self.stepper.train_mode()
            self.clock.look()
            while stopped is None and not self.finished:
                stopped = self._epoch()
        if stopped == "signal":
            self.display.say(
                f"stopped at step {self.progress.step}; go on with: python tools/train.py --resume {self.run.folder}"
            )
        return Outcome(
            step=self.progress.step,
            epoch=self.progress.epoch,
            metrics=self.progress.metrics,
            best=self.progress.best,
            folder=self.run.folder,
            stopped=stopped or "finished",
        )

    def _epoch(self) -> Stopped | None:
        """Goes on to the end of the epoch; why it is over, if it is."""
        epoch, now = self.progress.epoch, self.progress
        batches = self.task.batches(epoch, now.batch)
        full, source = len(batches), iter(batches)
        while now.epoch == epoch and not self.finished:
            asked = time.perf_counter()
            group = list(islice(source, min(self.settings.accumulate, full - now.batch)))
            if not group:
                raise ValueError(f"batches({epoch}): only {now.batch} of the {full} batches it says it has came")
            samples = [len(self.task.names(batch)) for batch in group]
            self.clock.count(sum(samples) * parallel.data_world(), time.perf_counter() - asked)
            group = [to_device(batch, self.device, self.settings.channels_last) for batch in group]
            result = self._step(group, samples)
            now.batch += len(group)
            if now.batch >= full:
                now.epoch, now.batch = epoch + 1, 0
            stopped = self._after(result, group[-1], ended=now.epoch if now.epoch > epoch else None)
            if stopped is not None:
                return stopped
        return None

    def _step(self, group: list[Any], samples: list[int]) -> Result:
        lr = self._lr()
        result = self.stepper.step(group, samples, stop=self.signals.asked)
        now = self.progress
        now.in_row = now.in_row + 1 if result.overflow else 0
        if not (result.finite or result.overflow) or now.in_row >= MOST_OVERFLOWS:
            self._not_finite(result, group, lr)
        now.step += 1
        now.overflows += result.overflow
        self.means.add(result.terms)
        with warnings.catch_warnings():
            # torch warns where the first step was skipped by the scaler: the rate goes by steps asked for, not made.
            warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*before.*optimizer.step.*")
            self.state.schedule.step()
        return result

    def _not_finite(self, result: Result, group: list[Any], lr: float) -> NoReturn:
        """Names the samples, draws them where they can be drawn, and raises."""
        step = self.progress.step + 1
        name = f"nan_step_{step}.json"
        terms = {term: value.item() for term, value in result.terms.items()}
        names = parallel.gather([one for batch in group for one in self.task.names(batch)])
        # As words: JSON has no NaN.
        shown = {term: str(value) for term, value in terms.items()}
        facts = {"step": step, "lr": lr, "norm": str(result.norm), "losses": shown, "samples": names}
        self.run.write(name, facts)
        try:
            with untouched(self.state.model, self.device):
                self._pictures(group[-1], "nan_", step)
        except (RuntimeError, ValueError, ArithmeticError) as error:
            # The network is broken, so drawing what it predicts may fail; what matters is raised below.
            self.display.say(f"no pictures of step {step}: {error}")
        raise NotFinite(step, terms, result.norm, lr, str(self.run.folder / name), skipped=self.progress.in_row)

    def _after(self, result: Result, batch: Any, *, ended: int | None) -> Stopped | None:
        """What comes between two steps: log, evaluation, checkpoint. ended: complete epochs, where one just was."""
        now = self.progress
        self._log(result)
        now.learned = now.learned or result.norm != 0
        if not now.learned and (ended or self.finished):
            raise ValueError(
                f"not one of the {now.step} steps so far had a gradient, so there is nothing to learn from: "
                "look whether the labels are all empty or ignored (zoo data check), and whether the weights are frozen"
            )
        improved = False
        if self.finished or self.settings.evaluate_every.due(now.step, ended):
            improved = self._evaluate(batch)
        patience = self.settings.early_stop.patience if self.settings.early_stop is not None else math.inf
        stopped: Stopped | None = "early" if now.worse >= patience else "signal" if result.stop else None
        if self.finished:
            stopped = "finished"
        now.early = stopped == "early"
        if stopped or improved or self.settings.save_every.due(now.step, ended):
            began = time.perf_counter()
            now.sums, now.summed = self.means.sums(), self.means.count
            self.state.save(self.run.folder, keep=self.settings.keep)
            self.clock.pause(time.perf_counter() - began)
        return stopped

    def _log(self, result: Result) -> None:
        now = self.progress
        due = now.step % self.settings.log_every == 0 or self.finished
        pace = self.clock.look() if due else None
        lr = self._lr()
        self.display.step(now.step, now.epoch, result.loss, lr, pace)
        if pace is None:
            return
        values = self.means.take(self.device)
        values = {"loss": sum(values.values()), **values, "lr": lr, "norm": result.norm}
        if self.settings.precision == "fp16":
            values |= {"scale": self.state.scaler.get_scale(), "overflows": float(now.overflows)}
        values |= {"samples_per_second": pace.samples_per_second, "waiting": pace.waiting}
        self.run.log("train", now.step, now.epoch, values)

    def _evaluate(self, batch: Any) -> bool:
        """Evaluates the weights, or their running mean; whether they are the best so far."""
        began = time.perf_counter()
        now, model = self.progress, self.state.model
        parallel.same_buffers(model)
        mean = self.state.ema.in_place() if self.state.ema is not None else contextlib.nullcontext()
        with mean, untouched(model, self.device), checkpoint.room_for("the report of an evaluation", self.run.folder):
            metrics = self.task.evaluate(model)
            self._pictures(batch, "", now.step)
        self.clock.pause(time.perf_counter() - began)
        if not metrics:
            if self.settings.early_stop is not None:
                raise ValueError("early_stop needs an evaluation, and there are no evaluation data")
            return False
        now.metrics = metrics
        self.run.log("evaluate", now.step, now.epoch, metrics)
        self.display.say(f"step {now.step}  " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
        return self._judge(*next(iter(metrics.items())))

    def _judge(self, name: str, metric: float) -> bool:
        now = self.progress
        margin = self.settings.early_stop.min_delta if self.settings.early_stop is not None else 0.0
        # NaN is not above anything and nothing is above NaN: it must not become the first best.
        if not math.isnan(metric) and (now.bar is None or metric > now.bar + margin):
            now.bar, now.worse = metric, 0
        else:
            now.worse += 1
        if math.isnan(metric) or (now.best is not None and metric <= now.best.metric):
            return False
        now.best = Best(name, metric, now.step, now.epoch)
        return True

    def _pictures(self, batch: Any, prefix: str, step: int) -> None:
        for name, picture in self.task.pictures(self.state.model, batch).items():
            self.run.picture(step, prefix + name, picture)

    def _lr(self) -> float:
        return max(float(group["lr"]) for group in self.state.optimizer.param_groups)


def to_device(batch: Any, device: torch.device, channels_last: bool = False) -> Any:
    """A tree of tensors and plain values on a device; channels_last lays pictures (N, C, H, W) out as N, H, W, C."""
    if isinstance(batch, Tensor):
        is_picture = channels_last and batch.ndim == 4 and batch.is_floating_point()
        layout = torch.channels_last if is_picture else torch.preserve_format
        return batch.to(device, non_blocking=True, memory_format=layout)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(part, device, channels_last) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(to_device(part, device, channels_last) for part in batch)
    if isinstance(batch, dict):
        return {name: to_device(part, device, channels_last) for name, part in batch.items()}
    return batch
