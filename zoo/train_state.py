"""All that changes in a training and must be as it was when it goes on: into a checkpoint and out of it. No domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from zoo import checkpoint, parallel
from zoo.optim import RunningMean


@dataclass(frozen=True)
class Best:
    """The best evaluation: the metric that decides, and when."""

    name: str
    metric: float
    step: int
    epoch: int


@dataclass
class Progress:
    """How far a training has come. step: optimiser steps; epoch: complete ones; batch: batches of the one begun.

    bar: what an evaluation must pass to count for early stopping; worse: evaluations in a row that did not; early:
    that has ended the training. sums: of the loss terms over `summed` steps since the last log. overflows: steps that
    fp16 skipped; in_row: those just now, without a good one between. learned: whether any step had a gradient.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    best: Best | None = None
    bar: float | None = None
    worse: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    summed: int = 0
    overflows: int = 0
    in_row: int = 0
    early: bool = False
    learned: bool = False


@dataclass
class State:
    """The moving parts of a training, in one hand. model: as the task knows it, not wrapped."""

    model: nn.Module
    optimizer: Optimizer
    schedule: LambdaLR
    scaler: torch.amp.GradScaler
    ema: RunningMean | None
    device: torch.device
    progress: Progress = field(default_factory=Progress)

    def save(self, run: Path, *, keep: int) -> None:
        """Writes a checkpoint into a run folder; every process calls it, the first one writes. Raises OSError."""
        parallel.same_buffers(self.model)
        contents = self._contents()
        error: OSError | None = None
        if parallel.rank() == 0:
            try:
                checkpoint.write(run, contents, keep=keep)
            except OSError as problem:
                error = problem
        failed = parallel.from_first(str(error) if error is not None else "")
        if error is not None:
            raise error
        if failed:
            raise OSError(failed)

    def _contents(self) -> checkpoint.Contents:
        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = {
            "optimizer": get_optimizer_state_dict(self.model, self.optimizer, options=whole),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "ema_updates": self.ema.updates if self.ema is not None else 0,
            "random": parallel.from_all(_random(self.device)),
        }
        return checkpoint.Contents(
            step=self.progress.step,
            model=get_model_state_dict(self.model, options=whole),
            ema=self.ema.full() if self.ema is not None else None,
            state=state,
            progress=asdict(self.progress),
        )

    def load(self, folder: Path) -> None:
        """Takes over a checkpoint, whatever number of processes wrote it. Raises ValueError where it does not fit."""
        held = checkpoint.read_progress(folder)
        best = Best(**held.pop("best")) if held["best"] is not None else held.pop("best")
        state = checkpoint.read_state(folder / "state.pt")
        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        # The optimiser first: torch makes its empty state by a step, and the weights must not feel that one. SGD
        # without momentum has no state, which torch refuses to load.
        if state["optimizer"]["state"]:
            set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"], options=whole)
        set_model_state_dict(self.model, checkpoint.read_weights(folder / "model.safetensors"), options=whole)
        self.schedule.load_state_dict(state["schedule"])
        for group, rate in zip(self.optimizer.param_groups, self.schedule.get_last_lr(), strict=True):
            group["lr"] = rate
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self._load_ema(folder, state["ema_updates"])
        self.progress = Progress(**held, best=best)
        if len(state["random"]) == parallel.world():
            _set_random(state["random"][parallel.rank()], self.device)

    def _load_ema(self, folder: Path, updates: int) -> None:
        path = folder / "ema.safetensors"
        if (self.ema is not None) != path.is_file():
            raise ValueError(
                f"{folder}: {'has' if path.is_file() else 'lacks'} a running mean of the weights, and the settings say "
                f"ema={'null' if self.ema is None else 'on'}: go on with the ema of the run's recipe"
            )
        if self.ema is not None:
            self.ema.load(checkpoint.read_weights(path), updates)


def _random(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_random(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


@contextmanager
def untouched(model: nn.Module, device: torch.device) -> Iterator[None]:
    """While it lasts the model may be used for evaluation: no gradients, and modes and random state come back."""
    modes = [(module, module.training) for module in model.modules()]
    devices = [device.index or 0] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices), torch.no_grad(), parallel.gathered(model):
            model.eval()
            yield
    finally:
        for module, training in modes:
            module.training = training
