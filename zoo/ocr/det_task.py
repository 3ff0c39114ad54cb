"""Training text detection: one network, two that teach one another (DML), or two under a frozen teacher as well (CML).

Shapes: N pictures of H x W pixels, multiples of 32. Source: PaddleOCR `configs/det/ch_PP-OCRv3`, `ch_PP-OCRv4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from zoo import images, parallel
from zoo.distill import mutual_map_loss
from zoo.ocr.augment_page import PageAugment, augment_page
from zoo.ocr.db import DetectionOutput
from zoo.ocr.det_losses import DBLossSettings, DetectionTargets, cml_losses, db_losses
from zoo.ocr.eager import EagerSession
from zoo.ocr.evaluation import Samples, page_rates, score_pages
from zoo.ocr.loader import Draw, Epoch, Loader, Made, Work, good_items, in_batches, mixed, random_of
from zoo.ocr.metrics import Counts
from zoo.ocr.predict import Detector
from zoo.ocr.report import WorstPages, draw_page
from zoo.ocr.samples import BadSample, PageSample
from zoo.ocr.settings import DetSettings
from zoo.ocr.targets import det_targets, dynamic_shrink_ratio


class PageBatch(NamedTuple):
    """images: float32 (N, 3, H, W) BGR, normalised. names: one each."""

    images: Tensor
    targets: DetectionTargets
    names: tuple[str, ...]


class Students(nn.Module):
    """Two detectors of one shape that are trained side by side; in eval mode the first one alone."""

    def __init__(self, student: nn.Module, student2: nn.Module) -> None:
        super().__init__()
        self.student = student
        self.student2 = student2

    def forward(self, pictures: Tensor) -> DetectionOutput | tuple[DetectionOutput, DetectionOutput]:
        first = self.student(pictures)
        return (first, self.student2(pictures)) if self.training else first


@dataclass(frozen=True, kw_only=True)
class MakePages:
    """Makes a batch of augmented pictures with their targets; runs in worker processes.

    epochs: of the training, for the ratio of PP-OCRv4 that grows from 0.4 to 0.6; None keeps 0.4.
    """

    samples: Samples[PageSample]
    augment: PageAugment
    settings: DetSettings
    seed: int
    epochs: int | None

    def __call__(self, work: Work) -> Made:
        items, bad = good_items(self.samples, work, self._item)
        pictures = torch.from_numpy(np.stack([picture for picture, _, _ in items]))
        maps = [torch.from_numpy(np.stack(part)) for part in zip(*(targets for _, targets, _ in items), strict=True)]
        shrink_map, shrink_mask, threshold_map, threshold_mask = maps
        targets = DetectionTargets(
            threshold_map=threshold_map, threshold_mask=threshold_mask, shrink_map=shrink_map, shrink_mask=shrink_mask
        )
        return Made(PageBatch(pictures, targets, tuple(name for _, _, name in items)), tuple(bad))

    def _item(self, sample: PageSample, draw: Draw, work: Work) -> tuple[np.ndarray, Any, str]:
        if not sample.polygons_xy:
            raise BadSample(f"{sample.name}: has no region, so nothing to learn")
        random = random_of(self.seed, work.epoch, draw)
        settings = replace(self.augment, crop=(work.height, work.width))
        made = augment_page(sample, settings, random, self._other(random))
        ratio = 0.4 if self.epochs is None else dynamic_shrink_ratio(work.epoch, self.epochs)
        targets = det_targets(made.polygons_xy, made.ignored, made.image.shape[:2], shrink_ratio=ratio)
        picture = images.normalise(made.image, self.settings.mean, self.settings.std, scale=1 / 255)[0]
        return picture, targets, sample.name

    def _other(self, random: np.random.Generator) -> PageSample | None:
        """Another page to paste from; none where that one is bad, which its own turn reports."""
        if not self.augment.copy_paste:
            return None
        try:
            return self.samples[int(random.integers(len(self.samples)))]
        except BadSample:
            return None


def plan_pages(
    sizes: Sequence[int], ratios: Sequence[float | None], *, batch: int, crop: tuple[int, int], seed: int
) -> Any:
    """A function from the epoch to this process's batches."""

    def plan(epoch: int) -> list[Work]:
        draws = mixed(sizes, ratios, seed=seed, epoch=epoch)
        rank, world = parallel.data_rank(), parallel.data_world()
        return in_batches(draws, batch, epoch=epoch, size=crop, rank=rank, world=world)

    return plan


def dml_losses(
    students: tuple[DetectionOutput, DetectionOutput], targets: DetectionTargets, settings: DBLossSettings
) -> dict[str, Tensor]:
    """Each student's own losses, and the mutual loss of their shrink maps: how PP-OCRv3's teacher is trained."""
    losses = {"mutual": mutual_map_loss(students[0].shrink, students[1].shrink).mean()}
    for name, student in zip(("student", "student2"), students, strict=True):
        losses |= {f"{name}_{term}": loss for term, loss in db_losses(student, targets, settings).items()}
    return losses


def _exact(output: DetectionOutput) -> DetectionOutput:
    """The maps in float32, whatever precision the network ran in: the losses take logarithms and long sums."""
    return DetectionOutput(*(None if part is None else part.float() for part in output))  # type: ignore[arg-type]


@dataclass
class DetTask:
    """Training of one detector, of `Students` (DML), or of `Students` under a `teacher` (CML).

    evaluation: pages to be judged by; empty judges nothing. report: folder for the worst of them, None for none.
    """

    model: nn.Module
    loader: Loader[Any]
    evaluation: Samples[PageSample]
    settings: DetSettings
    weights: DBLossSettings
    teacher: nn.Module | None = None
    report: Path | None = None

    def __post_init__(self) -> None:
        if self.teacher is not None:
            assert isinstance(self.model, Students)
            self.teacher.eval().requires_grad_(False)

    def batches(self, epoch: int, start: int = 0) -> Epoch:
        """The batches of an epoch from number `start` on."""
        return self.loader.batches(epoch, start)

    def losses(self, model: nn.Module, batch: PageBatch) -> dict[str, Tensor]:
        """Weighted terms of one batch."""
        output = model(batch.images)
        if isinstance(output, DetectionOutput):
            return db_losses(_exact(output), batch.targets, self.weights)
        first, second = (_exact(one) for one in output)
        if self.teacher is None:
            return dml_losses((first, second), batch.targets, self.weights)
        with torch.no_grad():
            shown = self.teacher.to(batch.images.device)(batch.images).shrink.float()
        return cml_losses((first, second), shown, batch.targets, self.weights)

    def names(self, batch: PageBatch) -> list[str]:
        """Where each picture of a batch comes from."""
        return list(batch.names)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """hmean, precision and recall of the predictor with this network; every process gives the same."""
        count = len(self.evaluation)
        if not count:
            return {}
        detector = Detector(EagerSession(model, lambda output: output.shrink), self.settings)
        share, worst = parallel.shard(count, parallel.data_rank(), parallel.data_world()), WorstPages()
        mine = score_pages(detector, self.evaluation, share, worst)
        if self.report is not None:
            worst.write(self.report, f"rank {parallel.rank()}" if parallel.world() > 1 else "")
        return page_rates(sum(parallel.gather([mine]), Counts()))

    def pictures(self, model: nn.Module, batch: PageBatch) -> dict[str, np.ndarray]:
        """The first four pictures of a batch with the wanted and the given shrink maps in colour."""
        shown = batch.images[:4].cpu().numpy()
        session = EagerSession(model, lambda output: output.shrink)
        found = session(shown)[:, 0]
        plain = [self._shown(picture) for picture in shown]
        wanted = batch.targets.shrink_map[:4].cpu().numpy()
        ignored = batch.targets.shrink_mask[:4].cpu().numpy() == 0
        return {
            "inputs": np.hstack([draw_page(p, w, i) for p, w, i in zip(plain, wanted, ignored, strict=True)]),
            "predictions": np.hstack([draw_page(p, f, i) for p, f, i in zip(plain, found, ignored, strict=True)]),
        }

    def _shown(self, picture: np.ndarray) -> np.ndarray:
        mean, std = np.array(self.settings.mean), np.array(self.settings.std)
        values = (picture.transpose(1, 2, 0) * std + mean) * 255
        return cast(np.ndarray, np.clip(np.rint(values), 0, 255).astype(np.uint8))
