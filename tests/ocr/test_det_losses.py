"""Losses of text detection, by hand calculation, by OpenCV and by their properties."""

import cv2
import numpy as np
import pytest
import torch

from zoo.distill import l2_distance, mutual_loss, mutual_map_loss
from zoo.ocr import det_losses
from zoo.ocr.db import DetectionOutput


def targets(shrink_map: torch.Tensor, shrink_mask: torch.Tensor | None = None) -> det_losses.DetectionTargets:
    ones = torch.ones_like(shrink_map)
    return det_losses.DetectionTargets(0.5 * ones, ones, shrink_map, ones if shrink_mask is None else shrink_mask)


def test_dice_loss_of_nothing_is_its_largest() -> None:
    nothing = torch.zeros(1, 4, 4)
    assert det_losses.dice_loss(nothing, nothing, nothing).item() == 1.0


def test_dice_loss_by_hand() -> None:
    """Predicted .5 .5 0 1, wanted 1 0 0 1, last pixel masked: 1 - 2 * .5 / (1 + 1)."""
    predicted, wanted = torch.tensor([[[0.5, 0.5, 0.0, 1.0]]]), torch.tensor([[[1.0, 0.0, 0.0, 1.0]]])
    mask = torch.tensor([[[1.0, 1.0, 1.0, 0.0]]])
    assert det_losses.dice_loss(predicted, wanted, mask).item() == pytest.approx(0.5, rel=1e-5)


def test_dice_loss_in_half_precision_does_not_overflow() -> None:
    """The sum of 512 x 512 ones is beyond float16."""
    full = torch.ones(1, 512, 512, dtype=torch.float16)
    assert det_losses.dice_loss(full, full, full).item() == pytest.approx(0.0, abs=1e-5)


def test_balanced_dice_loss_is_zero_without_text() -> None:
    shrink = torch.rand(1, 4, 4, requires_grad=True)
    loss = det_losses.balanced_dice_loss(shrink, torch.zeros(1, 4, 4), torch.ones(1, 4, 4))
    loss.backward()
    assert loss.item() == 0.0
    assert shrink.grad is not None
    assert not shrink.grad.any()


def test_balanced_dice_loss_ignores_masked_text() -> None:
    ones = torch.ones(1, 4, 4)
    assert det_losses.balanced_dice_loss(ones, ones, torch.zeros(1, 4, 4)).item() == 0.0


def test_masked_l1_loss_by_hand() -> None:
    predicted, wanted = torch.tensor([0.3, 0.7, 0.9]), torch.tensor([0.5, 0.6, 0.0])
    assert det_losses.masked_l1_loss(predicted, wanted, torch.tensor([1.0, 1.0, 0.0])).item() == pytest.approx(0.15)
    assert det_losses.masked_l1_loss(predicted, wanted, torch.zeros(3)).item() == 0.0


def test_db_losses_of_a_perfect_answer() -> None:
    """Shrink and binary maps as wanted; the threshold map 0.2 off, times 10."""
    wanted = torch.zeros(2, 8, 8)
    wanted[:, 2:5, 1:7] = 1
    output = DetectionOutput(wanted[:, None], torch.full((2, 1, 8, 8), 0.7), wanted[:, None])
    losses = det_losses.db_losses(output, targets(wanted))
    assert {name: round(loss.item(), 4) for name, loss in losses.items()} == {
        "shrink": 0.0,
        "threshold": 2.0,
        "binary": 0.0,
    }


def test_losses_of_a_network_in_eval_mode_are_refused() -> None:
    output = DetectionOutput(torch.zeros(1, 1, 4, 4), None, None)
    with pytest.raises(ValueError, match="eval mode"):
        det_losses.db_losses(output, targets(torch.zeros(1, 4, 4)))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (32, 33)])
def test_teacher_label_is_opencv_dilation(shape: tuple[int, int]) -> None:
    maps = np.random.default_rng(0).uniform(0, 0.4, (2, 1, *shape)).astype(np.float32)
    expected = [cv2.dilate((m[0] > 0.3).astype(np.uint8), np.ones((2, 2), np.uint8)) for m in maps]
    got = det_losses.teacher_label(torch.from_numpy(maps))
    assert np.array_equal(got.numpy(), np.stack(expected).reshape(2, *shape).astype(np.float32))


def test_no_gradient_reaches_the_teacher() -> None:
    student = DetectionOutput(*(torch.rand(1, 1, 4, 4, requires_grad=True) for _ in range(3)))
    teacher = torch.rand(1, 1, 4, 4, requires_grad=True)
    det_losses.teacher_loss(student, teacher, torch.ones(1, 4, 4)).backward()
    assert teacher.grad is None
    assert student.shrink.grad is not None


def test_mutual_losses_are_symmetric_and_zero_for_twins() -> None:
    torch.manual_seed(0)
    one, other = torch.rand(3, 1, 5, 4), torch.rand(3, 1, 5, 4)
    for loss in (mutual_loss, mutual_map_loss, l2_distance):
        assert torch.allclose(loss(one, other), loss(other, one))
        assert torch.allclose(loss(one, one), torch.zeros(()), atol=1e-4)
        assert (loss(one, other) > 1e-3).all()
    assert mutual_map_loss(one, other).shape == (3,)


def test_mutual_loss_by_hand() -> None:
    """Two classes, (1/2, 1/2) and (3/4, 1/4): the two divergences are log(4/3)/2 and 3/4 log(3/2) + 1/4 log(1/2)."""
    first, second = torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]).log()
    expected = (0.5 * np.log(4 / 3) + 0.75 * np.log(1.5) + 0.25 * np.log(0.5)) / 2
    assert mutual_loss(first, second).item() == pytest.approx(expected, rel=1e-5)
    assert mutual_loss(first.repeat(4, 1), second.repeat(4, 1)).item() == pytest.approx(expected, rel=1e-5)
