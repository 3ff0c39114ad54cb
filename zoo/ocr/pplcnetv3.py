"""PP-LCNetV3: the backbone of PP-OCRv4 and v5 mobile, trained with parallel convolutions that fold into one.

Shapes: pictures (N, 3, H, W). Detection gives four maps at strides 4, 8, 16, 32; recognition one row of features.
Source: PaddleOCR `ppocr/modeling/backbones/rec_lcnetv3.py`.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.layers import ChannelGate, ConvNorm, Stride, affine_of_norm, divisible

# (kernel, input, output, channel gate) at scale 1, by stage.
_STAGES: tuple[tuple[tuple[int, int, int, bool], ...], ...] = (
    ((3, 16, 32, False),),
    ((3, 32, 64, False), (3, 64, 64, False)),
    ((3, 64, 128, False), (3, 128, 128, False)),
    ((3, 128, 256, False), *((5, 256, 256, False),) * 4),
    ((5, 256, 512, True), (5, 512, 512, True), (5, 512, 512, False), (5, 512, 512, False)),
)
# Stride of (stage, block) where it is not (1, 1).
DETECTION_STRIDES: Mapping[tuple[int, int], Stride] = {(1, 0): (2, 2), (2, 0): (2, 2), (3, 0): (2, 2), (4, 0): (2, 2)}
RECOGNITION_STRIDES: Mapping[tuple[int, int], Stride] = {
    (2, 0): (2, 1),
    (3, 0): (1, 2),
    (4, 0): (2, 1),
    (4, 2): (2, 1),
}
_TAP_CHANNELS = (16, 24, 56, 480)  # of the four detection maps, at scale 1
_WIDTH_STEP = 16  # channels are multiples of it
_TRAINING_COLUMNS = 40  # of a text line's features while training, whatever the picture's width


class LearnableAffine(nn.Module):
    """One learned scale and one learned offset for all channels."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, features: Tensor) -> Tensor:
        return self.scale * features + self.bias


class AffineHardSwish(nn.Module):
    """Hard-swish, then a learned affine."""

    def __init__(self) -> None:
        super().__init__()
        self.affine = LearnableAffine()

    def forward(self, features: Tensor) -> Tensor:
        return self.affine(F.hardswish(features))


class PlainLayer(nn.Module):
    """The inference form of `BranchedLayer`: one convolution with bias, affine, activation."""

    def __init__(self, conv: nn.Conv2d, affine: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.conv = conv
        self.affine = affine
        self.activation = activation

    def forward(self, features: Tensor) -> Tensor:
        return self.activation(self.affine(self.conv(features)))


class BranchedLayer(nn.Module):
    """The sum of an identity, a 1x1 and `branches` k x k convolutions, each with a batch norm; affine; activation.

    As in the reference a layer of stride (2, 2) has no activation, while one of (2, 1) or (1, 2) has.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, stride: Stride, *, groups: int, branches: int
    ) -> None:
        super().__init__()
        self.stride = stride
        same = in_channels == out_channels and stride == (1, 1)
        self.identity = nn.BatchNorm2d(in_channels) if same else None
        self.branches = nn.ModuleList(
            ConvNorm(in_channels, out_channels, kernel, stride, groups=groups) for _ in range(branches)
        )
        self.pointwise = ConvNorm(in_channels, out_channels, 1, stride, groups=groups) if kernel > 1 else None
        self.affine = LearnableAffine()
        self.activation = nn.Identity() if stride == (2, 2) else AffineHardSwish()

    def forward(self, features: Tensor) -> Tensor:
        # In the reference's order, so that the sum is rounded alike.
        total: Tensor | None = None
        for branch in (self.identity, self.pointwise, *self.branches):
            if branch is not None:
                total = branch(features) if total is None else total + branch(features)
        return self.activation(self.affine(total))

    @torch.no_grad()
    def folded(self) -> PlainLayer:
        """The same function of eval mode as one convolution."""
        first = self.branches[0]
        assert isinstance(first, ConvNorm)
        weight = torch.zeros_like(first.conv.weight)
        bias = torch.zeros_like(first.norm.bias)
        centre = weight.shape[2] // 2
        for branch in (*self.branches, self.pointwise):
            if branch is not None:
                assert isinstance(branch, ConvNorm)
                scale, offset = affine_of_norm(branch.norm)
                margin = centre - branch.conv.kernel_size[0] // 2
                weight += F.pad(branch.conv.weight * scale[:, None, None, None], (margin,) * 4)
                bias += offset
        if self.identity is not None:
            scale, offset = affine_of_norm(self.identity)
            channel = torch.arange(weight.shape[0], device=weight.device)
            weight[channel, channel % weight.shape[1], centre, centre] += scale
            bias += offset
        plain = nn.Conv2d(
            first.conv.in_channels,
            weight.shape[0],
            weight.shape[2],
            self.stride,
            centre,
            groups=first.conv.groups,
        )
        plain.weight.copy_(weight)
        assert plain.bias is not None
        plain.bias.copy_(bias)
        return PlainLayer(plain.to(weight), self.affine, self.activation)


class Block(nn.Module):
    """Depthwise layer, optional channel gate, 1x1 layer."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, stride: Stride, *, gate: bool, branches: int
    ) -> None:
        super().__init__()
        self.depthwise = BranchedLayer(in_channels, in_channels, kernel, stride, groups=in_channels, branches=branches)
        self.gate = ChannelGate(in_channels, slope=1 / 6) if gate else nn.Identity()
        self.pointwise = BranchedLayer(in_channels, out_channels, 1, (1, 1), groups=1, branches=branches)

    def forward(self, features: Tensor) -> Tensor:
        return self.pointwise(self.gate(self.depthwise(features)))


def _stages(scale: float, strides: Mapping[tuple[int, int], Stride], branches: int) -> nn.ModuleList:
    return nn.ModuleList(
        nn.Sequential(
            *(
                Block(
                    divisible(inputs * scale, _WIDTH_STEP),
                    divisible(outputs * scale, _WIDTH_STEP),
                    kernel,
                    strides.get((number, index), (1, 1)),
                    gate=gate,
                    branches=branches,
                )
                for index, (kernel, inputs, outputs, gate) in enumerate(stage)
            )
        )
        for number, stage in enumerate(_STAGES)
    )


class PPLCNetV3Detection(nn.Module):
    """Backbone of text detection: (N, 3, H, W) to four maps at strides 4, 8, 16, 32 of `out_channels` channels."""

    def __init__(self, *, scale: float = 0.75, branches: int = 4) -> None:
        super().__init__()
        self.stem = ConvNorm(3, divisible(16 * scale, _WIDTH_STEP), 3, (2, 2))
        self.stages = _stages(scale, DETECTION_STRIDES, branches)
        widths = [divisible(stage[-1][2] * scale, _WIDTH_STEP) for stage in _STAGES[1:]]
        self.out_channels = tuple(int(channels * scale) for channels in _TAP_CHANNELS)
        self.taps = nn.ModuleList(
            nn.Conv2d(width, channels, 1) for width, channels in zip(widths, self.out_channels, strict=True)
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        features = self.stages[0](self.stem(images))
        maps = []
        for stage in self.stages[1:]:
            features = stage(features)
            maps.append(features)
        return [tap(features) for tap, features in zip(self.taps, maps, strict=True)]


class PPLCNetV3Recognition(nn.Module):
    """Backbone of text recognition: (N, 3, 48, W) to (N, out_channels, 1, W / 8).

    While training the columns are averaged to 40 whatever the width, when reading in groups of 2, as in the reference.
    """

    def __init__(self, *, scale: float = 0.95, branches: int = 4) -> None:
        super().__init__()
        self.stem = ConvNorm(3, divisible(16 * scale, _WIDTH_STEP), 3, (2, 2))
        self.stages = _stages(scale, RECOGNITION_STRIDES, branches)
        self.out_channels = divisible(512 * scale, _WIDTH_STEP)

    def forward(self, images: Tensor) -> Tensor:
        features = self.stem(images)
        for stage in self.stages:
            features = stage(features)
        if self.training:
            return F.adaptive_avg_pool2d(features, (1, _TRAINING_COLUMNS))
        return F.avg_pool2d(features, (3, 2))


# Names in a PaddleOCR checkpoint, under "backbone.", to names here.
PPLCNETV3_NAMES: tuple[tuple[str, str], ...] = (
    (r"^backbone\.conv1\.", "backbone.stem."),
    *((rf"^backbone\.blocks{number + 2}\.", f"backbone.stages.{number}.") for number in range(5)),
    (r"^backbone\.layer_list\.", "backbone.taps."),
    (r"^(backbone\..*)\.dw_conv\.", r"\1.depthwise."),
    (r"^(backbone\..*)\.pw_conv\.", r"\1.pointwise."),
    (r"^(backbone\..*)\.se\.", r"\1.gate."),
    (r"^(backbone\..*)\.conv_kxk\.", r"\1.branches."),
    (r"^(backbone\..*)\.conv_1x1\.", r"\1.pointwise."),
    (r"^(backbone\..*)\.bn\.", r"\1.norm."),
    (r"^(backbone\..*)\.act\.lab\.", r"\1.activation.affine."),
    (r"^(backbone\..*)\.lab\.", r"\1.affine."),
)
# A layer of stride 2 skips its activation, yet the reference keeps that activation's affine: initial values, no use.
_UNUSED_BLOCKS = tuple(f"backbone.blocks{number}.0.dw_conv.act.lab." for number in (3, 4, 5, 6))


def without_unused(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A detection checkpoint less the affines that the reference never applies (in its four layers of stride 2)."""
    return {name: array for name, array in arrays.items() if not name.startswith(_UNUSED_BLOCKS)}
