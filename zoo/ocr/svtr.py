"""SVTR neck of PP-OCRv3 / v4 / v5 recognition: global self-attention over the columns of a text line.

Shapes: N pictures, C channels of the backbone, H = 1 row, T columns, D hidden width.
Source: SVTR (https://arxiv.org/abs/2205.00159); sizes from PaddleOCR `ppocr/modeling/necks/rnn.py` (EncoderWithSVTR).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConvNormSwish(nn.Module):
    """Convolution without bias, batch norm, x * sigmoid(x); same padding."""

    def __init__(self, in_channels: int, out_channels: int, kernel: tuple[int, int]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=padding, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        nn.init.kaiming_uniform_(self.conv.weight, nonlinearity="relu")

    def forward(self, features: Tensor) -> Tensor:
        return F.silu(self.norm(self.conv(features)))


class GlobalAttention(nn.Module):
    """Multi-head self-attention whose projection gives queries, keys and values in that order; (N, T, D) -> same."""

    def __init__(self, width: int, heads: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"hidden width {width} is not a multiple of {heads} heads: choose a multiple")
        self.heads = heads
        self.attention_dropout = nn.Dropout(attention_dropout)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, columns, width = tokens.shape
        parts = self.qkv(tokens).reshape(batch, columns, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        dropout = self.attention_dropout
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout.p if dropout.training else 0.0)
        return self.dropout(self.proj(mixed.transpose(1, 2).reshape(batch, columns, width)))


class SvtrBlock(nn.Module):
    """Attention and a two-layer perceptron (swish), each behind a layer norm and added to its input."""

    def __init__(self, width: int, heads: int, mlp_ratio: float, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        inner = int(width * mlp_ratio)
        self.norm1 = nn.LayerNorm(width, eps=1e-5)
        self.mixer = GlobalAttention(width, heads, dropout, attention_dropout)
        self.norm2 = nn.LayerNorm(width, eps=1e-5)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.mixer(self.norm1(tokens))
        hidden = self.dropout(F.silu(self.fc1(self.norm2(tokens))))
        return tokens + self.dropout(self.fc2(hidden))


class SvtrNeck(nn.Module):
    """Columns of features (N, C, 1, T) to a sequence (N, T, dims).

    `detach_input` is GTC (https://arxiv.org/abs/2002.01276): the CTC branch learns from a stop-gradient copy of the
    features, so that the attention branch alone trains the backbone.
    """

    def __init__(
        self,
        in_channels: int,
        *,
        dims: int = 64,
        hidden: int = 120,
        depth: int = 2,
        heads: int = 8,
        mlp_ratio: float = 2.0,
        kernel: tuple[int, int] = (3, 3),
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        detach_input: bool = True,
    ) -> None:
        super().__init__()
        self.detach_input = detach_input
        reduced = in_channels // 8
        self.conv1 = ConvNormSwish(in_channels, reduced, kernel)
        self.conv2 = ConvNormSwish(reduced, hidden, (1, 1))
        self.blocks = nn.ModuleList(
            SvtrBlock(hidden, heads, mlp_ratio, dropout, attention_dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(hidden, eps=1e-6)
        self.conv3 = ConvNormSwish(hidden, in_channels, (1, 1))
        self.conv4 = ConvNormSwish(2 * in_channels, reduced, kernel)
        self.conv5 = ConvNormSwish(reduced, dims, (1, 1))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, features: Tensor) -> Tensor:
        if features.shape[2] != 1:
            raise ValueError(
                f"the SVTR neck reads one row of features, got {tuple(features.shape)}: the picture must be 48 high"
            )
        shortcut = features.detach() if self.detach_input else features
        reduced = self.conv2(self.conv1(shortcut))
        tokens = reduced.squeeze(2).transpose(1, 2)  # (N, T, hidden)
        for block in self.blocks:
            tokens = block(tokens)
        mixed = self.conv3(self.norm(tokens).transpose(1, 2).unsqueeze(2))
        joined = self.conv4(torch.cat((shortcut, mixed), dim=1))
        return self.conv5(joined).squeeze(2).transpose(1, 2)
