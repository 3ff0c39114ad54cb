"""The settings of a training, as a recipe's `train:` section holds them. No torch: a recipe is read without it.

Every combination that cannot work is refused here, in one line that names the fields.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, field_validator, model_validator


class Section(BaseModel):
    """A frozen part of the settings without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Factor(Section):
    """What the parameters whose name the regular expression `pattern` finds take of the learning rate and the decay."""

    pattern: str
    lr: float = Field(default=1.0, ge=0)
    weight_decay: float = Field(default=1.0, ge=0)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from None
        return pattern


class Optimizer(Section):
    """adam: weight decay is L2 in the gradient, as Paddle's L2Decay; adamw: decoupled; momentum: SGD with it.

    no_decay_norm_and_bias leaves norms and biases (every parameter of one dimension) out of the decay. None does so
    for adamw alone: DBNet and SVTR-LCNet in PaddleOCR, which use adam, decay every parameter.
    factors: the first pattern that finds a parameter's name holds for it.
    """

    name: Literal["adam", "adamw", "sgd", "momentum"] = "adamw"
    lr: PositiveFloat = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: PositiveFloat = 1e-8
    momentum: float = Field(default=0.9, gt=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(default=0.0, ge=0)
    no_decay_norm_and_bias: bool | None = None
    factors: tuple[Factor, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Optimizer:
        is_adam = self.name in ("adam", "adamw")
        foreign = ["momentum", "nesterov"] if is_adam else ["betas", "eps"]
        if self.name == "sgd":
            foreign += ["momentum", "nesterov"]
        for field in foreign:
            value, default = getattr(self, field), type(self).model_fields[field].default
            if value != default:
                raise ValueError(f"{self.name} has no {field}, came {value!r}: leave it out or choose another name")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must lie in [0, 1), came {self.betas}")
        return self


class Schedule(Section):
    """What the learning rate is multiplied with at each optimiser step: a warm-up in a line, then `kind`.

    start_factor: where the warm-up begins. warmup_epochs may be a fraction.
    end_factor or min_lr: where cosine and linear arrive at the last step, as a part of the rate or as a rate.
    boundaries: the epochs at which piecewise goes from one of the `values` (parts of the rate, the first is 1) on.
    """

    kind: Literal["constant", "cosine", "piecewise", "linear"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    warmup_epochs: float = Field(default=0.0, ge=0)
    start_factor: float = Field(default=0.0, ge=0, le=1)
    end_factor: float = Field(default=0.0, ge=0, le=1)
    min_lr: PositiveFloat | None = None
    boundaries: tuple[PositiveFloat, ...] = ()
    values: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Schedule:
        if self.warmup_steps and self.warmup_epochs:
            raise ValueError(
                f"give warmup_steps ({self.warmup_steps}) or warmup_epochs ({self.warmup_epochs}), not both"
            )
        if self.start_factor and not (self.warmup_steps or self.warmup_epochs):
            raise ValueError("start_factor is where a warm-up begins: give warmup_steps or warmup_epochs")
        if self.end_factor and self.min_lr is not None:
            raise ValueError(f"give end_factor ({self.end_factor}) or min_lr ({self.min_lr}), not both")
        falls = self.kind in ("cosine", "linear")
        if not falls and (self.end_factor or self.min_lr is not None):
            raise ValueError(f"{self.kind} has no end_factor and no min_lr: cosine and linear have")
        if self.kind == "piecewise":
            self._check_pieces()
        elif self.boundaries or self.values:
            raise ValueError(f"boundaries and values belong to piecewise, the kind is {self.kind}")
        return self

    def _check_pieces(self) -> None:
        if not self.boundaries or len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                f"piecewise needs boundaries and one more value than boundaries, "
                f"came {len(self.boundaries)} boundaries and {len(self.values)} values"
            )
        if list(self.boundaries) != sorted(set(self.boundaries)):
            raise ValueError(f"boundaries must rise, came {self.boundaries}")
        if self.values[0] != 1 or min(self.values) < 0:
            raise ValueError(f"values are parts of optimizer.lr, none negative and the first 1, came {self.values}")


class Ema(Section):
    """A running mean of the weights, which is what is evaluated and published.

    With n updates before: constant keeps `decay`; threshold takes min(decay, (1 + n) / (10 + n)); exponential takes
    decay * (1 - exp(-(n + 1) / gamma)). Source: PaddleDetection `ppdet/optimizer/ema.py`.
    """

    kind: Literal["constant", "threshold", "exponential"] = "threshold"
    decay: float = Field(default=0.9998, gt=0, lt=1)
    gamma: PositiveFloat = 2000.0

    @model_validator(mode="after")
    def _fits_together(self) -> Ema:
        if self.kind != "exponential" and self.gamma != 2000.0:
            raise ValueError(f"gamma belongs to exponential, the kind is {self.kind}")
        return self


class Scaler(Section):
    """How the loss is scaled in fp16, as torch.amp.GradScaler does it."""

    init_scale: PositiveFloat = 65536.0
    growth_interval: PositiveInt = 2000
    growth_factor: float = Field(default=2.0, gt=1)
    backoff_factor: float = Field(default=0.5, gt=0, lt=1)


class Every(Section):
    """A rhythm, in optimiser steps or in epochs."""

    steps: PositiveInt | None = None
    epochs: PositiveInt | None = None

    @model_validator(mode="after")
    def _one(self) -> Every:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(f"give steps or epochs, one of the two: came steps={self.steps}, epochs={self.epochs}")
        return self

    def due(self, step: int, epoch: int | None) -> bool:
        """Whether it is time after this many steps; epoch: the count of epochs that just ended, None within one."""
        if self.steps is not None:
            return step % self.steps == 0
        assert self.epochs is not None
        return epoch is not None and epoch % self.epochs == 0


class EarlyStop(Section):
    """Ends the training after `patience` evaluations in a row that are not better by more than min_delta."""

    patience: PositiveInt
    min_delta: float = Field(default=0.0, ge=0)


class Parallel(Section):
    """How the processes of torchrun share the work; data * shard * tensor is their number.

    data: copies of the model, with its own batches; "auto": what the other two leave. shard: processes over which
    one copy's weights are spread, each with its own batches too. tensor: processes that share one batch and each layer.
    sync_norm: batch norms see the batches of all processes, as one process with the whole batch would.
    """

    data: PositiveInt | Literal["auto"] = "auto"
    shard: PositiveInt = 1
    tensor: PositiveInt = 1
    sync_norm: bool = False


class Train(Section):
    """All that `zoo.training.fit` is told.

    One of epochs and steps (optimiser steps) says how long. accumulate: batches per optimiser step.
    recompute: names of modules whose activations are computed again in the backward pass, which saves memory.
    freeze_norm: batch norms keep their statistics; their weights still learn.
    keep: so many last checkpoints stay, and the best one. compile: torch.compile.
    channels_last: pictures lie as N, H, W, C in memory, which convolutions are mostly faster on; the sums differ from
    those without it by rounding.
    """

    epochs: PositiveInt | None = None
    steps: PositiveInt | None = None
    seed: int = Field(default=0, ge=0)
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    scaler: Scaler = Scaler()
    accumulate: PositiveInt = 1
    clip_norm: PositiveFloat | None = None
    recompute: tuple[str, ...] = ()
    ema: Ema | None = None
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    evaluate_every: Every = Every(epochs=1)
    save_every: Every = Every(epochs=1)
    keep: PositiveInt = 3
    early_stop: EarlyStop | None = None
    log_every: PositiveInt = 10
    compile: bool = False
    channels_last: bool = False
    freeze_norm: bool = False
    parallel: Parallel = Parallel()
    wandb: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> Train:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"give epochs or steps, one of the two: came epochs={self.epochs}, steps={self.steps}")
        if self.precision != "fp16" and self.scaler != Scaler():
            raise ValueError(f"scaler belongs to precision fp16, the precision is {self.precision}")
        if self.precision == "fp16" and self.parallel.shard * self.parallel.tensor > 1:
            raise ValueError("fp16 cannot be scaled over parallel.shard or parallel.tensor > 1: take precision bf16")
        if self.freeze_norm and self.parallel.sync_norm:
            raise ValueError("freeze_norm and parallel.sync_norm exclude one another: frozen statistics need no sync")
        if self.schedule.min_lr is not None and self.schedule.min_lr > self.optimizer.lr:
            raise ValueError(f"schedule.min_lr ({self.schedule.min_lr}) is above optimizer.lr ({self.optimizer.lr})")
        if self.steps is not None and self.schedule.warmup_steps >= self.steps:
            raise ValueError(f"schedule.warmup_steps ({self.schedule.warmup_steps}) leave none of {self.steps} steps")
        if self.epochs is not None and self.schedule.warmup_epochs >= self.epochs:
            raise ValueError(
                f"schedule.warmup_epochs ({self.schedule.warmup_epochs}) leave none of {self.epochs} epochs"
            )
        return self
