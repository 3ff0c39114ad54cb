"""Losses of text detection: DB, and the collaborative mutual learning (CML) of two students under a frozen teacher.

Shapes: N pictures of H x W; maps (N, 1, H, W) of probabilities, targets (N, H, W). Every loss is a weighted scalar.
Source: DB (https://arxiv.org/abs/1911.08947), PP-OCRv2 (https://arxiv.org/abs/2109.03144), section 2.1; PaddleOCR
`ppocr/losses/det_db_loss.py`, `det_basic_loss.py`, `distillation_loss.py`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.distill import mutual_map_loss
from zoo.ocr.db import DetectionOutput


class DetectionTargets(NamedTuple):
    """What a batch is taught, each (N, H, W) float.

    threshold_map: 0.3 far from a border of text to 0.7 on it; threshold_mask: 1 near a border; shrink_map: 1 inside the
    shrunk text; shrink_mask: 0 where nothing may be learned (illegible text).
    """

    threshold_map: Tensor
    threshold_mask: Tensor
    shrink_map: Tensor
    shrink_mask: Tensor


@dataclass(frozen=True, kw_only=True)
class DBLossSettings:
    """Weights of the shrink and threshold terms (the binary term has 1), and negatives per positive pixel."""

    shrink: float = 5.0
    threshold: float = 10.0
    negatives: float = 3.0
    eps: float = 1e-6


DEFAULT = DBLossSettings()
_TEACHER_THRESHOLD = 0.3  # of the teacher's shrink map, to be a label


def dice_loss(predicted: Tensor, wanted: Tensor, mask: Tensor, eps: float = 1e-6) -> Tensor:
    """1 - 2 * intersection / (sum of both) over all pixels of the batch together; masked pixels count nowhere.

    In float32 whatever came: half precision overflows in the sums.
    """
    predicted, wanted, mask = predicted.float(), wanted.float(), mask.float()
    intersection = (predicted * wanted * mask).sum()
    total = (predicted * mask).sum() + (wanted * mask).sum() + eps
    return 1.0 - 2.0 * intersection / total


def balanced_dice_loss(predicted: Tensor, wanted: Tensor, mask: Tensor, settings: DBLossSettings = DEFAULT) -> Tensor:
    """Dice loss, 0 where the batch has no positive pixel.

    The reference weights this one number with hard-negative mining as if it were a map: what is left of it is the
    factor count / (count + eps), where count is the positives and at most `negatives` times as many negatives.
    """
    positives = (wanted * mask).sum()
    negatives = torch.minimum(((1.0 - wanted) * mask).sum(), settings.negatives * positives)
    count = positives + negatives
    return dice_loss(predicted, wanted, mask, settings.eps) * count / (count + settings.eps)


def masked_l1_loss(predicted: Tensor, wanted: Tensor, mask: Tensor, eps: float = 1e-6) -> Tensor:
    """Mean absolute difference over the pixels of `mask`."""
    return ((predicted - wanted).abs() * mask).sum() / (mask.sum() + eps)


def db_losses(
    output: DetectionOutput, targets: DetectionTargets, settings: DBLossSettings = DEFAULT
) -> dict[str, Tensor]:
    """The three weighted terms "shrink", "threshold" and "binary" of a network in train mode."""
    shrink, threshold, binary = _maps(output)
    balanced = balanced_dice_loss(shrink, targets.shrink_map, targets.shrink_mask, settings)
    bordered = masked_l1_loss(threshold, targets.threshold_map, targets.threshold_mask, settings.eps)
    return {
        "shrink": settings.shrink * balanced,
        "threshold": settings.threshold * bordered,
        "binary": dice_loss(binary, targets.shrink_map, targets.shrink_mask, settings.eps),
    }


def _maps(output: DetectionOutput) -> tuple[Tensor, Tensor, Tensor]:
    if output.threshold is None or output.binary is None:
        raise ValueError("the network is in eval mode and gives no threshold map: call train() before its losses")
    return output.shrink[:, 0], output.threshold[:, 0], output.binary[:, 0]


def teacher_label(shrink: Tensor) -> Tensor:
    """The teacher's shrink map (N, 1, H, W) as a label (N, H, W) of 0 and 1: over 0.3, dilated by 2 x 2 pixels.

    The dilation is OpenCV's: a pixel is set when it, its left, its upper or its upper left neighbour is.
    """
    binary = (shrink.detach() > _TEACHER_THRESHOLD).float()
    return F.max_pool2d(F.pad(binary, (1, 0, 1, 0)), kernel_size=2, stride=1)[:, 0]


def teacher_loss(student: DetectionOutput, teacher: Tensor, mask: Tensor, settings: DBLossSettings = DEFAULT) -> Tensor:
    """A student's shrink and binary maps against the label that the teacher's shrink map (N, 1, H, W) gives."""
    shrink, _, binary = _maps(student)
    label = teacher_label(teacher)
    balanced = balanced_dice_loss(shrink, label, mask, settings)
    return settings.shrink * balanced + dice_loss(binary, label, mask, settings.eps)


def cml_losses(
    students: tuple[DetectionOutput, DetectionOutput],
    teacher: Tensor,
    targets: DetectionTargets,
    settings: DBLossSettings = DEFAULT,
) -> dict[str, Tensor]:
    """The terms of CML: each student under the teacher, the students under one another, and each under the labels.

    teacher: shrink map (N, 1, H, W) of the teacher in eval mode; no gradient reaches it.

    The reference adds the N mutual terms to the others as a vector, so that its gradient is that of N times this sum.
    Here the mean over pictures is taken; Adam sees the factor only where it weighs the gradient against weight decay.
    """
    losses = {"mutual": mutual_map_loss(students[0].shrink, students[1].shrink).mean()}
    for name, student in zip(("student", "student2"), students, strict=True):
        losses[f"{name}_teacher"] = teacher_loss(student, teacher, targets.shrink_mask, settings)
        losses |= {f"{name}_{term}": loss for term, loss in db_losses(student, targets, settings).items()}
    return losses
