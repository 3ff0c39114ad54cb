"""What moves the weights: parameter groups, learning-rate schedules, and a running mean of the weights. No domain."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer as TorchOptimizer
from torch.optim.lr_scheduler import LambdaLR

from zoo.train_settings import Ema, Factor, Optimizer, Schedule


def make_optimizer(model: nn.Module, settings: Optimizer) -> TorchOptimizer:
    """The optimiser of every parameter that learns. Raises ValueError for a pattern that holds for no parameter."""
    groups = parameter_groups(model, settings)
    if settings.name == "adam":
        return torch.optim.Adam(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)
    momentum = settings.momentum if settings.name == "momentum" else 0.0
    return torch.optim.SGD(groups, lr=settings.lr, momentum=momentum, nesterov=settings.nesterov)


def parameter_groups(model: nn.Module, settings: Optimizer) -> list[dict[str, Any]]:
    """Groups of parameters with one `lr` and one `weight_decay` each, in the order in which the model names them."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not named:
        raise ValueError("the model has no parameter that learns: every one has requires_grad False")
    chosen = _factors([name for name, _ in named], settings.factors)
    spare = settings.name == "adamw" if settings.no_decay_norm_and_bias is None else settings.no_decay_norm_and_bias
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in named:
        factor = chosen[name]
        decay = 0.0 if spare and parameter.ndim <= 1 else settings.weight_decay * factor.weight_decay
        groups.setdefault((settings.lr * factor.lr, decay), []).append(parameter)
    return [{"params": part, "lr": lr, "weight_decay": decay} for (lr, decay), part in groups.items()]


def _factors(names: Sequence[str], factors: Sequence[Factor]) -> dict[str, Factor]:
    """The factor of each name: the first whose pattern finds it."""
    plain = Factor(pattern="")
    chosen = {name: next((f for f in factors if re.search(f.pattern, name)), plain) for name in names}
    for index, factor in enumerate(factors):
        if any(used is factor for used in chosen.values()):
            continue
        place = f"optimizer.factors.{index}.pattern: {factor.pattern!r}"
        if any(re.search(factor.pattern, name) for name in names):
            raise ValueError(f"{place} finds only parameters that an earlier pattern has taken: put it first")
        raise ValueError(f"{place} finds no parameter that learns; {nearest(factor.pattern, names)}")
    return chosen


def nearest(word: str, names: Sequence[str]) -> str:
    """Part of an error line: the names most like a word, or the first ones there are."""
    plain = re.sub(r"[\\^$]", "", word)
    close = difflib.get_close_matches(plain, names, 3, 0.4)
    return f"the nearest are {', '.join(close)}" if close else f"there are {', '.join(list(names)[:5])} ..."


def schedule_factor(settings: Schedule, step: int, *, steps: int, per_epoch: int, lr: float) -> float:
    """What the learning rate `lr` is multiplied with at optimiser step `step`, from 0, of `steps`.

    per_epoch: optimiser steps of one epoch. Cosine and linear begin after the warm-up and arrive at step `steps`;
    PaddleOCR stretches its cosine over `steps` again after the warm-up and so stops a little above the end. The
    boundaries of piecewise count from the start of training; PaddleOCR counts them from the end of the warm-up.
    """
    warmup = warmup_length(settings, per_epoch)
    if step < warmup:
        return settings.start_factor + (1 - settings.start_factor) * step / warmup
    if settings.kind == "constant":
        return 1.0
    if settings.kind == "piecewise":
        return settings.values[sum(step >= round(edge * per_epoch) for edge in settings.boundaries)]
    end = settings.end_factor if settings.min_lr is None else settings.min_lr / lr
    part = min(1.0, (step - warmup) / max(1, steps - warmup))
    left = (1 + math.cos(math.pi * part)) / 2 if settings.kind == "cosine" else 1 - part
    return end + (1 - end) * left


def warmup_length(settings: Schedule, per_epoch: int) -> int:
    """Optimiser steps of the warm-up."""
    return settings.warmup_steps or round(settings.warmup_epochs * per_epoch)


def make_schedule(optimizer: TorchOptimizer, settings: Schedule, *, steps: int, per_epoch: int, lr: float) -> LambdaLR:
    """The schedule of an optimiser, to be stepped once after each optimiser step."""
    warmup = warmup_length(settings, per_epoch)
    if warmup >= steps:
        raise ValueError(f"schedule: a warm-up of {warmup} steps leaves none of the {steps} steps of this training")
    return LambdaLR(optimizer, lambda step: schedule_factor(settings, step, steps=steps, per_epoch=per_epoch, lr=lr))


def ema_decay(settings: Ema, updates: int) -> float:
    """How much of the running mean stays at an update, with `updates` before it."""
    if settings.kind == "threshold":
        return min(settings.decay, (1 + updates) / (10 + updates))
    if settings.kind == "exponential":
        return settings.decay * (1 - math.exp(-(updates + 1) / settings.gamma))
    return settings.decay


class RunningMean:
    """The running mean of a model's parameters and buffers, in float32; whole numbers are copied.

    It starts at the model's weights. PaddleDetection starts at zero and divides by what is then missing, which comes to
    the same after the first few hundred updates.
    """

    def __init__(self, model: nn.Module, settings: Ema) -> None:
        self.settings = settings
        self.updates = 0
        self._model = model
        self.tensors = {name: _float32(tensor).clone() for name, tensor in self._live()}

    def _live(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self._model.state_dict(keep_vars=True).items():
            yield name, tensor.detach()

    @torch.no_grad()
    def update(self) -> None:
        """Takes the model's present weights in."""
        decay = ema_decay(self.settings, self.updates)
        for name, tensor in self._live():
            mean, now = local(self.tensors[name]), local(tensor)
            if mean.is_floating_point():
                mean.mul_(decay).add_(now.to(mean.dtype), alpha=1 - decay)
            else:
                mean.copy_(now)
        self.updates += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While it lasts the model has the mean's weights; afterwards its own, bit for bit."""
        own = {name: local(tensor).clone() for name, tensor in self._live()}
        self._put({name: local(mean) for name, mean in self.tensors.items()})
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, values: Mapping[str, Tensor]) -> None:
        for name, tensor in self._live():
            local(tensor).copy_(values[name])

    def full(self) -> dict[str, Tensor]:
        """Every tensor of the mean, whole, on the CPU; all processes must ask at once."""
        return {name: whole(mean).cpu() for name, mean in self.tensors.items()}

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor], updates: int) -> None:
        """Takes over what `full` gave, in whatever way the weights are spread now."""
        if set(values) != set(self.tensors):
            odd = sorted(set(values) ^ set(self.tensors))
            raise ValueError(f"running mean: the checkpoint and the model do not both have {', '.join(odd[:5])}")
        for name, mean in self.tensors.items():
            value = values[name].to(mean.device)
            if isinstance(mean, DTensor):
                value = distribute_tensor(value, mean.device_mesh, mean.placements).to_local()
            local(mean).copy_(value)
        self.updates = updates


def local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor that may be spread over several; it shares the memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """A tensor that may be spread over several processes, whole."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
