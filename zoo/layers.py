"""Blocks that networks of several domains use unchanged, and `fuse`, which folds training branches into plain layers.

Shapes: features are (N, C, H, W). Convolutions before a batch norm start with He-normal weights.
"""

import copy
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

Stride = tuple[int, int]
"""Rows, columns."""


def divisible(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of `divisor`, at least `divisor`, never more than 10 % below `channels`.

    Source: MobileNetV2 (https://arxiv.org/abs/1801.04381), as every Paddle backbone rounds its widths.
    """
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class ConvNorm(nn.Module):
    """Convolution without bias that keeps the size (but for `stride`), batch norm, activation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: Stride = (1, 1),
        *,
        groups: int = 1,
        activation: type[nn.Module] = nn.Identity,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        self.activation = activation()
        nn.init.kaiming_normal_(self.conv.weight)

    def forward(self, features: Tensor) -> Tensor:
        return self.activation(self.norm(self.conv(features)))


class ChannelGate(nn.Module):
    """Squeeze-and-excite: every channel times a hard sigmoid, clip(slope * x + 0.5, 0, 1), of the pooled channels.

    `slope` is 0.2 in Paddle's MobileNetV3 and detection necks, 1/6 (torch's own) in PP-LCNet and its successors.
    Source: https://arxiv.org/abs/1709.01507; PaddleOCR `ppocr/modeling/backbones/det_mobilenet_v3.py`.
    """

    def __init__(self, channels: int, *, slope: float, reduction: int = 4) -> None:
        super().__init__()
        self.slope = slope
        self.conv1 = nn.Conv2d(channels, channels // reduction, 1)
        self.conv2 = nn.Conv2d(channels // reduction, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        pooled = features.mean(dim=(2, 3), keepdim=True)
        scores = self.conv2(torch.relu(self.conv1(pooled)))
        return features * (self.slope * scores + 0.5).clamp(0.0, 1.0)


@runtime_checkable
class Foldable(Protocol):
    """A layer that trains with several branches and has an equal, plainer form for inference."""

    def folded(self) -> nn.Module: ...


def fuse(network: nn.Module) -> nn.Module:
    """A copy of `network` for inference, each branched layer replaced by its plain form; the outputs are the same.

    The copy is in eval mode. `network` itself is left as it was.
    """
    copied = copy.deepcopy(network).eval()
    if isinstance(copied, Foldable):
        return copied.folded().eval()
    _fold_children(copied)
    return copied


def _fold_children(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, Foldable):
            setattr(module, name, child.folded().eval())
        else:
            _fold_children(child)


def affine_of_norm(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """(scale, offset), each (C,), so that `norm` in eval mode is scale * x + offset."""
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale, norm.bias - norm.running_mean * scale
