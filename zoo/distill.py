"""Losses between the outputs of two networks that teach one another, or of a student and its teacher. No domain.

Source: Deep Mutual Learning (https://arxiv.org/abs/1706.00384); PaddleOCR `ppocr/losses/basic_loss.py` (DMLLoss,
KLJSLoss, DistanceLoss).
"""

from torch import Tensor
from torch.nn import functional as F

_TINY = 1e-10


def mutual_loss(first: Tensor, second: Tensor) -> Tensor:
    """Half the sum of both Kullback-Leibler divergences between two networks' scores (N, ..., K) over K classes.

    The scores are before softmax. Summed over everything but the batch and divided by N: a scalar that grows with the
    number of places, as in the reference.
    """
    one = first.softmax(dim=-1) + _TINY
    other = second.softmax(dim=-1) + _TINY
    # The reference adds its epsilon once more inside the logarithm of the target.
    toward_other = other * ((other + _TINY).log() - one.log())
    toward_one = one * ((one + _TINY).log() - other.log())
    return (toward_other + toward_one).sum() / (2 * first.shape[0])


def mutual_map_loss(first: Tensor, second: Tensor, eps: float = 1e-5) -> Tensor:
    """Half the sum of p2 log(p2 / p1) and p1 log(p1 / p2) of two maps of probabilities (N, ...): one mean each, (N,).

    The maps have one shape, values 0..1 and need not sum to 1 over anything.
    """
    toward_second = second * ((second + eps) / (first + eps) + eps).log()
    toward_first = first * ((first + eps) / (second + eps) + eps).log()
    return 0.5 * (toward_second + toward_first).flatten(1).mean(dim=1)


def l2_distance(first: Tensor, second: Tensor) -> Tensor:
    """Mean squared difference of two feature maps of one shape; a scalar."""
    return F.mse_loss(first, second)
