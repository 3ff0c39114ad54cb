"""Batch norm over the batches of several processes, on any device: torch's own SyncBatchNorm needs CUDA. No domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

GroupOf = Callable[[], dist.ProcessGroup | None]
"""Gives the processes whose batches count together. A function, because a process group cannot be copied or saved."""


class _Sum(torch.autograd.Function):
    """The sum over processes; each process's gradient is the sum of all processes' gradients."""

    @staticmethod
    def forward(context: Any, values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        context.group = group
        total = values.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total, group=context.group)
        return total, None


class SyncedBatchNorm(_BatchNorm):
    """Batch norm of (N, C, ...) features that gives what one process with the whole batch gives.

    Statistics are taken in float32; the output has the input's dtype. In eval mode it is plain batch norm.
    """

    def __init__(self, norm: _BatchNorm, group_of: GroupOf) -> None:
        """Takes over the parameters and buffers of `norm`, not copies of them."""
        super().__init__(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self.training = norm.training
        self.group_of = group_of

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions will do."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        features = input.float()
        axes = [axis for axis in range(input.ndim) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(input.ndim)]
        group = self.group_of()
        count = features.new_tensor([input.numel() / self.num_features])
        sums = _Sum.apply(torch.cat([features.sum(axes), count]), group)
        total = sums[-1].detach()
        mean = sums[:-1] / total
        centred = features - mean.view(shape)
        # Squares of centred values: the mean of squares less the squared mean would lose half the digits.
        variance = _Sum.apply(centred.square().sum(axes), group) / total
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach() * total / (total - 1).clamp(min=1))
        scaled = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            scaled = scaled * self.weight.view(shape) + self.bias.view(shape)
        return scaled.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.mul_(1 - part).add_(mean, alpha=part)
        self.running_var.mul_(1 - part).add_(variance, alpha=part)


def sync_norms(model: nn.Module, group_of: GroupOf) -> int:
    """Puts a SyncedBatchNorm in the place of every batch norm inside `model`, and says how many there were."""
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, _BatchNorm) and not isinstance(child, SyncedBatchNorm):
                setattr(module, name, SyncedBatchNorm(child, group_of))
                count += 1
    return count
