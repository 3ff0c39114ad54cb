"""Training the direction classifier: is a line upright or on its head?

Shapes: N lines of 3 x 48 x 192 pixels. Source: PaddleOCR `configs/cls/cls_mv3.yml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import parallel
from zoo.ocr.augment_line import LineAugment, augment_line, fit_line
from zoo.ocr.eager import EagerSession
from zoo.ocr.evaluation import Labels, Samples, direction_of, direction_rates, score_directions, turned
from zoo.ocr.loader import Draw, Epoch, Loader, Made, Work, good_items, random_of
from zoo.ocr.predict import DirectionClassifier
from zoo.ocr.report import WorstLines, sheet
from zoo.ocr.samples import LineSample
from zoo.ocr.settings import ClsSettings


class DirectionBatch(NamedTuple):
    """images: float32 (N, 3, 48, 192) BGR in -1..1. directions: int64 (N,), 0 upright, 1 on its head."""

    images: Tensor
    directions: Tensor
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MakeDirections:
    """Makes a batch of augmented lines with their directions; runs in worker processes."""

    samples: Samples[LineSample]
    augment: LineAugment
    seed: int
    labels: Labels

    def __call__(self, work: Work) -> Made:
        items, bad = good_items(self.samples, work, self._item)
        pictures = torch.from_numpy(np.stack([picture for picture, _, _ in items]))
        directions = torch.tensor([direction for _, direction, _ in items])
        return Made(DirectionBatch(pictures, directions, tuple(name for _, _, name in items)), tuple(bad))

    def _item(self, sample: LineSample, draw: Draw, work: Work) -> tuple[np.ndarray, int, str]:
        random = random_of(self.seed, work.epoch, draw)
        if self.labels == "given":
            direction = direction_of(sample)
        else:
            direction = int(random.integers(2))
            sample = turned(sample) if direction else sample
        made = augment_line(sample, self.augment, random)
        return fit_line(made.image, work.height, work.width), direction, sample.name


@dataclass
class ClsTask:
    """Training of the direction classifier. evaluation: lines to be judged by; `turned` ones are judged both ways."""

    model: nn.Module
    loader: Loader[Any]
    evaluation: Samples[LineSample]
    settings: ClsSettings
    labels: Labels
    report: Path | None = None

    def batches(self, epoch: int, start: int = 0) -> Epoch:
        """The batches of an epoch from number `start` on."""
        return self.loader.batches(epoch, start)

    def losses(self, model: nn.Module, batch: DirectionBatch) -> dict[str, Tensor]:
        """The cross-entropy."""
        return {"direction": F.cross_entropy(model(batch.images).float(), batch.directions)}

    def names(self, batch: DirectionBatch) -> list[str]:
        """Where each line of a batch comes from."""
        return list(batch.names)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """accuracy: share of the lines that the predictor leaves, or turns, rightly; every process gives the same.

        The predictor leaves a short line, and one of which it is not sure, as it is.
        """
        count = len(self.evaluation)
        if not count:
            return {}
        classifier = DirectionClassifier(EagerSession(model, lambda scores: scores.softmax(dim=1)), self.settings)
        share, worst = parallel.shard(count, parallel.data_rank(), parallel.data_world()), WorstLines()
        right = score_directions(classifier, self.evaluation, share, worst, self.labels)
        if self.report is not None:
            worst.write(self.report, None, f"rank {parallel.rank()}" if parallel.world() > 1 else "")
        return direction_rates(parallel.gather(right))

    def pictures(self, model: nn.Module, batch: DirectionBatch) -> dict[str, np.ndarray]:
        """The first twelve lines of a batch."""
        shown = batch.images[:12].float().cpu().numpy().transpose(0, 2, 3, 1)
        plain = np.clip(np.rint((shown + 1) * 127.5), 0, 255).astype(np.uint8)
        return {"inputs": sheet(list(plain), columns=3)}
