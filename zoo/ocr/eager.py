"""A network under training behind the face that the predictors run: what evaluation reads is what a user will get."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo import parallel


class EagerSession:
    """A session of `zoo.runtime` around a network as it is now. first: the tensor of its output that is wanted."""

    engine = "torch"

    def __init__(self, network: nn.Module, first: Callable[[Any], Tensor]) -> None:
        # Its wrapper would wait for the other processes, which have another number of pictures.
        inner = parallel.plain(network)
        self._network, self._first = inner, first
        self._device = next(inner.parameters()).device

    def __call__(self, x: np.ndarray) -> np.ndarray:
        learning = [module for module in self._network.modules() if module.training]
        self._network.eval()
        try:
            # Not inference_mode: its tensors may not meet autograd again, and a network may keep some.
            with torch.no_grad():
                output = self._first(self._network(torch.from_numpy(x).to(self._device)))
        finally:
            for module in learning:  # one by one: some may be held in eval mode
                module.training = True
        return output.float().cpu().numpy()

    def map(self, inputs: Iterable[np.ndarray], keep: Callable[[np.ndarray], Any] = np.array) -> list[Any]:
        """What is kept of the output for each input."""
        return [keep(self(x)) for x in inputs]
