"""SAR attention branch of PP-OCRv3 recognition (training only): an LSTM reads the line, 2-D attention spells it.

Shapes: N lines, C channels, H x T feature map, L characters, K classes (the last two are start and padding).
Source: Show, Attend and Read (https://arxiv.org/abs/1811.00751); sizes from PaddleOCR
`ppocr/modeling/heads/rec_sar_head.py`.
"""

import torch
from torch import Tensor, nn

from zoo.ocr.guide import GuideTargets


def _valid_columns(valid_ratios: Tensor, columns: int) -> Tensor:
    """Columns that hold text, (N,) int64 in 1..columns."""
    return torch.ceil(valid_ratios * columns).long().clamp(1, columns)


class SarEncoder(nn.Module):
    """Features (N, C, H, T) to one vector a line, (N, width): an LSTM's state at the last column that holds text."""

    def __init__(self, in_channels: int, width: int, dropout: float) -> None:
        super().__init__()
        # Two layers with a dropout of their own, so that switching every nn.Dropout off makes the branch deterministic.
        self.first = nn.LSTM(in_channels, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.LSTM(width, width, batch_first=True)
        self.linear = nn.Linear(width, width)

    def forward(self, features: Tensor, valid_ratios: Tensor) -> Tensor:
        columns = features.amax(dim=2).transpose(1, 2)  # (N, T, C)
        states = self.second(self.dropout(self.first(columns)[0]))[0]
        last = _valid_columns(valid_ratios, states.shape[1]) - 1
        return self.linear(states[torch.arange(states.shape[0], device=states.device), last])


class SarDecoder(nn.Module):
    """Two-layer LSTM over the line's vector and the characters so far; attends to the feature map at each step."""

    def __init__(self, in_channels: int, classes: int, width: int, attention_width: int, dropout: float) -> None:
        super().__init__()
        self.query = nn.Linear(width, attention_width)
        self.key = nn.Conv2d(in_channels, attention_width, 3, padding=1)
        self.energy = nn.Linear(attention_width, 1)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        # The padding token's vector is zero and stays zero, as in Paddle.
        self.embedding = nn.Embedding(classes, width, padding_idx=classes - 1)
        self.prediction = nn.Linear(2 * width + in_channels, classes - 1)
        self.dropout = nn.Dropout(dropout)

    def _attend(self, states: Tensor, features: Tensor, valid_ratios: Tensor) -> Tensor:
        """One glimpse (N, L, C) of the feature map for each state (N, L, width); padded columns are not seen."""
        query = self.query(states)[:, :, :, None, None]
        key = self.key(features)[:, None]
        energy = self.energy(torch.tanh(query + key).movedim(2, -1)).squeeze(-1)  # (N, L, H, T)
        columns = torch.arange(features.shape[3], device=features.device)
        hidden = columns >= _valid_columns(valid_ratios, features.shape[3])[:, None]
        energy = energy.masked_fill(hidden[:, None, None, :], float("-inf"))
        weights = energy.flatten(2).softmax(dim=-1)
        return weights @ features.flatten(2).transpose(1, 2)

    def forward(self, features: Tensor, line: Tensor, labels: Tensor, valid_ratios: Tensor) -> Tensor:
        inputs = torch.cat((line[:, None], self.embedding(labels)), dim=1)
        states = self.lstm(inputs)[0]
        glimpses = self._attend(states, features, valid_ratios)
        lines = line[:, None].expand(-1, states.shape[1], -1)
        scores = self.prediction(torch.cat((states, glimpses, lines), dim=2))
        # The reference drops out the scores themselves, after the last layer.
        return self.dropout(scores)[:, 1:]


class SarGuide(nn.Module):
    """Attention branch: features (N, C, H, T) and labels (N, L) to scores (N, L, classes - 1).

    `classes` counts characters, unknown, start and padding; the padding token is never predicted.
    """

    def __init__(
        self,
        in_channels: int,
        *,
        classes: int,
        width: int = 512,
        attention_width: int = 512,
        encoder_dropout: float = 0.1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.encoder = SarEncoder(in_channels, width, encoder_dropout)
        self.decoder = SarDecoder(in_channels, classes, width, attention_width, dropout)

    def forward(self, features: Tensor, targets: GuideTargets) -> Tensor:
        line = self.encoder(features, targets.valid_ratios)
        return self.decoder(features, line, targets.labels, targets.valid_ratios)
