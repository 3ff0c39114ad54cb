"""PP-LCNet: depthwise-separable classifier for CPUs, and what PP-OCRv5's text-line direction classifier is made of.

Shapes: pictures (N, 3, H, W) in; logits (N, classes) out. x0_25 to x2_5 differ by `scale` alone.
Source: PP-LCNet (https://arxiv.org/abs/2109.15099); PaddleClas `ppcls/arch/backbone/legendary_models/pp_lcnet.py`.
"""

from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.assign import Renames, assign_by_name
from zoo.layers import ChannelGate, ConvNorm, Stride, divisible

# (kernel, input, output, downsample, squeeze-and-excite) at scale 1, by stage.
_STAGES: tuple[tuple[tuple[int, int, int, bool, bool], ...], ...] = (
    ((3, 16, 32, False, False),),
    ((3, 32, 64, True, False), (3, 64, 64, False, False)),
    ((3, 64, 128, True, False), (3, 128, 128, False, False)),
    ((3, 128, 256, True, False), *((5, 256, 256, False, False),) * 5),
    ((5, 256, 512, True, True), (5, 512, 512, False, True)),
)
_HIDDEN = 1280


class SeparableBlock(nn.Module):
    """Depthwise convolution, optional channel gate, 1x1 convolution."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: Stride, *, gate: bool) -> None:
        super().__init__()
        act = nn.Hardswish
        self.depthwise = ConvNorm(in_channels, in_channels, kernel, stride, groups=in_channels, activation=act)
        self.gate = ChannelGate(in_channels, slope=1 / 6) if gate else nn.Identity()
        self.pointwise = ConvNorm(in_channels, out_channels, 1, activation=act)

    def forward(self, features: Tensor) -> Tensor:
        return self.pointwise(self.gate(self.depthwise(features)))


class PPLCNet(nn.Module):
    """Classifier of `classes`; without its head (`features`) it is a backbone.

    Submodules are registered in the order in which they run. PaddleClas publishes ImageNet weights of scale 0.25, 0.35,
    0.5, 0.75, 1.0, 1.5, 2.0 and 2.5.

    `strides` are those of the stem and of the first block of stages 2 to 5: (2, 1) keeps the columns of a text line.
    """

    def __init__(
        self,
        *,
        scale: float = 1.0,
        classes: int = 1000,
        strides: tuple[Stride, Stride, Stride, Stride, Stride] = ((2, 2),) * 5,
        hidden: int = _HIDDEN,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.stem = ConvNorm(3, divisible(16 * scale), 3, strides[0], activation=nn.Hardswish)
        self.stages = nn.ModuleList(
            nn.Sequential(
                *(
                    SeparableBlock(
                        divisible(inputs * scale),
                        divisible(outputs * scale),
                        kernel,
                        strides[number] if downsample else (1, 1),
                        gate=gate,
                    )
                    for kernel, inputs, outputs, downsample, gate in stage
                )
            )
            for number, stage in enumerate(_STAGES)
        )
        self.expand = nn.Conv2d(divisible(512 * scale), hidden, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.kept = 1.0 - dropout
        self.classifier = nn.Linear(hidden, classes)

    def features(self, images: Tensor) -> list[Tensor]:
        """The feature map after each of the five stages, at strides 2, 4, 8, 16, 32 by default."""
        maps = []
        current = self.stem(images)
        for stage in self.stages:
            current = stage(current)
            maps.append(current)
        return maps

    def forward(self, images: Tensor) -> Tensor:
        pooled = self.features(images)[-1].mean(dim=(2, 3), keepdim=True)
        hidden = F.hardswish(self.expand(pooled)).flatten(1)
        # Paddle's "downscale_in_infer": what is kept while training is not scaled up, all is scaled down afterwards.
        return self.classifier(self.dropout(self.kept * hidden))


_NAMES: Renames = (
    (r"^conv1\.", "stem."),
    (r"^blocks2\.", "stages.0."),
    (r"^blocks3\.", "stages.1."),
    (r"^blocks4\.", "stages.2."),
    (r"^blocks5\.", "stages.3."),
    (r"^blocks6\.", "stages.4."),
    (r"\.dw_conv\.", ".depthwise."),
    (r"\.pw_conv\.", ".pointwise."),
    (r"\.se\.", ".gate."),
    (r"\.bn\.", ".norm."),
    (r"^last_conv\.", "expand."),
    (r"^fc\.", "classifier."),
)


def load_paddle(network: PPLCNet, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from a PaddleClas checkpoint; ValueError lists every name left over."""
    assign_by_name(network, arrays, _NAMES)
