"""How pictures lie in memory, and what a training says that learns nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from tests.toy_task import Batch, ToyTask, train
from zoo.training import to_device


class Pair(NamedTuple):
    pictures: Tensor
    labels: Tensor
    rest: tuple[dict[str, Tensor], str]


def test_pictures_and_nothing_else_lie_channels_last() -> None:
    batch = Pair(torch.randn(2, 3, 4, 5), torch.zeros(2, 3, 4, 5, dtype=torch.int64), ({"maps": torch.ones(2, 4)}, "x"))
    for channels_last in (False, True):
        moved = to_device(batch, torch.device("cpu"), channels_last)
        assert moved.pictures.is_contiguous(memory_format=torch.channels_last) is channels_last
        assert torch.equal(moved.pictures, batch.pictures)
        assert moved.labels.is_contiguous() and moved.rest[0]["maps"].is_contiguous() and moved.rest[1] == "x"


@dataclass
class Flat(ToyTask):
    """A loss that no weight changes, as of labels that are all ignored."""

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        return {"nothing": 0.0 * model(batch.inputs).sum() + 1.0}


def test_a_training_that_learns_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not one of the 4 steps so far had a gradient"):
        train(Flat(), tmp_path / "run", steps=4)


def test_the_setting_reaches_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo import training

    asked: list[bool] = []
    plain = training.to_device

    def noted(batch: object, device: torch.device, channels_last: bool = False) -> object:
        asked.append(channels_last)
        return plain(batch, device, channels_last)

    monkeypatch.setattr(training, "to_device", noted)
    train(ToyTask(), tmp_path / "one", steps=1)
    first = len(asked)
    train(ToyTask(), tmp_path / "two", steps=1, channels_last=True)
    assert not any(asked[:first]) and asked[first]
