"""Puts the arrays of a published weight file into a network: by Paddle parameter name, or by the graph's order.

Both ways insist that every array and every slot of the network is used, and say all that is left over in one error.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

# Paddle's names of batch-norm statistics, in every file.
_STATISTICS = ((r"(^|\.)_mean$", r"\1running_mean"), (r"(^|\.)_variance$", r"\1running_var"))
# What an inference graph calls a parameter: conv2d_3.w_0, linear_1.b_0_deepcopy_7, conv2_se_1_weights.
_PARAMETER = re.compile(r"(\.[wb]_\d+(_deepcopy_\d+)?|_(weights|offset|scale|mean|variance|bias))$")
_SHOWN = 8

Renames = Sequence[tuple[str, str]]
"""(pattern, replacement) pairs of `re.sub`, applied in turn to a Paddle name."""


class _Slot:
    """One tensor of a network: its name, the tensor, and how a Paddle array becomes it."""

    def __init__(self, name: str, tensor: Tensor, owner: nn.Module) -> None:
        self.name = name
        self.tensor = tensor
        self.owner = owner

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in Paddle: a linear layer's matrix is (in, out) there and (out, in) in torch."""
        shape = tuple(self.tensor.shape)
        return shape[::-1] if self._transposed else shape

    @property
    def _transposed(self) -> bool:
        return isinstance(self.owner, nn.Linear) and self.tensor.dim() == 2

    def fits(self, array: np.ndarray) -> bool:
        # A bias folded into the graph may have come as (1, C, 1, 1), a scalar as ().
        same = array.shape == self.shape
        return same or (self.tensor.dim() <= 1 and array.size == self.tensor.numel())

    @torch.no_grad()
    def fill(self, array: np.ndarray) -> None:
        value = torch.from_numpy(np.array(array, dtype=np.float32))
        self.tensor.copy_(value.t() if self._transposed else value.reshape(self.tensor.shape))
        if isinstance(self.owner, nn.Embedding) and self.owner.padding_idx is not None:
            # Paddle looks the padding index up as zeros whatever the row holds; torch reads the row.
            self.tensor[self.owner.padding_idx] = 0.0


def _slots(network: nn.Module) -> Iterator[_Slot]:
    for prefix, module in network.named_modules():
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        for name, tensor in own:
            if name != "num_batches_tracked":
                yield _Slot(f"{prefix}.{name}" if prefix else name, tensor, module)


def _rename(name: str, renames: Renames) -> str:
    for pattern, replacement in (*renames, *_STATISTICS):
        name = re.sub(pattern, replacement, name)
    return name


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "none"


def assign_by_name(network: nn.Module, arrays: Mapping[str, np.ndarray], renames: Renames) -> None:
    """Fills `network` in place from arrays with the names of a Paddle training checkpoint.

    `renames` turns a Paddle name into the network's; linear matrices are transposed, batch-norm statistics renamed.
    Of two arrays for one tensor the later holds, as when Paddle loads an LSTM, whose tensors have two names each.

    Raises ValueError that lists the network's tensors without an array, the arrays without a tensor and wrong shapes.
    """
    slots = {slot.name: slot for slot in _slots(network)}
    unknown, wrong = [], []
    filled: set[str] = set()
    for name, array in arrays.items():
        target = _rename(name, renames)
        if target not in slots:
            unknown.append(name)
        elif not slots[target].fits(array):
            wrong.append(f"{name} {array.shape} for {target} {slots[target].shape}")
        else:
            slots[target].fill(array)
            filled.add(target)
    missing = [name for name in slots if name not in filled and not any(f" for {name} " in line for line in wrong)]
    if unknown or wrong or missing:
        raise ValueError(
            f"the weights do not fit {type(network).__name__}: without an array: {_few(missing)}; "
            f"arrays without a place: {_few(unknown)}; wrong shape: {_few(wrong)}"
        )


def graph_parameters(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters among a graph's arrays, in the same order: constants such as 3.0 or axes are left out.

    A float array of more than one value counts as a parameter whatever its name: exporters fold biases into constants.
    """
    return {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind == "f" and (_PARAMETER.search(name) or array.size > 1)
    }


def assign_in_order(network: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from the arrays of an inference graph, listed in the order in which the graph uses them.

    The network's submodules must be registered in the order in which they run. A convolution takes weight, bias; a
    batch norm scale, offset, mean, variance; a linear layer weight, bias.

    Raises ValueError naming the first array that does not fit, or the counts when they differ.
    """
    parameters = graph_parameters(arrays)
    slots = list(_slots(network))
    for slot, (name, array) in zip(slots, parameters.items(), strict=False):
        if not slot.fits(array):
            raise ValueError(
                f"the weights do not fit {type(network).__name__}: {name} {array.shape} came "
                f"where {slot.name} {slot.shape} was expected"
            )
        slot.fill(array)
    if len(slots) != len(parameters):
        raise ValueError(
            f"the weights do not fit {type(network).__name__}: the file has {len(parameters)} parameters, "
            f"the network {len(slots)}; arrays without a place: {_few(list(parameters)[len(slots) :])}; "
            f"without an array: {_few([slot.name for slot in slots[len(parameters) :]])}"
        )
