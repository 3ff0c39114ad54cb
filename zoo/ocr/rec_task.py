"""Training text-line recognition: one network, two peers (U-DML), or one under a larger frozen one.

Shapes: N lines of 3 x H x W pixels. Source: PaddleOCR `configs/rec/PP-OCRv3`, `configs/rec/PP-OCRv4`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from zoo import parallel
from zoo.ocr.augment_line import LineAugment, augment_line, bucket_batches, concat_lines, fit_line
from zoo.ocr.eager import EagerSession
from zoo.ocr.evaluation import Samples, score_lines
from zoo.ocr.guide import GuideTargets
from zoo.ocr.loader import Draw, Epoch, Loader, Made, Work, good_items, in_batches, mixed, random_of
from zoo.ocr.metrics import add_up
from zoo.ocr.predict import LINE_STRIDE, Recogniser
from zoo.ocr.rec import RecognitionOutput
from zoo.ocr.rec_distill import teacher_losses
from zoo.ocr.rec_losses import (
    GuideLoss,
    RecognitionTargets,
    mutual_recognition_losses,
    nrtr_loss,
    recognition_losses,
    sar_loss,
)
from zoo.ocr.rec_targets import Encoder
from zoo.ocr.report import WorstLines, sheet
from zoo.ocr.samples import BadSample, LineSample
from zoo.ocr.settings import RecSettings

GUIDE_LOSSES: dict[str | None, GuideLoss] = {"sar": sar_loss, "nrtr": nrtr_loss, None: nrtr_loss}


class LineBatch(NamedTuple):
    """images: float32 (N, 3, H, W) BGR in -1..1. texts, names: one each."""

    images: Tensor
    targets: RecognitionTargets
    texts: tuple[str, ...]
    names: tuple[str, ...]


class Peers(nn.Module):
    """Two recognisers of one shape, both trained (U-DML); in eval mode the student alone."""

    def __init__(self, student: nn.Module, teacher: nn.Module) -> None:
        super().__init__()
        self.student = student
        self.teacher = teacher

    def forward(
        self, pictures: Tensor, targets: GuideTargets | None = None
    ) -> RecognitionOutput | tuple[RecognitionOutput, RecognitionOutput]:
        student = self.student(pictures, targets)
        return (student, self.teacher(pictures, targets)) if self.training else student


@dataclass(frozen=True, kw_only=True)
class MakeLines:
    """Makes a batch of augmented lines with their targets; runs in worker processes.

    columns: of the network's output while training whatever the width, None for a column every 8 pixels.
    """

    samples: Samples[LineSample]
    augment: LineAugment
    encoder: Encoder
    seed: int
    columns: int | None

    def __call__(self, work: Work) -> Made:
        items, bad = good_items(self.samples, work, self._item)
        lines = [places for _, places, _, _ in items]
        guide = None
        lengths = torch.tensor([len(places) for places in lines])
        if self.encoder.guide is not None:
            ratios = torch.tensor([ratio for _, _, ratio, _ in items])
            guide = GuideTargets(torch.from_numpy(self.encoder.tokens(lines)), lengths, ratios)
        targets = RecognitionTargets(torch.from_numpy(self.encoder.ctc(lines)), lengths, guide)
        pictures = torch.from_numpy(np.stack([picture for picture, _, _, _ in items]))
        texts = tuple("".join(self.encoder.charset[i] for i in places) for places in lines)
        return Made(LineBatch(pictures, targets, texts, tuple(name for _, _, _, name in items)), tuple(bad))

    def _item(self, sample: LineSample, draw: Draw, work: Work) -> tuple[np.ndarray, np.ndarray, float, str]:
        random = random_of(self.seed, work.epoch, draw)
        self.encoder(sample.text, sample.name)  # before anything costs time
        if random.random() < self.augment.concat:
            sample = concat_lines(sample, self._others(random), self._room(), work.width / work.height)
        made = augment_line(sample, self.augment, random)
        places = self.encoder(made.text, made.name)
        needed, columns = self.encoder.columns(places), self.columns or work.width // LINE_STRIDE
        if needed > columns:
            raise BadSample(f"{made.name}: {made.text!r} needs {needed} columns, the network gives {columns}")
        height, width = made.image.shape[:2]
        ratio = min(1.0, float(np.ceil(work.height * width / height)) / work.width)
        return fit_line(made.image, work.height, work.width), places, ratio, made.name

    def _room(self) -> int:
        return self.encoder.longest if self.encoder.guide is None else self.encoder.longest - 2

    def _others(self, random: np.random.Generator) -> list[LineSample]:
        """Two more lines to be joined on; those that are bad are left out here and reported at their own turn."""
        others = []
        for index in random.integers(len(self.samples), size=2):
            try:
                sample = self.samples[int(index)]
                self.encoder(sample.text, sample.name)
                others.append(sample)
            except BadSample:
                continue
        return others


def plan_lines(
    sizes: Sequence[int],
    ratios: Sequence[float | None],
    *,
    batch: int,
    scales: Sequence[tuple[int, int]],
    seed: int,
    shapes: np.ndarray | None = None,
) -> Callable[[int], list[Work]]:
    """A function from the epoch to this process's batches.

    scales: (width, height) in pixels; with several, each batch has one of them and as many lines as keep the number of
    pixels, `batch` lines at the first, as PaddleOCR's MultiScaleSampler. shapes: width over height of every line, for
    batches of similar lines that are no wider than their longest; None fits every line into the scale.
    """

    def plan(epoch: int) -> list[Work]:
        draws = mixed(sizes, ratios, seed=seed, epoch=epoch)
        rank, world = parallel.data_rank(), parallel.data_world()
        if len(scales) == 1 and shapes is None:
            width, height = scales[0]
            return in_batches(draws, batch, epoch=epoch, size=(height, width), rank=rank, world=world)
        widest = max(width / height for width, height in scales)
        own = np.full(len(draws), widest) if shapes is None else shapes[[draw.index for draw in draws]]
        buckets = bucket_batches(
            own, scales=tuple(scales), first_batch=batch, seed=seed, epoch=epoch, rank=rank, world=world
        )
        works = [Work(epoch, tuple(draws[i] for i in part), height, width) for height, width, part in buckets]
        if not works:
            raise ValueError(f"{len(draws)} lines make no batch of {batch}: lower the batch or give more data")
        return works

    return plan


def shapes_of(samples: Samples[LineSample]) -> np.ndarray:
    """float [lines], width over height; every picture is read once for it. A bad one counts as a square."""
    shapes = np.ones(len(samples))
    for index in range(len(samples)):
        try:
            height, width = samples[index].image.shape[:2]
        except BadSample:  # its own turn reports it
            continue
        shapes[index] = width / height
    return shapes


def _exact(output: RecognitionOutput) -> RecognitionOutput:
    """The scores in float32, whatever precision the network ran in: the losses take logarithms and long sums."""
    return RecognitionOutput(*(None if part is None else part.float() for part in output))  # type: ignore[arg-type]


def probabilities(output: RecognitionOutput) -> Tensor:
    """(N, T, K) of the CTC classes: what the published graphs give."""
    return output.logits.float().softmax(dim=-1)


@dataclass
class RecTask:
    """Training of one recogniser, of `Peers`, or of one under a frozen `teacher` with the same charset.

    evaluation: lines to be judged by; empty judges nothing. report: folder for the worst of them, None for none.
    """

    model: nn.Module
    loader: Loader[Any]
    evaluation: Samples[LineSample]
    settings: RecSettings
    charset: tuple[str, ...]
    guide: str | None
    teacher: nn.Module | None = None
    report: Path | None = None

    def __post_init__(self) -> None:
        if self.teacher is not None:
            self.teacher.eval().requires_grad_(False)

    def batches(self, epoch: int, start: int = 0) -> Epoch:
        """The batches of an epoch from number `start` on."""
        return self.loader.batches(epoch, start)

    def losses(self, model: nn.Module, batch: LineBatch) -> dict[str, Tensor]:
        """Weighted terms of one batch."""
        output = model(batch.images, batch.targets.guide)
        loss = GUIDE_LOSSES[self.guide]
        if not isinstance(output, RecognitionOutput):
            student, peer = (_exact(one) for one in output)
            return mutual_recognition_losses(student, peer, batch.targets, loss)
        output = _exact(output)
        if self.teacher is None:
            return recognition_losses(output, batch.targets, loss)
        return self._taught(output, batch)

    def _taught(self, output: RecognitionOutput, batch: LineBatch) -> dict[str, Tensor]:
        assert self.teacher is not None
        guide = batch.targets.guide
        has_branch = guide is not None and self.guide == "nrtr" and self.teacher.guide is not None
        with torch.no_grad():
            shown = _exact(self.teacher.to(batch.images.device)(batch.images, guide if has_branch else None))
        # Under a teacher the labels are not smoothed.
        loss = partial(nrtr_loss, smoothing=0.0) if self.guide == "nrtr" else GUIDE_LOSSES[self.guide]
        return recognition_losses(output, batch.targets, loss) | teacher_losses(
            (output.logits, output.guide_scores),
            (shown.logits, shown.guide_scores),
            None if guide is None else guide.labels,
        )

    def names(self, batch: LineBatch) -> list[str]:
        """Where each line of a batch comes from."""
        return list(batch.names)

    def reader(self, model: nn.Module) -> Recogniser:
        """The predictor with this network."""
        return Recogniser(EagerSession(model, probabilities), self.charset, self.settings)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """exact, exact_dense, exact_alphanumeric, ned, cer of the predictor; every process gives the same."""
        count = len(self.evaluation)
        if not count:
            return {}
        share, worst = parallel.shard(count, parallel.data_rank(), parallel.data_world()), WorstLines()
        tallies = score_lines(self.reader(model), self.evaluation, share, worst)
        total = add_up(parallel.gather([add_up(tallies)]))
        if self.report is not None:
            worst.write(self.report, total, f"rank {parallel.rank()}" if parallel.world() > 1 else "")
        return total.rates()

    def pictures(self, model: nn.Module, batch: LineBatch) -> dict[str, np.ndarray]:
        """The first twelve lines of a batch as the network sees them; what it reads in them is in the report."""
        shown = batch.images[:12].float().cpu().numpy().transpose(0, 2, 3, 1)
        plain = np.clip(np.rint((shown + 1) * 127.5), 0, 255).astype(np.uint8)
        return {"inputs": sheet(list(plain), columns=2)}
