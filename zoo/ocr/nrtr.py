"""NRTR attention branch of PP-OCRv4 / v5 recognition (training only): a Transformer decoder spells the line.

Shapes: N lines, T columns of features, L tokens, D width, K classes (0 padding, 1 unknown, 2 start, 3 end).
Source: NRTR (https://arxiv.org/abs/1806.00926); sizes from PaddleOCR `ppocr/modeling/heads/rec_nrtr_head.py`.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.ocr.guide import GuideTargets

_HEAD_WIDTH = 32
_LONGEST = 5000


def _sinusoids(length: int, width: int) -> Tensor:
    """Sine on even, cosine on odd channels, (length, 1, width), as in "Attention Is All You Need"."""
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table[:, None]


def _attend(query: Tensor, key: Tensor, value: Tensor, heads: int, *, causal: bool) -> Tensor:
    """Scaled dot-product attention of (N, Lq, D) over (N, Lk, D) in `heads` parts."""
    query, key, value = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Each token sees itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(tokens).chunk(3, dim=2)
        return self.out(_attend(query, key, value, self.heads, causal=True))


class CrossAttention(nn.Module):
    """Each token sees every column of the line."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        key, value = self.kv(memory).chunk(2, dim=2)
        return self.out(_attend(self.q(tokens), key, value, self.heads, causal=False))


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention and a two-layer perceptron, each added to its input and then normalised."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = SelfAttention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.cross_attention = CrossAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.norm3 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        tokens = self.norm1(tokens + self.dropout(self.self_attention(tokens)))
        tokens = self.norm2(tokens + self.dropout(self.cross_attention(tokens, memory)))
        hidden = self.dropout(self.fc2(self.dropout(F.relu(self.fc1(tokens)))))
        return self.norm3(tokens + self.dropout(hidden))


class NrtrGuide(nn.Module):
    """Attention branch: features (N, C, H, T) and labels (N, Lmax) to scores (N, L, classes + 1).

    L = 1 + the longest of `targets.lengths`; the score at step i is for label i + 1. `classes` counts the four special
    tokens and the characters; as in the reference the scores have one class more, which no label uses.
    """

    positions: Tensor

    def __init__(
        self,
        in_channels: int,
        *,
        classes: int,
        width: int = 384,
        depth: int = 4,
        heads: int | None = None,
        mlp_ratio: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        heads = width // _HEAD_WIDTH if heads is None else heads
        if heads < 1 or width % heads:
            raise ValueError(
                f"NRTR width {width} does not divide into {heads} heads: choose a multiple of {_HEAD_WIDTH}"
            )
        self.width = width
        self.project = nn.Linear(in_channels, width, bias=False)
        self.embedding = nn.Embedding(classes + 1, width, padding_idx=0)
        # Kept in the state dict because Paddle's weight files hold it.
        self.register_buffer("positions", _sinusoids(_LONGEST, width))
        self.blocks = nn.ModuleList(DecoderBlock(width, heads, mlp_ratio * width, dropout) for _ in range(depth))
        self.prediction = nn.Linear(width, classes + 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0

    def forward(self, features: Tensor, targets: GuideTargets) -> Tensor:
        memory = self.project(features.flatten(2).transpose(1, 2))
        # Token i predicts token i + 1, so the last of start + characters + end is not fed.
        labels = targets.labels[:, : 1 + int(targets.lengths.max())]
        tokens = self.embedding(labels) * math.sqrt(self.width)
        tokens = self.dropout(tokens + self.positions[: tokens.shape[1], 0])
        for block in self.blocks:
            tokens = block(tokens, memory)
        return self.prediction(tokens)
