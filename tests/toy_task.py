"""A tiny classification task for the tests of the training hall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import parallel
from zoo.run import Run
from zoo.train_settings import Train
from zoo.training import Outcome, fit

INPUTS, CLASSES = 6, 3


class Batch(NamedTuple):
    inputs: Tensor
    labels: Tensor
    names: tuple[str, ...]


class ToyNet(nn.Module):
    def __init__(self, *, dropout: float = 0.0, norm: bool = True, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        # A bias before a batch norm has no gradient but rounding errors, which Adam would blow up to whole steps.
        self.stem = nn.Linear(INPUTS, 16, bias=not norm)
        self.norm = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.block = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.drop(torch.relu(self.norm(self.stem(inputs))))
        return self.head(features + self.block(features))

    def tensor_plan(self) -> dict[str, str]:
        return {"block.0": "colwise", "block.2": "rowwise"}


def points(count: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, INPUTS, generator=random)
    return inputs, inputs[:, :CLASSES].argmax(dim=1)


@dataclass
class ToyBatches:
    """loaded: the batches that were made, for tests of `start`."""

    task: ToyTask
    epoch: int
    start: int
    loaded: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        whole = self.task.batch * parallel.data_world()
        count = len(self.task.inputs)
        return count // whole if self.task.drop_last else -(-count // whole)

    def __iter__(self) -> Iterator[Batch]:
        random = np.random.default_rng([self.task.seed, self.epoch])
        order = random.permutation(len(self.task.inputs))
        size, rank, world = self.task.batch, parallel.data_rank(), parallel.data_world()
        for number in range(self.start, len(self)):
            self.loaded.append(number)
            first = (number * world + rank) * size
            index = torch.from_numpy(order[first : first + size])
            yield self.task.made(index, number)


@dataclass
class ToyTask:
    model: nn.Module = field(default_factory=ToyNet)
    count: int = 48
    batch: int = 8
    evaluated: int = 21
    seed: int = 3
    drop_last: bool = True

    def __post_init__(self) -> None:
        self.inputs, self.labels = points(self.count)
        self.epochs: list[ToyBatches] = []
        self.evaluations = 0

    def made(self, index: Tensor, number: int) -> Batch:
        return Batch(self.inputs[index], self.labels[index], tuple(f"point {i}" for i in index.tolist()))

    def batches(self, epoch: int, start: int = 0) -> ToyBatches:
        made = ToyBatches(self, epoch, start)
        self.epochs.append(made)
        return made

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        scores = model(batch.inputs)
        return {"entropy": F.cross_entropy(scores, batch.labels), "size": 0.01 * scores.square().mean()}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.evaluations += 1
        if not self.evaluated:
            return {}
        inputs, labels = points(self.evaluated, seed=2)
        model.eval()
        losses = []
        for index in parallel.shard(self.evaluated, parallel.data_rank(), parallel.data_world()):
            torch.rand(1)  # an evaluation that uses the global random state must not disturb the training
            scores = model(inputs[index : index + 1])
            losses.append(F.cross_entropy(scores, labels[index : index + 1]).item())
        mean = sum(parallel.gather(losses)) / self.evaluated
        return {"likelihood": -mean, "loss": mean}

    def names(self, batch: Batch) -> list[str]:
        return list(batch.names)

    def pictures(self, model: nn.Module, batch: Batch) -> dict[str, np.ndarray]:
        shown = np.nan_to_num(batch.inputs.numpy() * 40 + 128).clip(0, 255).astype(np.uint8)
        return {"inputs": np.repeat(shown[..., None], 3, axis=2)}


def train(task: Any, folder: Path, *, resume: bool = False, **settings: Any) -> Outcome:
    """Trains a task with settings given by name."""
    made = Train.model_validate({"device": "cpu", "log_every": 1, **settings})
    return fit(task, made, Run.open(folder, made, resume=resume))


def rising(values: list[float]) -> bool:
    return all(one < other for one, other in pairwise(values))
