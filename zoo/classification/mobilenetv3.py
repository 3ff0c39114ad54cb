"""MobileNetV3: classifier for CPUs, and the backbone of PP-OCRv3 detection and of the text-direction classifier.

Shapes: pictures (N, 3, H, W) in; the backbone gives one map per tap, the classifier logits (N, classes).
Source: MobileNetV3 (https://arxiv.org/abs/1905.02244); sizes from PaddleClas
`ppcls/arch/backbone/legendary_models/mobilenet_v3.py`, PaddleOCR `ppocr/modeling/backbones/det_mobilenet_v3.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.assign import Renames, assign_by_name
from zoo.layers import ChannelGate, ConvNorm, Stride, divisible


class BlockSize(NamedTuple):
    """One block at scale 1: kernel, expanded and output channels, channel gate, hard-swish (else ReLU), stride."""

    kernel: int
    expanded: int
    channels: int
    gate: bool
    hard_swish: bool
    stride: int


LARGE: tuple[BlockSize, ...] = (
    BlockSize(3, 16, 16, False, False, 1),
    BlockSize(3, 64, 24, False, False, 2),
    BlockSize(3, 72, 24, False, False, 1),
    BlockSize(5, 72, 40, True, False, 2),
    BlockSize(5, 120, 40, True, False, 1),
    BlockSize(5, 120, 40, True, False, 1),
    BlockSize(3, 240, 80, False, True, 2),
    BlockSize(3, 200, 80, False, True, 1),
    BlockSize(3, 184, 80, False, True, 1),
    BlockSize(3, 184, 80, False, True, 1),
    BlockSize(3, 480, 112, True, True, 1),
    BlockSize(3, 672, 112, True, True, 1),
    BlockSize(5, 672, 160, True, True, 2),
    BlockSize(5, 960, 160, True, True, 1),
    BlockSize(5, 960, 160, True, True, 1),
)
SMALL: tuple[BlockSize, ...] = (
    BlockSize(3, 16, 16, True, False, 2),
    BlockSize(3, 72, 24, False, False, 2),
    BlockSize(3, 88, 24, False, False, 1),
    BlockSize(5, 96, 40, True, True, 2),
    BlockSize(5, 240, 40, True, True, 1),
    BlockSize(5, 240, 40, True, True, 1),
    BlockSize(5, 120, 48, True, True, 1),
    BlockSize(5, 144, 48, True, True, 1),
    BlockSize(5, 288, 96, True, True, 2),
    BlockSize(5, 576, 96, True, True, 1),
    BlockSize(5, 576, 96, True, True, 1),
)
Size = Literal["large", "small"]
_SIZES: dict[Size, tuple[tuple[BlockSize, ...], int]] = {"large": (LARGE, 960), "small": (SMALL, 576)}
_GATE_SLOPE = 0.2  # of the hard sigmoid, in every Paddle MobileNetV3
_CLASSIFIER_CHANNELS = 1280
# Blocks before which detection takes a map: each of stride 2, but for the first two of "large", whose maps are large.
_DETECTION_TAPS: dict[Size, tuple[int, ...]] = {"large": (3, 6, 12), "small": (1, 3, 8)}


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, optional channel gate, 1x1 projection, added to an input of its shape."""

    def __init__(self, in_channels: int, size: BlockSize, scale: float, stride: Stride, *, gate: bool) -> None:
        super().__init__()
        expanded = divisible(size.expanded * scale)
        out_channels = divisible(size.channels * scale)
        activation = nn.Hardswish if size.hard_swish else nn.ReLU
        self.expand = ConvNorm(in_channels, expanded, 1, activation=activation)
        self.depthwise = ConvNorm(expanded, expanded, size.kernel, stride, groups=expanded, activation=activation)
        self.gate = ChannelGate(expanded, slope=_GATE_SLOPE) if gate else nn.Identity()
        self.project = ConvNorm(expanded, out_channels, 1)
        self.residual = stride == (1, 1) and in_channels == out_channels

    def forward(self, features: Tensor) -> Tensor:
        out = self.project(self.gate(self.depthwise(self.expand(features))))
        return features + out if self.residual else out


class MobileNetV3(nn.Module):
    """Backbone. `forward` gives the map before each block of `taps`, then the last one; `out_channels` in that order.

    size: "large" or "small". scale: multiplies every width. gates: False leaves all channel gates out.
    strides: of each block, where they differ from the paper's (a text line keeps its columns with (2, 1)).
    """

    def __init__(
        self,
        *,
        size: Size = "large",
        scale: float = 1.0,
        gates: bool = True,
        strides: Sequence[Stride] | None = None,
        taps: Sequence[int] = (),
    ) -> None:
        super().__init__()
        sizes, last_channels = _SIZES[size]
        strides = strides or [(block.stride, block.stride) for block in sizes]
        if len(strides) != len(sizes):
            raise ValueError(f"strides has {len(strides)} entries: MobileNetV3 {size} has {len(sizes)} blocks")
        self.taps = tuple(taps)
        widths = [divisible(16 * scale), *(divisible(block.channels * scale) for block in sizes)]
        self.stem = ConvNorm(3, widths[0], 3, (2, 2), activation=nn.Hardswish)
        self.blocks = nn.ModuleList(
            InvertedResidual(width, block, scale, stride, gate=gates and block.gate)
            for width, block, stride in zip(widths, sizes, strides, strict=False)
        )
        self.last = ConvNorm(widths[-1], divisible(last_channels * scale), 1, activation=nn.Hardswish)
        self.out_channels = (*(widths[index] for index in self.taps), divisible(last_channels * scale))

    def forward(self, images: Tensor) -> list[Tensor]:
        maps = []
        features = self.stem(images)
        for index, block in enumerate(self.blocks):
            if index in self.taps:
                maps.append(features)
            features = block(features)
        return [*maps, self.last(features)]


class MobileNetV3Classifier(nn.Module):
    """Backbone, pooling, a 1x1 expansion, and logits (N, classes).

    Dropout keeps values as they are while training and multiplies all by 1 - dropout in eval (Paddle's
    "downscale_in_infer"), which the published weights expect.
    """

    def __init__(self, backbone: MobileNetV3, *, classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        self.backbone = backbone
        self.expand = nn.Conv2d(backbone.out_channels[-1], _CLASSIFIER_CHANNELS, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.kept = 1.0 - dropout
        self.classifier = nn.Linear(_CLASSIFIER_CHANNELS, classes)

    def forward(self, images: Tensor) -> Tensor:
        pooled = self.backbone(images)[-1].mean(dim=(2, 3), keepdim=True)
        # torch's dropout divides what it keeps by `kept` while training, which cancels this factor there.
        expanded = self.kept * F.hardswish(self.expand(pooled)).flatten(1)
        return self.classifier(self.dropout(expanded))


def detection_backbone(*, size: Size = "large", scale: float = 0.5, gates: bool = False) -> MobileNetV3:
    """The backbone with four maps at strides 4, 8, 16, 32; `gates=False` is PP-OCR's `disable_se`."""
    return MobileNetV3(size=size, scale=scale, gates=gates, taps=_DETECTION_TAPS[size])


def mobilenetv3_large(*, scale: float = 1.0, classes: int = 1000) -> MobileNetV3Classifier:
    """PaddleClas MobileNetV3_large_x{scale}: 0.35, 0.5, 0.75, 1.0 and 1.25 have published weights."""
    return MobileNetV3Classifier(MobileNetV3(size="large", scale=scale), classes=classes)


def mobilenetv3_small(*, scale: float = 1.0, classes: int = 1000) -> MobileNetV3Classifier:
    """PaddleClas MobileNetV3_small_x{scale}: 0.35, 0.5, 0.75, 1.0 and 1.25 have published weights."""
    return MobileNetV3Classifier(MobileNetV3(size="small", scale=scale), classes=classes)


# Names inside a block, the same in PaddleClas and PaddleOCR.
BLOCK_NAMES: Renames = (
    (r"\.expand_conv\.", ".expand."),
    (r"\.bottleneck_conv\.", ".depthwise."),
    (r"\.mid_se\.", ".gate."),
    (r"\.linear_conv\.", ".project."),
)


def detection_names(backbone: MobileNetV3) -> Renames:
    """Names of a PaddleOCR detection checkpoint to names here; there a stage ("backbone.stage2.") ends at each tap."""
    starts = (0, *backbone.taps)
    ends = (*backbone.taps, len(backbone.blocks))
    renames = [
        (rf"^backbone\.stage{stage}\.{index - start}\.(?!conv\.|bn\.)", f"backbone.blocks.{index}.")
        for stage, (start, end) in enumerate(zip(starts, ends, strict=True))
        for index in range(start, end)
    ]
    return (
        (r"^backbone\.conv\.", "backbone.stem."),
        *renames,
        (rf"^backbone\.stage{len(backbone.taps)}\.\d+\.(conv|bn)\.", r"backbone.last.\1."),
        *BLOCK_NAMES,
        (r"^(backbone\..*)\.bn\.", r"\1.norm."),
    )


_CLASSIFIER_NAMES: Renames = (
    (r"^conv\.", "backbone.stem."),
    (r"^blocks\.", "backbone.blocks."),
    *BLOCK_NAMES,
    (r"^last_second_conv\.", "backbone.last."),
    (r"\.bn\.", ".norm."),
    (r"^last_conv\.", "expand."),
    (r"^fc\.", "classifier."),
)


def load_paddle(network: MobileNetV3Classifier, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from a PaddleClas checkpoint; ValueError lists every name left over."""
    assign_by_name(network, arrays, _CLASSIFIER_NAMES)
