"""Losses of text-line recognition, by hand calculation and by enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from zoo.ocr import rec, rec_losses
from zoo.ocr.guide import GuideTargets


def test_ctc_loss_of_no_lines() -> None:
    none = torch.zeros(0, dtype=torch.long)
    with pytest.raises(ValueError, match="no line"):
        rec_losses.ctc_loss(torch.zeros(0, 4, 3), none.view(0, 1), none)


def test_ctc_loss_of_one_column() -> None:
    """One column can only spell the one character: loss = -log p(character)."""
    logits = torch.tensor([[[0.0, 1.0, 2.0]]])
    loss = rec_losses.ctc_loss(logits, torch.tensor([[2]]), torch.tensor([1]))
    assert loss.item() == pytest.approx(-math.log(math.exp(2) / (1 + math.e + math.exp(2))), rel=1e-6)


def test_ctc_loss_sums_every_path_and_averages_lines() -> None:
    """All K^T paths enumerated; a line's loss is not divided by its length, lines are averaged."""
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 3, dtype=torch.float64)
    labels, lengths = torch.tensor([[1, 1], [2, 0]]), torch.tensor([2, 1])
    losses = []
    for line in range(2):
        wanted = labels[line, : lengths[line]].tolist()
        probabilities = logits[line].softmax(-1)
        total = 0.0
        for path in itertools.product(range(3), repeat=4):
            spelled = [k for k, _ in itertools.groupby(path) if k]
            if spelled == wanted:
                total += math.prod(probabilities[step, k].item() for step, k in enumerate(path))
        losses.append(-math.log(total))
    assert rec_losses.ctc_loss(logits, labels, lengths).item() == pytest.approx(sum(losses) / 2, rel=1e-9)


def test_sar_loss_is_for_the_next_label_without_padding() -> None:
    """3 predictable classes, padding 3. Step 0 is for label 1; step 1 for padding: not counted; step 2 for nothing."""
    scores = torch.tensor([[[0.0, 0.0, math.log(2)], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]]])
    assert rec_losses.sar_loss(scores, torch.tensor([[0, 2, 3]])).item() == pytest.approx(math.log(2), rel=1e-6)


def test_nrtr_loss_by_hand() -> None:
    """Uniform scores of 4 classes: every log-probability is -log 4, whatever the smoothing."""
    labels = torch.tensor([[2, 1, 3, 0]])
    assert rec_losses.nrtr_loss(torch.zeros(1, 2, 4), labels).item() == pytest.approx(math.log(4), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nrtr_loss_spreads_over_the_other_classes(smoothing: float) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(2, 3, 5), torch.tensor([[2, 4, 1, 3], [2, 3, 0, 0]])
    total, counted = 0.0, 0
    for line, step in itertools.product(range(2), range(3)):
        right = int(labels[line, step + 1])
        if right == 0:
            continue
        soft = torch.full((5,), smoothing / 4)
        soft[right] = 1 - smoothing
        total -= float((soft * scores[line, step].log_softmax(0)).sum())
        counted += 1
    loss = rec_losses.nrtr_loss(scores, labels, smoothing)
    assert loss.item() == pytest.approx(total / counted, rel=1e-5)


def test_losses_name_a_missing_target() -> None:
    output = rec.RecognitionOutput(torch.zeros(1, 4, 3), torch.zeros(1), torch.zeros(1), torch.zeros(1, 2, 3))
    targets = rec_losses.RecognitionTargets(torch.tensor([[1]]), torch.tensor([1]), None)
    with pytest.raises(ValueError, match="attention branch"):
        rec_losses.recognition_losses(output, targets, rec_losses.sar_loss)


def test_equal_networks_have_nothing_to_teach_each_other() -> None:
    torch.manual_seed(0)
    output = rec.RecognitionOutput(torch.randn(1, 4, 3), torch.zeros(1), torch.randn(1, 2, 1, 4), torch.randn(1, 3, 4))
    guide = GuideTargets(torch.tensor([[3, 1, 4]]), torch.tensor([1]), torch.ones(1))
    targets = rec_losses.RecognitionTargets(torch.tensor([[1]]), torch.tensor([1]), guide)
    losses = rec_losses.mutual_recognition_losses(output, output, targets, rec_losses.sar_loss)
    assert losses["features"] == 0
    assert losses["mutual_ctc"].item() == pytest.approx(0, abs=1e-6)
    assert losses["mutual_guide"].item() == pytest.approx(0, abs=1e-6)
    assert losses["student_ctc"] == losses["teacher_ctc"]
