"""MobileNetV1Enhance: the backbone of PP-OCRv3 recognition (SVTR-LCNet), text line to one row of features.

Shapes: pictures (N, 3, 48, W) in, features (N, 1024 * scale, 1, W / 8) out (48 rows become 1, columns shrink 8 times).
Source: PP-OCRv3 (https://arxiv.org/abs/2206.03001); sizes from PaddleOCR `ppocr/modeling/backbones/rec_mv1_enhance.py`.
"""

from torch import Tensor, nn

from zoo.layers import ChannelGate, ConvNorm, Stride

# (input, output, kernel, stride, squeeze-and-excite) at scale 1; the last stride is a setting of the network.
_BLOCKS: tuple[tuple[int, int, int, Stride, bool], ...] = (
    (32, 64, 3, (1, 1), False),
    (64, 128, 3, (1, 1), False),
    (128, 128, 3, (1, 1), False),
    (128, 256, 3, (2, 1), False),
    (256, 256, 3, (1, 1), False),
    (256, 512, 3, (2, 1), False),
    *((512, 512, 5, (1, 1), False),) * 5,
    (512, 1024, 5, (2, 1), True),
)
_LAST = 1024


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


class MobileNetV1Enhance(nn.Module):
    """Backbone of PP-OCRv3 recognition; `out_channels` is what it gives.

    `last_stride` is the stride of the last block, `pool` the window of the closing average pool: the published PP-OCRv3
    weights have (2, 2), which leaves out the last of three rows; PaddleOCR 2.7 without a setting has (3, 2).
    """

    def __init__(
        self,
        *,
        scale: float = 0.5,
        in_channels: int = 3,
        last_stride: Stride = (1, 2),
        pool: tuple[int, int] = (2, 2),
    ) -> None:
        super().__init__()
        self.out_channels = int(_LAST * scale)
        self.stem = ConvNorm(in_channels, int(32 * scale), 3, (2, 2), activation=nn.Hardswish)
        self.blocks = nn.ModuleList(
            SeparableBlock(int(inputs * scale), int(outputs * scale), kernel, stride, gate=gate)
            for inputs, outputs, kernel, stride, gate in (*_BLOCKS, (_LAST, _LAST, 5, last_stride, True))
        )
        self.pool = nn.AvgPool2d(pool)

    def forward(self, images: Tensor) -> Tensor:
        features = self.stem(images)
        for block in self.blocks:
            features = block(features)
        return self.pool(features)
