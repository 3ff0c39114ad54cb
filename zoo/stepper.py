"""One optimiser step: precision, accumulation, clipping, and the look whether the numbers are finite. No domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from zoo import parallel
from zoo.interrupt import explained_memory
from zoo.train_settings import Train
from zoo.train_state import State

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Losses = Callable[[nn.Module, Any], dict[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Of one step. terms: this process's weighted losses, their mean over the samples of the step; scalars on the
    device. loss: their sum, the mean over all processes. norm: of the gradient before clipping. stop: whether any
    process wants to. finite: whether the step was made; overflow: it was skipped, as fp16 may."""

    terms: dict[str, Tensor]
    loss: float
    norm: float
    stop: bool
    overflow: bool
    finite: bool


def make_scaler(settings: Train, device: torch.device) -> torch.amp.GradScaler:
    """The scaler of fp16; one that does nothing for any other precision."""
    given = settings.scaler
    return torch.amp.GradScaler(
        device.type,
        init_scale=given.init_scale,
        growth_interval=given.growth_interval,
        growth_factor=given.growth_factor,
        backoff_factor=given.backoff_factor,
        enabled=settings.precision == "fp16",
    )


class Means:
    """The mean of each loss term over the steps since the last log; kept on the device, so adding waits for nothing."""

    def __init__(self, sums: Mapping[str, float], count: int) -> None:
        """Goes on from what `sums()` and `count` were."""
        self._sums = {name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()}
        self.count = count

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """The terms of one step."""
        for name, value in terms.items():
            before = self._sums.get(name)
            self._sums[name] = value.double() if before is None else before.to(value.device) + value.double()
        self.count += 1

    def sums(self) -> dict[str, float]:
        """Of this process, by term."""
        return {name: value.item() for name, value in self._sums.items()}

    def take(self, device: torch.device) -> dict[str, float]:
        """The means over steps and processes; begins anew."""
        means = parallel.mean([value / self.count for value in self.sums().values()], device)
        named = dict(zip(self._sums, means, strict=True))
        self._sums, self.count = {}, 0
        return named


class Stepper:
    """Makes optimiser steps. model: what is called, wrapped or not; state.model: the same without wrapping."""

    def __init__(self, model: nn.Module, losses: Losses, state: State, settings: Train) -> None:
        self.model, self.losses, self.state, self.settings = model, losses, state, settings

    def train_mode(self) -> None:
        """Training mode, with the batch norms in eval mode where their statistics are to stay."""
        self.model.train()
        if self.settings.freeze_norm:
            for module in self.model.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()

    def step(self, batches: Sequence[Any], samples: Sequence[int], *, stop: bool) -> Result:
        """One step on batches that lie on the device. samples: of each; a batch counts as much as it has of them.

        Leaves the weights alone where a number is not finite. Raises OutOfMemory.
        """
        self.state.optimizer.zero_grad(set_to_none=True)
        terms: dict[str, Tensor] = {}
        with explained_memory(max(samples), self.settings.precision, self.settings.accumulate):
            for index, (batch, count) in enumerate(zip(batches, samples, strict=True)):
                parallel.sync_gradients(self.model, index == len(batches) - 1)
                for name, value in self._backward(batch, count / sum(samples)).items():
                    terms[name] = terms[name] + value if name in terms else value
            norm = self._clipped_norm()
            loss, length, wish = self._facts(terms, norm, stop)
            finite = loss - loss == 0 and length - length == 0
            # An overflow of fp16 leaves the loss whole and spoils the gradient; the scaler then scales less.
            overflow = self.state.scaler.is_enabled() and loss - loss == 0 and not finite
            if finite or overflow:
                self._move()
            if finite and self.state.ema is not None:
                self.state.ema.update()
        return Result(terms=terms, loss=loss, norm=length, stop=wish > 0, overflow=overflow, finite=finite)

    def _backward(self, batch: Any, share: float) -> dict[str, Tensor]:
        dtype = DTYPES[self.settings.precision]
        with torch.autocast(self.state.device.type, dtype=dtype, enabled=dtype != torch.float32):
            losses = self.losses(self.model, batch)
        if not losses or any(value.ndim for value in losses.values()):
            shapes = {name: tuple(value.shape) for name, value in losses.items()}
            raise ValueError(f"losses: came {shapes or 'nothing'}; give at least one, each a scalar")
        shares = {name: value.float() * share for name, value in losses.items()}
        total = torch.stack(list(shares.values())).sum()
        self.state.scaler.scale(total).backward()
        return {name: value.detach() for name, value in shares.items()}

    def _clipped_norm(self) -> Tensor:
        self.state.scaler.unscale_(self.state.optimizer)
        return parallel.clip_gradients(self.state.model, self.settings.clip_norm)

    def _facts(self, terms: dict[str, Tensor], norm: Tensor, stop: bool) -> list[float]:
        """Loss, norm and the wish to stop, each the mean over all processes: one wait for the device a step."""
        loss = torch.stack(list(terms.values())).sum()
        facts = torch.stack([loss.double(), norm.detach().double(), loss.new_tensor(float(stop)).double()])
        if parallel.world() > 1:
            dist.all_reduce(facts)
            facts /= parallel.world()
        values: list[float] = facts.tolist()
        return values

    def _move(self) -> None:
        self.state.scaler.step(self.state.optimizer)
        self.state.scaler.update()
