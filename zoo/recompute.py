"""Activations that are computed again in the backward pass rather than kept. No domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from zoo.optim import nearest


def recompute(model: nn.Module, names: Sequence[str]) -> None:
    """Makes the named modules keep their inputs alone; weights, their names and results stay what they are.

    Raises ValueError for a name that the model lacks.
    """
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules or not name:
            raise ValueError(f"recompute: the model has no module {name!r}; {nearest(name, list(modules)[1:])}")
        module = modules[name]
        module.forward = partial(_forward, module, module.forward)  # type: ignore[method-assign]


def _forward(module: nn.Module, forward: Any, *inputs: Any, **named: Any) -> Any:
    if not (module.training and torch.is_grad_enabled()):
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=partial(_contexts, module), **named)


def _contexts(module: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), _statistics_kept(module)


@contextmanager
def _statistics_kept(module: nn.Module) -> Iterator[None]:
    """The second forward pass sees the same batch: batch norms must not count it twice."""
    norms = [one for one in module.modules() if isinstance(one, _BatchNorm) and one.num_batches_tracked is not None]
    before = [(norm, norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]  # type: ignore[union-attr]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum, count in before:
            norm.momentum = momentum
            norm.num_batches_tracked.copy_(count)  # type: ignore[union-attr]
