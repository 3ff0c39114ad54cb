"""Necks of text detection: four maps at strides 4, 8, 16, 32 become one at stride 4.

Shapes: maps (N, C_i, H / stride, W / stride), shallow to deep, H and W multiples of 32; gives (N, out, H / 4, W / 4).
Source: PP-OCRv3 (https://arxiv.org/abs/2206.03001); PaddleOCR `ppocr/modeling/necks/db_fpn.py`, `intracl.py`.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.layers import ChannelGate

_GATE_SLOPE = 0.2
_LEVELS = 4

Mode = Literal["large", "lite"]


def _conv(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_uniform_(conv.weight, nonlinearity="relu")
    return conv


def _enlarged(features: Tensor, times: int) -> Tensor:
    return F.interpolate(features, scale_factor=times, mode="nearest")


def _top_down(lateral: nn.ModuleList, maps: Sequence[Tensor]) -> list[Tensor]:
    """Each map through its lateral layer plus the deeper result enlarged; `lateral` and the result deepest first."""
    if len(maps) != _LEVELS or maps[0].shape[2] != 8 * maps[3].shape[2] or maps[0].shape[3] != 8 * maps[3].shape[3]:
        raise ValueError(
            f"the neck got maps of {[tuple(m.shape[2:]) for m in maps]}: "
            "give pictures whose height and width are multiples of 32"
        )
    merged: list[Tensor] = []
    for layer, features in zip(lateral, reversed(maps), strict=True):
        own = layer(features)
        merged.append(own + _enlarged(merged[-1], 2) if merged else own)
    return merged


def _joined(deepest_first: Sequence[Tensor]) -> Tensor:
    """All levels at the size of the shallowest, deepest first along the channels."""
    sizes = [_enlarged(features, times) for features, times in zip(deepest_first[:-1], (8, 4, 2), strict=True)]
    return torch.cat((*sizes, deepest_first[-1]), dim=1)


class GatedConv(nn.Module):
    """Convolution, then channel gate, added to the convolution's result when `shortcut` (RSE layer)."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, *, shortcut: bool) -> None:
        super().__init__()
        self.conv = _conv(in_channels, out_channels, kernel)
        self.gate = ChannelGate(out_channels, slope=_GATE_SLOPE)
        self.shortcut = shortcut

    def forward(self, features: Tensor) -> Tensor:
        features = self.conv(features)
        gated = self.gate(features)
        return features + gated if self.shortcut else gated


class IntraRelation(nn.Module):
    """Square, tall and wide convolutions of 7, 5 and 3, summed, added to the input: joins a line's broken parts.

    Source: I3CL (https://arxiv.org/abs/2108.01343), intra-instance collaborative learning.
    """

    def __init__(self, channels: int, reduction: int = 2) -> None:
        super().__init__()
        inner = channels // reduction
        self.reduce = nn.Conv2d(channels, inner, 1)
        sizes = (7, 5, 3)
        self.square = nn.ModuleList(nn.Conv2d(inner, inner, k, padding=k // 2) for k in sizes)
        self.tall = nn.ModuleList(nn.Conv2d(inner, inner, (k, 1), padding=(k // 2, 0)) for k in sizes)
        self.wide = nn.ModuleList(nn.Conv2d(inner, inner, (1, k), padding=(0, k // 2)) for k in sizes)
        self.restore = nn.Conv2d(inner, channels, 1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, features: Tensor) -> Tensor:
        inner = self.reduce(features)
        for square, tall, wide in zip(self.square, self.tall, self.wide, strict=True):
            inner = square(inner) + tall(inner) + wide(inner)
        return features + F.relu(self.norm(self.restore(inner)))


def _relations(channels: int, wanted: bool) -> nn.ModuleList | None:
    """One block per level, shallow to deep."""
    return nn.ModuleList(IntraRelation(channels) for _ in range(_LEVELS)) if wanted else None


def _related(relations: nn.ModuleList | None, deepest_first: list[Tensor]) -> list[Tensor]:
    if relations is None:
        return deepest_first
    return [block(features) for block, features in zip(reversed(relations), deepest_first, strict=True)]


class RSEFPN(nn.Module):
    """Feature pyramid of gated convolutions: PP-OCRv3 student, v4 and v5 mobile. `out_channels` out."""

    def __init__(
        self, in_channels: Sequence[int], *, out_channels: int = 96, shortcut: bool = True, intracl: bool = False
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        part = out_channels // _LEVELS
        # Both deepest first: the order in which they run, and in which an inference graph lists their weights.
        self.lateral = nn.ModuleList(
            GatedConv(channels, out_channels, 1, shortcut=shortcut) for channels in reversed(in_channels)
        )
        self.output = nn.ModuleList(GatedConv(out_channels, part, 3, shortcut=shortcut) for _ in range(_LEVELS))
        self.relations = _relations(part, intracl)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        merged = _top_down(self.lateral, maps)
        parts = [layer(features) for layer, features in zip(self.output, merged, strict=True)]
        return _joined(_related(self.relations, parts))


class SeparableConv(nn.Module):
    """Depthwise k x k, 1x1 to four times the channels, ReLU, 1x1; plus a 1x1 of the input if the channels change.

    The "lite" layer of LK-PAN (DSConv). As in the reference the depthwise batch norm has no activation after it.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int) -> None:
        super().__init__()
        wide = 4 * in_channels
        self.conv1 = nn.Conv2d(in_channels, in_channels, kernel, padding=kernel // 2, groups=in_channels, bias=False)
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.conv2 = nn.Conv2d(in_channels, wide, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(wide)
        self.conv3 = nn.Conv2d(wide, out_channels, 1, bias=False)
        self.conv_end = nn.Conv2d(in_channels, out_channels, 1, bias=False) if in_channels != out_channels else None

    def forward(self, features: Tensor) -> Tensor:
        hidden = self.norm1(self.conv1(features))
        out = self.conv3(F.relu(self.norm2(self.conv2(hidden))))
        return out if self.conv_end is None else out + self.conv_end(features)


class LKPAN(nn.Module):
    """Path aggregation with 9 x 9 convolutions: the PP-OCRv3 teacher and the server models. `out_channels` out.

    mode: "large" has full convolutions, "lite" separable ones.
    """

    def __init__(
        self, in_channels: Sequence[int], *, out_channels: int = 256, mode: Mode = "large", intracl: bool = False
    ) -> None:
        super().__init__()
        large = SeparableConv if mode == "lite" else _conv
        self.out_channels = out_channels
        part = out_channels // _LEVELS
        self.lateral = nn.ModuleList(_conv(channels, out_channels, 1) for channels in reversed(in_channels))
        self.output = nn.ModuleList(large(out_channels, part, 9) for _ in range(_LEVELS))
        # Bottom-up: shallow to deep.
        self.down = nn.ModuleList(_conv(part, part, 3, stride=2) for _ in range(_LEVELS - 1))
        self.refine = nn.ModuleList(large(part, part, 9) for _ in range(_LEVELS))
        self.relations = _relations(part, intracl)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        merged = _top_down(self.lateral, maps)
        parts = [layer(features) for layer, features in zip(self.output, merged, strict=True)]
        rising = [parts[-1]]
        for layer, features in zip(self.down, reversed(parts[:-1]), strict=True):
            rising.append(features + layer(rising[-1]))
        refined = [layer(features) for layer, features in zip(self.refine, rising, strict=True)]
        return _joined(_related(self.relations, refined[::-1]))


# Names in a PaddleOCR checkpoint to names here; Paddle lists every level shallow to deep.
NECK_NAMES: tuple[tuple[str, str], ...] = (
    *((rf"^neck\.ins_conv\.{level}\.", f"neck.lateral.{_LEVELS - 1 - level}.") for level in range(_LEVELS)),
    *((rf"^neck\.inp_conv\.{level}\.", f"neck.output.{_LEVELS - 1 - level}.") for level in range(_LEVELS)),
    (r"^(neck\..*)\.in_conv\.", r"\1.conv."),
    (r"^(neck\..*)\.se_block\.", r"\1.gate."),
    (r"^neck\.pan_head_conv\.", "neck.down."),
    (r"^neck\.pan_lat_conv\.", "neck.refine."),
    (r"^(neck\..*)\.bn([12])\.", r"\1.norm\2."),
    *((rf"^neck\.incl{level + 1}\.", f"neck.relations.{level}.") for level in range(_LEVELS)),
    (r"^(neck\..*)\.bn\.", r"\1.norm."),
    (r"^(neck\..*)\.conv1x1_reduce_channel\.", r"\1.reduce."),
    (r"^(neck\..*)\.conv1x1_return_channel\.", r"\1.restore."),
    *(
        (rf"^(neck\..*)\.{letter}_layer_{shape.format(kernel)}\.", rf"\1.{name}.{index}.")
        for letter, shape, name in (("c", "{0}x{0}", "square"), ("v", "{0}x1", "tall"), ("q", "1x{0}", "wide"))
        for index, kernel in enumerate((7, 5, 3))
    ),
)
