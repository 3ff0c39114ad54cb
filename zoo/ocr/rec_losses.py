"""Losses of text-line recognition: CTC, the two attention branches, their sum, and the mutual learning of two networks.

Shapes: N lines, T columns, L characters, K classes. Every function gives scalars, already weighted.
Source: PaddleOCR `ppocr/losses/rec_ctc_loss.py`, `rec_sar_loss.py`, `rec_nrtr_loss.py`, `rec_multi_loss.py`,
`distillation_loss.py`; `configs/rec/PP-OCRv3/ch_PP-OCRv3_rec_distillation.yml`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.distill import l2_distance, mutual_loss
from zoo.ocr.guide import GuideTargets
from zoo.ocr.rec import RecognitionOutput


class RecognitionTargets(NamedTuple):
    """Labels of N lines.

    labels: (N, L) int64 CTC classes, padded with anything; lengths: (N,) int64, characters of each line;
    guide: what the attention branch is taught, None when there is no such branch.
    """

    labels: Tensor
    lengths: Tensor
    guide: GuideTargets | None


def ctc_loss(logits: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """Mean over lines of the CTC loss of (N, T, K) scores; class 0 is the blank.

    Unlike torch's own mean, a line's loss is not divided by its length. A line that does not fit into T columns has
    an infinite loss, as in the reference.
    """
    if logits.shape[0] == 0:
        raise ValueError("the batch holds no line, so there is no mean over lines")
    columns = torch.full((logits.shape[0],), logits.shape[1], dtype=torch.long)
    log_probabilities = logits.log_softmax(dim=-1).transpose(0, 1)
    return F.ctc_loss(log_probabilities, labels, columns, lengths, blank=0, reduction="none").mean()


def sar_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of the next character, padding left out; scores (N, L, K), labels (N, L) of K + 1 classes.

    The score at step i is for label i + 1; the padding token, K, is never scored.
    """
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=scores.shape[2])


def nrtr_loss(scores: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """Mean cross-entropy of the next token, padding (0) left out; scores (N, L, K), labels (N, at least L + 1).

    `smoothing` gives 1 - smoothing to the right class and spreads the rest evenly over the K - 1 others, where torch's
    own label smoothing spreads it over all K.
    """
    steps, classes = scores.shape[1:]
    log_probabilities = scores.log_softmax(dim=-1)
    wanted = labels[:, 1 : 1 + steps]
    right = log_probabilities.gather(2, wanted[:, :, None]).squeeze(2)
    others = log_probabilities.sum(dim=2) - right
    loss = -(1.0 - smoothing) * right - smoothing / (classes - 1) * others
    return loss[wanted != 0].mean()


GuideLoss = Callable[[Tensor, Tensor], Tensor]
"""Loss of an attention branch from its scores and labels: `sar_loss` for v3, `nrtr_loss` for v4 and v5."""


def recognition_losses(
    output: RecognitionOutput, targets: RecognitionTargets, guide_loss: GuideLoss
) -> dict[str, Tensor]:
    """Terms "ctc" and, when the network has an attention branch, "guide", both of weight 1."""
    losses = {"ctc": ctc_loss(output.logits, targets.labels, targets.lengths)}
    if output.guide_scores is not None:
        if targets.guide is None:
            raise ValueError("the network gave scores of its attention branch, but the targets have no labels for it")
        losses["guide"] = guide_loss(output.guide_scores, targets.guide.labels)
    return losses


def mutual_recognition_losses(
    student: RecognitionOutput,
    teacher: RecognitionOutput,
    targets: RecognitionTargets,
    guide_loss: GuideLoss,
    *,
    guide_weight: float = 0.5,
) -> dict[str, Tensor]:
    """U-DML of two networks of one shape that are both trained: PP-OCRv3's recognition distillation.

    Terms: each network's own losses ("student_ctc", "teacher_ctc", "student_guide", "teacher_guide"), the mutual loss
    of their CTC scores, that of their attention branches (times `guide_weight`), and the squared distance of their
    backbones' features.
    """
    losses = {f"student_{name}": term for name, term in recognition_losses(student, targets, guide_loss).items()}
    losses |= {f"teacher_{name}": term for name, term in recognition_losses(teacher, targets, guide_loss).items()}
    losses["mutual_ctc"] = mutual_loss(student.logits, teacher.logits)
    if student.guide_scores is not None and teacher.guide_scores is not None:
        losses["mutual_guide"] = guide_weight * mutual_loss(student.guide_scores, teacher.guide_scores)
    losses["features"] = l2_distance(student.features, teacher.features)
    return losses
