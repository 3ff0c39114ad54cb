"""What each process of the tests of parallel training runs: python -m tests.parallel_child FOLDER SCENARIO ..."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from tests.toy_task import Batch, ToyNet, ToyTask, train
from zoo import parallel
from zoo.training import NotFinite

LEARN = {
    "steps": 8,
    "clip_norm": 1.0,
    "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
    "ema": {"kind": "threshold", "decay": 0.99},
    "evaluate_every": {"steps": 4},
    "save_every": {"steps": 4},
}


@dataclass
class SpoiltOnOne(ToyTask):
    """The second batch of process 1 alone holds a NaN."""

    def made(self, index: Tensor, number: int) -> Batch:
        batch = super().made(index, number)
        bad = number == 1 and parallel.data_rank() == 1
        return batch._replace(inputs=batch.inputs * float("nan")) if bad else batch


def curve(folder: Path, model: nn.Module | None = None, **changes: Any) -> None:
    train(ToyTask(model or ToyNet()), folder, **LEARN | changes)


def rank_zero_weights_hold(folder: Path) -> None:
    """Process 1 begins with other weights; the curve must be process 0's. FSDP2 itself sees to no such thing."""
    curve(folder, ToyNet(seed=5 * parallel.rank()), parallel={"shard": 2, "sync_norm": True})


def sharded(folder: Path) -> None:
    task = ToyTask(ToyNet())
    train(task, folder, **LEARN | {"parallel": {"shard": 2, "sync_norm": True}, "recompute": ["block"]})
    held = sum(one.to_local().numel() for one in task.model.parameters() if isinstance(one, DTensor))
    whole = sum(one.numel() for one in task.model.parameters())
    assert abs(held - whole / 2) < 40, (held, whole)


def split(folder: Path) -> None:
    task = ToyTask(ToyNet(), batch=16)
    train(task, folder, **LEARN | {"parallel": {"tensor": 2}})
    weight = task.model.get_submodule("block.0").weight
    assert isinstance(weight, DTensor) and weight.to_local().shape == (16, 16)


def resumed_sharded(folder: Path) -> None:
    """Goes on from what one process wrote."""
    train(
        ToyTask(ToyNet(seed=7)),
        folder,
        resume=True,
        **LEARN | {"steps": 12, "parallel": {"shard": 2, "sync_norm": True}},
    )


def not_finite(folder: Path) -> None:
    try:
        train(SpoiltOnOne(), folder, **LEARN | {"ema": None})
    except NotFinite as error:
        (folder / f"error_{parallel.rank()}.json").write_text(json.dumps({"step": error.step}))


def signalled(folder: Path) -> None:
    """Process 1 alone gets the signal, in its third step."""
    task, calls = ToyTask(), iter(range(99))
    made = task.losses

    def losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        if next(calls) == 2 and parallel.rank() == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return made(model, batch)

    task.losses = losses  # type: ignore[method-assign]
    outcome = train(task, folder, **LEARN)
    (folder / f"stopped_{parallel.rank()}.json").write_text(json.dumps([outcome.stopped, outcome.step]))


SCENARIOS = {
    "frozen": lambda folder: curve(folder, freeze_norm=True),
    "synced": lambda folder: curve(folder, parallel={"sync_norm": True}),
    "accumulated": lambda folder: curve(folder, parallel={"data": 2}, freeze_norm=True, accumulate=2, steps=4),
    "unsynced": lambda folder: curve(folder, ema=None),
    "initial": rank_zero_weights_hold,
    "sharded": sharded,
    "split": split,
    "resumed_sharded": resumed_sharded,
    "not_finite": not_finite,
    "signalled": signalled,
    "fp16": lambda folder: curve(folder, precision="fp16", freeze_norm=True, scaler={"init_scale": 256}),
    "sharded_bf16": lambda folder: curve(folder, precision="bf16", parallel={"shard": 2, "sync_norm": True}),
    "hybrid": lambda folder: curve(folder, parallel={"data": 2, "shard": 2, "sync_norm": True}),
    "data_and_split": lambda folder: curve(folder, parallel={"data": 2, "tensor": 2, "sync_norm": True}),
    "shard_and_split": lambda folder: curve(folder, parallel={"shard": 2, "tensor": 2, "sync_norm": True}),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    parallel.start("cpu")
    for name in sys.argv[2:]:
        SCENARIOS[name](Path(sys.argv[1]) / name)
    parallel.stop()
