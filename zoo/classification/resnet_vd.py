"""ResNet-vd: ResNet with a three-layer stem and average pooling in the shortcuts; backbone of the PP-OCRv3 teacher.

Shapes: pictures (N, 3, H, W) in; the backbone gives maps at strides 4, 8, 16, 32, the classifier logits (N, classes).
Source: Bag of Tricks (https://arxiv.org/abs/1812.01187), ResNet-D; PaddleClas
`ppcls/arch/backbone/legendary_models/resnet.py`, PaddleOCR `ppocr/modeling/backbones/det_resnet_vd.py`.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.assign import Renames, assign_by_name
from zoo.layers import ConvNorm, Stride

Layers = Literal[18, 34, 50, 101, 152, 200]
_DEPTHS: dict[Layers, tuple[int, int, int, int]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 12, 48, 3),
}
_WIDTHS = (64, 128, 256, 512)
_BOTTLENECK_FROM = 50  # layers; thinner networks have blocks of two 3x3 convolutions
_EXPANSION = 4


class Shortcut(nn.Module):
    """1x1 convolution that brings the input to the block's shape; a stride of 2 is an average pooling before it."""

    def __init__(self, in_channels: int, out_channels: int, stride: Stride) -> None:
        super().__init__()
        pooled = stride != (1, 1)
        self.pool = nn.AvgPool2d(2, 2, ceil_mode=True) if pooled else nn.Identity()
        self.conv = ConvNorm(in_channels, out_channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.conv(self.pool(features))


class Residual(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3, 1x1 with four times the channels, added to the input; ReLU."""

    def __init__(self, in_channels: int, width: int, stride: Stride, *, bottleneck: bool, project: bool) -> None:
        super().__init__()
        out_channels = width * _EXPANSION if bottleneck else width
        if bottleneck:
            convs = [
                ConvNorm(in_channels, width, 1, activation=nn.ReLU),
                ConvNorm(width, width, 3, stride, activation=nn.ReLU),
                ConvNorm(width, out_channels, 1),
            ]
        else:
            convs = [ConvNorm(in_channels, width, 3, stride, activation=nn.ReLU), ConvNorm(width, width, 3)]
        self.convs = nn.Sequential(*convs)
        self.short = Shortcut(in_channels, out_channels, stride) if project else nn.Identity()

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.short(features) + self.convs(features))


class ResNetVd(nn.Module):
    """Backbone of `layers` layers; `forward` gives the four maps, of `out_channels` channels."""

    def __init__(self, *, layers: Layers = 50) -> None:
        super().__init__()
        bottleneck = layers >= _BOTTLENECK_FROM
        self.out_channels = tuple(width * (_EXPANSION if bottleneck else 1) for width in _WIDTHS)
        self.stem = nn.Sequential(
            ConvNorm(3, 32, 3, (2, 2), activation=nn.ReLU),
            ConvNorm(32, 32, 3, activation=nn.ReLU),
            ConvNorm(32, 64, 3, activation=nn.ReLU),
            nn.MaxPool2d(3, 2, 1),
        )
        inputs = (64, *self.out_channels)
        self.stages = nn.ModuleList(
            nn.Sequential(
                *(
                    Residual(
                        inputs[stage] if index == 0 else inputs[stage + 1],
                        width,
                        (2, 2) if index == 0 and stage > 0 else (1, 1),
                        bottleneck=bottleneck,
                        project=index == 0,
                    )
                    for index in range(depth)
                )
            )
            for stage, (depth, width) in enumerate(zip(_DEPTHS[layers], _WIDTHS, strict=True))
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        maps = []
        features = self.stem(images)
        for stage in self.stages:
            features = stage(features)
            maps.append(features)
        return maps


class ResNetVdClassifier(nn.Module):
    """Backbone, average pooling, logits (N, classes)."""

    def __init__(self, backbone: ResNetVd, *, classes: int = 1000) -> None:
        super().__init__()
        self.backbone = backbone
        width = backbone.out_channels[-1]
        self.classifier = nn.Linear(width, classes)
        nn.init.uniform_(self.classifier.weight, -(width**-0.5), width**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.backbone(images)[-1].mean(dim=(2, 3)))


def resnet_vd(*, layers: Layers = 50, classes: int = 1000) -> ResNetVdClassifier:
    """PaddleClas ResNet{layers}_vd."""
    return ResNetVdClassifier(ResNetVd(layers=layers), classes=classes)


_BLOCK_NAMES: Renames = (
    (r"(\.stages\.\d+\.\d+)\.conv(\d)\.", r"\1.convs.\2."),
    (r"(\.stages\.\d+\.\d+)\.short\.", r"\1.short.conv."),
)
# Names of a PaddleOCR checkpoint, under "backbone.", to names here.
DETECTION_NAMES: Renames = (
    *((rf"^backbone\.conv1_{index + 1}\.", f"backbone.stem.{index}.") for index in range(3)),
    (r"^backbone\.bb_(\d+)_(\d+)\.", r"backbone.stages.\1.\2."),
    *_BLOCK_NAMES,
    (r"^(backbone\..*)\._conv\.", r"\1.conv."),
    (r"^(backbone\..*)\._batch_norm\.", r"\1.norm."),
)


def load_paddle(network: ResNetVdClassifier, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from a PaddleClas checkpoint; ValueError lists every name left over."""
    places = [
        f"backbone.stages.{number}.{index}."
        for number, stage in enumerate(network.backbone.stages)
        for index in range(len(stage))  # type: ignore[arg-type]
    ]
    names: Renames = (
        *((rf"^blocks\.{flat}\.", place) for flat, place in enumerate(places)),
        (r"^stem\.", "backbone.stem."),
        *_BLOCK_NAMES,
        (r"\.bn\.", ".norm."),
        (r"^fc\.", "classifier."),
    )
    assign_by_name(network, arrays, names)
