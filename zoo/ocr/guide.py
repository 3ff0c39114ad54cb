"""What the attention branches of recognition (SAR, NRTR) are given while training; they are absent when reading."""

from typing import NamedTuple

from torch import Tensor


class GuideTargets(NamedTuple):
    """Labels of a batch of N lines for an attention branch.

    labels: (N, L) int64, start token, characters, end token, padding, as the branch numbers them;
    lengths: (N,) int64, characters of each line without start and end;
    valid_ratios: (N,) float, the share of the picture's width that is text and not padding, in (0, 1].
    """

    labels: Tensor
    lengths: Tensor
    valid_ratios: Tensor
