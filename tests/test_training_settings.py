"""Every combination that cannot work is one clear error, and the settings need no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from zoo import config
from zoo.train_settings import Every, Train


def test_a_recipe_with_every_section(tmp_path: Path) -> None:
    path = tmp_path / "train.yml"
    path.write_text(
        "epochs: 5\nprecision: fp16\nscaler: {init_scale: 1024}\nclip_norm: 5\nrecompute: [neck]\n"
        "ema: {kind: exponential, gamma: 100}\n"
        "optimizer: {name: momentum, lr: 1e-3, momentum: 0.8, factors: [{pattern: '^backbone', lr: 0.1}]}\n"
        "schedule: {kind: piecewise, boundaries: [3], values: [1, 0.1], warmup_epochs: 0.5}\n"
        "evaluate_every: {steps: 100}\nearly_stop: {patience: 3}\nparallel: {sync_norm: true}\n"
    )
    train = config.load(Train, path, ["optimizer.lr=0.02"])
    assert train.optimizer.lr == 0.02 and train.optimizer.factors[0].lr == 0.1
    assert Train.model_validate(train.model_dump(mode="json")) == train
    with pytest.raises(ValidationError, match="frozen"):
        train.epochs = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give epochs or steps"),
        ({"epochs": 1, "steps": 1}, "give epochs or steps"),
        ({"epochs": 0}, "greater than 0"),
        ({"epochs": 1, "epoch": 1}, "Extra inputs"),
        ({"epochs": 1, "device": "tpu"}, "pattern"),
        ({"epochs": 1, "scaler": {"init_scale": 8}}, "scaler belongs to precision fp16, the precision is fp32"),
        ({"epochs": 1, "precision": "fp16", "parallel": {"shard": 2}}, "take precision bf16"),
        ({"epochs": 1, "freeze_norm": True, "parallel": {"sync_norm": True}}, "exclude one another"),
        ({"epochs": 1, "optimizer": {"name": "sgd", "momentum": 0.5}}, "sgd has no momentum, came 0.5"),
        ({"epochs": 1, "optimizer": {"name": "adam", "nesterov": True}}, "adam has no nesterov"),
        ({"epochs": 1, "optimizer": {"name": "momentum", "betas": [0.5, 0.9]}}, "momentum has no betas"),
        ({"epochs": 1, "optimizer": {"betas": [0.9, 1.0]}}, r"betas must lie in \[0, 1\)"),
        ({"epochs": 1, "optimizer": {"factors": [{"pattern": "("}]}}, "is not a regular expression"),
        ({"epochs": 1, "schedule": {"warmup_steps": 1, "warmup_epochs": 1}}, "not both"),
        ({"epochs": 1, "schedule": {"start_factor": 0.1}}, "start_factor is where a warm-up begins"),
        ({"epochs": 1, "schedule": {"end_factor": 0.1}}, "constant has no end_factor"),
        ({"epochs": 1, "schedule": {"kind": "cosine", "end_factor": 0.1, "min_lr": 1e-6}}, "not both"),
        ({"epochs": 1, "schedule": {"kind": "cosine", "min_lr": 1.0}}, r"min_lr \(1.0\) is above optimizer.lr"),
        ({"epochs": 1, "schedule": {"kind": "piecewise"}}, "piecewise needs boundaries"),
        (
            {"epochs": 1, "schedule": {"kind": "piecewise", "boundaries": [1], "values": [1]}},
            "1 boundaries and 1 values",
        ),
        ({"epochs": 9, "schedule": {"kind": "piecewise", "boundaries": [2, 1], "values": [1, 1, 1]}}, "must rise"),
        (
            {"epochs": 9, "schedule": {"kind": "piecewise", "boundaries": [1], "values": [1e-3, 1e-4]}},
            "parts of optimizer.lr",
        ),
        (
            {"epochs": 1, "schedule": {"boundaries": [1], "values": [1, 0.1]}},
            "belong to piecewise, the kind is constant",
        ),
        ({"epochs": 2, "schedule": {"warmup_epochs": 2}}, "leave none of 2 epochs"),
        ({"steps": 5, "schedule": {"warmup_steps": 5}}, "leave none of 5 steps"),
        ({"epochs": 1, "ema": {"gamma": 5}}, "gamma belongs to exponential, the kind is threshold"),
        ({"epochs": 1, "evaluate_every": {"steps": 1, "epochs": 1}}, "give steps or epochs, one of the two"),
        ({"epochs": 1, "save_every": {}}, "give steps or epochs, one of the two"),
        ({"epochs": 1, "parallel": {"tensor": 0}}, "greater than 0"),
    ],
)
def test_what_cannot_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        Train.model_validate(settings)
    assert len(caught.value.errors()) <= 2  # a union such as int | "auto" reports both of its sides


def test_rhythms() -> None:
    steps, epochs = Every(steps=3), Every(epochs=2)
    assert [steps.due(step, None) for step in (1, 2, 3, 6)] == [False, False, True, True]
    assert [epochs.due(9, epoch) for epoch in (None, 1, 2, 4)] == [False, False, True, True]


def test_the_settings_need_no_torch() -> None:
    code = "import sys, zoo.train_settings, zoo.run, zoo.checkpoint; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
