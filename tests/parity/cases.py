"""Reference cases of ../shared/parity: weights and inputs by formula, and comparisons with the promised tolerances."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

PARITY = Path(__file__).resolve().parents[3] / "shared" / "parity"
OUTPUT_TOLERANCE = 1e-4  # of max(1, the largest reference value)
LOSS_TOLERANCE = 1e-4  # relative
GRADIENT_TOLERANCE = 1e-3  # relative
# Norms below this share of the network's largest are rounding noise of a sum that cancels.
GRADIENT_FLOOR = 1e-6

Loader = Callable[[Any, Mapping[str, np.ndarray]], None]


@lru_cache(maxsize=1)
def formula() -> ModuleType:
    """The module that makes a case's weights and inputs."""
    path = PARITY / "formula.py"
    if not path.exists():
        pytest.skip(f"reference cases are not here: {path}")
    spec = importlib.util.spec_from_file_location("parity_formula", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, kw_only=True)
class Case:
    """One reference case: `facts` as in its JSON file, `outputs` as in its NPZ file."""

    name: str
    path: Path
    facts: dict[str, Any]
    outputs: dict[str, np.ndarray]

    def state(self) -> dict[str, np.ndarray]:
        """Weights with the reference's own (Paddle) names."""
        return formula().state(str(self.path))

    def inputs(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(formula().array(*spec)) for name, spec in self.facts["input"].items()}

    def array(self, key: str, shape: tuple[int, ...], low: float, high: float) -> Tensor:
        """An array of the formula, for example a target; `key` without the case's name."""
        return torch.from_numpy(formula().array(f"{self.name}:{key}", shape, low, high))


def load(domain: str, name: str) -> Case:
    """The case `domain/name`; skips the test where the reference cases are not on the machine."""
    path = PARITY / domain / f"{name}.json"
    if not path.exists():
        pytest.skip(f"reference case is not here: {path}")
    with np.load(path.with_suffix(".npz")) as file:
        outputs = {key: file[key] for key in file.files}
    return Case(name=name, path=path, facts=json.loads(path.read_text(encoding="utf-8")), outputs=outputs)


def assert_output(got: Tensor, wanted: np.ndarray, what: str) -> None:
    assert tuple(got.shape) == wanted.shape, f"{what}: shape {tuple(got.shape)}, reference {wanted.shape}"
    error = float(np.abs(got.detach().numpy() - wanted).max())
    allowed = OUTPUT_TOLERANCE * max(1.0, float(np.abs(wanted).max()))
    assert error <= allowed, f"{what}: off by {error:.3g}, allowed {allowed:.3g}"


def assert_loss(got: Tensor, wanted: float, what: str) -> None:
    assert got.dim() == 0, f"{what}: shape {tuple(got.shape)}, a scalar was expected"
    assert got.item() == pytest.approx(wanted, rel=LOSS_TOLERANCE, abs=1e-7), what


def gradient_norms(network: nn.Module, load_paddle: Loader, case: Case) -> dict[str, float]:
    """The gradient norm of every parameter after backward(), by its Paddle name; no gradient counts as 0.

    Which Paddle name became which parameter is seen by loading each array filled with its own number into a copy. Of
    two names for one tensor (an LSTM's) the last loaded is seen: that is the one which the case names.
    """
    twin = copy.deepcopy(network)
    state = case.state()
    names = sorted(state, key=lambda name: name in case.facts["grad_norms"])
    load_paddle(twin, {name: np.full(state[name].shape, i + 1, np.float32) for i, name in enumerate(names)})
    norms = {}
    for (_, real), (_, marked) in zip(network.named_parameters(), twin.named_parameters(), strict=True):
        norms[names[int(marked.max()) - 1]] = 0.0 if real.grad is None else real.grad.norm().item()
    return norms


def assert_gradients(network: nn.Module, load_paddle: Loader, case: Case) -> None:
    """Every gradient norm of the case; call after backward(). All names of `grad_norms` must be found."""
    wanted = case.facts["grad_norms"]
    got = gradient_norms(network, load_paddle, case)
    missing = sorted(set(wanted) - set(got))
    assert not missing, f"no parameter became {missing[:5]}"
    floor = GRADIENT_FLOOR * max(wanted.values())
    wrong = [
        f"{name}: {got[name]:.6g}, reference {norm:.6g}"
        for name, norm in wanted.items()
        if abs(got[name] - norm) > GRADIENT_TOLERANCE * max(norm, floor)
    ]
    assert not wrong, f"{len(wrong)} of {len(wanted)} gradient norms differ: {wrong[:5]}"
