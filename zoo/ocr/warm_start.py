"""A network for training that begins as a published or an earlier one: the same function, whatever is new reported.

The published graphs of v4 and v5 hold each branched layer of the backbone folded into one convolution, and no graph
holds what only training needs (threshold branch, attention branch). `take_over` puts the folded kernel into the first
branch and silences the others, so that in eval mode the network is the published one; `measure` then sets the new
branches' batch norms to the statistics of real pictures, so that in train mode it is nearly so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from zoo.layers import ConvNorm
from zoo.ocr.charset import CharsetChange, compare
from zoo.ocr.pplcnetv3 import BranchedLayer, PlainLayer

# Tensors with one row a character, and how many rows of special classes come before the characters: the blank of CTC;
# none in SAR; padding, unknown, start and end in NRTR. Rows after the characters are special again.
CHARACTER_ROWS: Mapping[str, int] = {
    "classifier.weight": 1,
    "classifier.bias": 1,
    "guide.decoder.embedding.weight": 0,
    "guide.decoder.prediction.weight": 0,
    "guide.decoder.prediction.bias": 0,
    "guide.embedding.weight": 4,
    "guide.prediction.weight": 4,
}
_SHOWN = 6


@dataclass(frozen=True)
class Start:
    """What a network began with. fresh: modules of it that the source does not have, and that are newly initialised.

    dropped: modules that only the source has. charset: what became of the characters, None where they are the same.
    """

    source: str
    fresh: tuple[str, ...]
    dropped: tuple[str, ...]
    charset: CharsetChange | None

    def __str__(self) -> str:
        lines = [f"begins with {self.source}"]
        if self.fresh:
            lines.append(f"new, not in it: {_few(self.fresh)}")
        if self.dropped:
            lines.append(f"in it, not used: {_few(self.dropped)}")
        if self.charset is not None:
            lines.append(str(self.charset))
        return "; ".join(lines)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@torch.no_grad()
def take_over(
    network: nn.Module,
    state: Mapping[str, Tensor],
    source: str,
    *,
    charsets: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Start:
    """Fills `network` in place from a state dict of the same architecture, in its training or its folded form.

    charsets: (of the source, of the network); rows of the characters in both are kept. Tensors that the source lacks
    stay as they are. Raises ValueError naming the first tensor whose shape does not fit.
    """
    own = network.state_dict()
    change = compare(*charsets) if charsets and tuple(charsets[0]) != tuple(charsets[1]) else None
    unfolded = _unfold_all(network, state)
    values: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name not in own or name.startswith(unfolded):
            continue
        if change is not None and name in CHARACTER_ROWS:
            assert charsets is not None
            tensor = _moved(name, own[name], tensor, change, len(charsets[0]))
        if tensor.shape != own[name].shape:
            raise ValueError(
                f"{source}: {name} has shape {tuple(tensor.shape)}, this network {tuple(own[name].shape)}: "
                "it is of another model or another charset"
            )
        values[name] = tensor
    network.load_state_dict(values, strict=False)
    fresh = [name for name in own if name not in values and not name.startswith(unfolded)]
    dropped = [name for name in state if name not in own and not name.startswith(unfolded)]
    return Start(source, _modules(fresh), _modules(dropped), change)


def _modules(names: Iterable[str]) -> tuple[str, ...]:
    """The first two parts of each name, each once: head.threshold, guide."""
    return tuple(dict.fromkeys(".".join(name.split(".")[: 2 if name.startswith("head.") else 1]) for name in names))


def _moved(name: str, own: Tensor, old: Tensor, change: CharsetChange, characters: int) -> Tensor:
    """`own`, newly initialised, with the rows of `old` for the characters that stay and for the special classes."""
    first = CHARACTER_ROWS[name]
    rows = torch.from_numpy(change.rows)
    after = own.shape[0] - first - len(rows)
    if old.shape[0] != first + characters + after:
        raise ValueError(f"{name} has {old.shape[0]} rows, its charset makes {first + characters + after}")
    result = own.clone()
    result[:first] = old[:first]
    kept = torch.nonzero(rows >= 0)[:, 0]
    result[first + kept] = old[first + rows[kept]]
    if after:
        result[-after:] = old[-after:]
    return result


def _unfold_all(network: nn.Module, state: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Fills the branched layers that are folded in `state`; gives their names, each with its dot."""
    filled = []
    for name, module in network.named_modules():
        if isinstance(module, BranchedLayer) and f"{name}.conv.weight" in state:
            part = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            unfold(module, part)
            filled.append(f"{name}.")
    return tuple(filled)


@torch.no_grad()
def unfold(layer: BranchedLayer, plain: Mapping[str, Tensor]) -> None:
    """Makes `layer` the function (of eval mode) of a `PlainLayer` with the state `plain`.

    The kernel becomes that of the first branch, whose batch norm only adds the bias; the scales of all other branches
    are 0, so that they learn from nothing but keep their own initial kernels.
    """
    first = cast(ConvNorm, layer.branches[0])
    first.conv.weight.copy_(plain["conv.weight"])
    for norm in _norms(layer):
        nn.init.zeros_(norm.weight)
        nn.init.zeros_(norm.bias)
        norm.reset_running_stats()
    first.norm.weight.fill_((1.0 + first.norm.eps) ** 0.5)
    first.norm.bias.copy_(plain["conv.bias"])
    rest = {key: value for key, value in plain.items() if not key.startswith("conv.")}
    _, unexpected = layer.load_state_dict(rest, strict=False)
    assert not unexpected, unexpected


def _norms(layer: BranchedLayer) -> list[nn.BatchNorm2d]:
    branches = [branch for branch in (*layer.branches, layer.pointwise) if branch is not None]
    norms = [cast(ConvNorm, branch).norm for branch in branches]
    return norms if layer.identity is None else [layer.identity, *norms]


class _Measured(nn.Module):
    """A batch norm in eval mode that adds up mean and square of what it is given."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.norm = norm
        self.count = 0
        self.total = torch.zeros_like(norm.weight, dtype=torch.float64)
        self.square = torch.zeros_like(self.total)

    def forward(self, features: Tensor) -> Tensor:
        variance, mean = torch.var_mean(features, dim=(0, 2, 3), correction=0)
        count = features.numel() // features.shape[1]
        self.count += count
        self.total += count * mean.double()
        self.square += count * (variance.double() + mean.double().square())
        return self.norm(features)

    def settle(self) -> nn.BatchNorm2d:
        """The batch norm with the measured statistics and a scale and offset that keep its function."""
        norm = self.norm
        assert norm.running_mean is not None and norm.running_var is not None
        mean = self.total / self.count
        variance = (self.square / self.count - mean.square()).clamp(min=0.0)
        scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        offset = norm.bias.double() - norm.running_mean.double() * scale
        norm.weight.copy_(scale * torch.sqrt(variance + norm.eps))
        norm.bias.copy_(offset + mean * scale)
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        return norm


@torch.no_grad()
def measure(network: nn.Module, batches: Iterable[Tensor]) -> int:
    """Sets the statistics of all branched layers' batch norms from pictures; the function in eval mode stays.

    batches: normalised pictures, as in training. Gives how many layers there were; without any, takes no batch.
    """
    owners: list[tuple[nn.Module, str]] = []
    for layer in network.modules():
        if isinstance(layer, BranchedLayer):
            owners += [(b, "norm") for b in (*layer.branches, layer.pointwise) if b is not None]
            owners += [(layer, "identity")] if layer.identity is not None else []
    if not owners:
        return 0
    was_training = network.training
    network.eval()
    for owner, name in owners:
        setattr(owner, name, _Measured(getattr(owner, name)))
    for images in batches:
        network(images)
    for owner, name in owners:
        measured = getattr(owner, name)
        setattr(owner, name, measured.settle() if measured.count else measured.norm)
    network.train(was_training)
    return len(owners)


def is_folded(network: nn.Module) -> bool:
    """Whether the network is in its form for inference."""
    return any(isinstance(module, PlainLayer) for module in network.modules())
