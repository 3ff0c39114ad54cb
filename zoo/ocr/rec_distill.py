"""Losses of a recogniser under a larger, frozen one: PP-OCRv4's distillation of its mobile model.

Shapes: N lines, T columns (the two networks may have different ones), L characters, K classes.
Source: Decoupled Knowledge Distillation (https://arxiv.org/abs/2203.08679); PaddleOCR
`ppocr/losses/distillation_loss.py`, `configs/rec/PP-OCRv4/ch_PP-OCRv4_rec_distill.yml`.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

_TINY = 1e-6
_TEMPERATURE = 0.5  # of the CTC scores: sharper than they are


def ctc_logits_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Divergence between both networks' characters on average over the line, from scores (N, T, K); a scalar.

    The blank's score is negated first, as in the reference, so that it does not outweigh everything else.
    """
    one, other = (_mean_characters(scores) for scores in (student, teacher.detach()))
    return (other * ((other + _TINY) / (one + _TINY) + _TINY).log()).sum() / student.shape[0]


def _mean_characters(scores: Tensor) -> Tensor:
    scores = torch.cat((-scores[:, :, :1], scores[:, :, 1:]), dim=2)
    return (scores / _TEMPERATURE).softmax(dim=2).mean(dim=1)


def decoupled_loss(
    student: Tensor, teacher: Tensor, labels: Tensor, *, alpha: float = 1.0, beta: float = 2.0
) -> Tensor:
    """DKD of scores (M, K) with labels (M,) int64: alpha times the divergence of "the label or not", beta times that
    among the other classes. Mean over M; no gradient reaches the teacher."""
    teacher = teacher.detach()
    right = F.one_hot(labels, student.shape[1]).bool()
    target = _divergence(_label_or_not(student, right), _label_or_not(teacher, right))
    # The reference takes 1000 off the label's score, which leaves it no probability.
    others = [(scores - 1000.0 * right).log_softmax(dim=1) for scores in (student, teacher)]
    return alpha * target + beta * _divergence(*others)


def _label_or_not(scores: Tensor, right: Tensor) -> Tensor:
    """Logarithms (M, 2) of the probability of the label and of all others together."""
    logs = scores.log_softmax(dim=1)
    label = logs.masked_fill(~right, float("-inf")).logsumexp(dim=1)
    rest = logs.masked_fill(right, float("-inf")).logsumexp(dim=1)
    return torch.stack((label, rest), dim=1)


def _divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over rows of the Kullback-Leibler divergence, from logarithms of probabilities."""
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)


def teacher_losses(
    student: tuple[Tensor, Tensor | None],
    teacher: tuple[Tensor, Tensor | None],
    labels: Tensor | None,
    *,
    guide_weight: float = 0.1,
) -> dict[str, Tensor]:
    """Terms "teacher_ctc" and, where both networks have an NRTR branch, "teacher_guide".

    student, teacher: (CTC scores (N, T, K), scores of the branch (N, L, K') or None). labels: (N, at least L + 1) of
    NRTR, 0 is padding and not compared.
    """
    losses = {"teacher_ctc": ctc_logits_loss(student[0], teacher[0])}
    if student[1] is not None and teacher[1] is not None:
        assert labels is not None
        wanted = labels[:, 1 : 1 + student[1].shape[1]]
        real = wanted != 0
        losses["teacher_guide"] = guide_weight * decoupled_loss(student[1][real], teacher[1][real], wanted[real])
    return losses
