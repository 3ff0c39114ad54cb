"""Groups, schedules and running means against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from zoo.optim import RunningMean, ema_decay, make_optimizer, make_schedule, parameter_groups, schedule_factor
from zoo.train_settings import Ema, Optimizer, Schedule


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)


def groups(**settings: object) -> dict[str, tuple[float, float]]:
    """Rate and decay of each parameter by name."""
    net = Net()
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    made = parameter_groups(net, Optimizer.model_validate({"lr": 1.0, "weight_decay": 0.5, **settings}))
    found = {names[id(one)]: (group["lr"], group["weight_decay"]) for group in made for one in group["params"]}
    assert sum(len(group["params"]) for group in made) == 6 == len(found)
    return found


def test_no_decay_of_norms_and_biases() -> None:
    found = groups(name="adamw")
    assert {name for name, (_, decay) in found.items() if decay} == {"stem.weight", "head.weight"}
    assert {decay for _, decay in groups(name="adam").values()} == {0.5}
    assert {decay for _, decay in groups(name="adamw", no_decay_norm_and_bias=False).values()} == {0.5}
    assert groups(name="adam", no_decay_norm_and_bias=True)["norm.weight"] == (1.0, 0.0)


def test_factors_by_pattern() -> None:
    found = groups(
        name="adam",
        factors=[{"pattern": r"^head\.bias$", "lr": 2.0}, {"pattern": "^(stem|head)", "lr": 0.1, "weight_decay": 0}],
    )
    assert found["head.bias"] == (2.0, 0.5)
    assert found["head.weight"] == found["stem.weight"] == found["stem.bias"] == (0.1, 0.0)
    assert found["norm.weight"] == (1.0, 0.5)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([{"pattern": "^steem"}], r"factors.0.pattern: '\^steem' finds no parameter .*nearest are .*stem\.bias"),
        ([{"pattern": "stem"}, {"pattern": "stem.weight"}], "factors.1.*earlier pattern has taken"),
    ],
)
def test_patterns_that_do_nothing(factors: list[dict[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        groups(factors=factors)


def test_frozen_parameters_have_no_group() -> None:
    net = Net()
    net.stem.requires_grad_(False)
    made = parameter_groups(net, Optimizer(name="adam"))
    assert sum(len(group["params"]) for group in made) == 4
    with pytest.raises(ValueError, match="no parameter that learns"):
        parameter_groups(net.requires_grad_(False), Optimizer())


def one_step(name: str, **settings: object) -> float:
    """Where a weight of 2 with a gradient of 0.5 is after one step at rate 0.1."""
    weight = nn.Linear(1, 1, bias=False)
    nn.init.constant_(weight.weight, 2.0)
    optimizer = make_optimizer(weight, Optimizer.model_validate({"name": name, "lr": 0.1, **settings}))
    weight.weight.grad = torch.full((1, 1), 0.5)
    optimizer.step()
    return weight.weight.item()


def test_each_optimiser_by_hand() -> None:
    # Coupled L2: the gradient is 0.5 + 0.1 * 2 = 0.7. Adam's first step has the length of the rate.
    assert one_step("sgd", weight_decay=0.1) == pytest.approx(2 - 0.1 * 0.7)
    assert one_step("momentum", weight_decay=0.1) == pytest.approx(2 - 0.1 * 0.7)
    assert one_step("adam", weight_decay=0.1) == pytest.approx(2 - 0.1)
    # With eps 0.7 the coupled decay is seen: 0.7 / (0.7 + 0.7).
    assert one_step("adam", weight_decay=0.1, eps=0.7) == pytest.approx(2 - 0.1 * 0.5)
    # Decoupled: the weight shrinks by rate * decay first.
    assert one_step("adamw", weight_decay=0.1) == pytest.approx(2 * (1 - 0.01) - 0.1)
    # Nesterov looks ahead: the gradient and 0.9 of it.
    assert one_step("momentum", nesterov=True) == pytest.approx(2 - 0.1 * 0.5 * 1.9)


def factors(
    steps: list[int], total: int = 100, per_epoch: int = 10, lr: float = 1.0, **settings: object
) -> list[float]:
    schedule = Schedule.model_validate(settings)
    return [schedule_factor(schedule, step, steps=total, per_epoch=per_epoch, lr=lr) for step in steps]


def test_constant() -> None:
    assert factors([0, 50, 100]) == [1, 1, 1]


def test_warm_up() -> None:
    assert factors([0, 5, 10, 11], warmup_steps=10) == pytest.approx([0, 0.5, 1, 1])
    assert factors([0, 5, 10], warmup_epochs=1.0, start_factor=0.2) == pytest.approx([0.2, 0.6, 1])
    assert factors([0, 1, 2], warmup_epochs=0.2) == pytest.approx([0, 0.5, 1])


def test_cosine() -> None:
    """Half way between warm-up and end it is half; a third of the way cos(60 degrees) makes it three quarters."""
    assert factors([10, 40, 55, 100, 130], kind="cosine", warmup_steps=10) == pytest.approx([1, 0.75, 0.5, 0, 0])
    assert factors([0, 50, 100], kind="cosine", end_factor=0.1) == pytest.approx([1, 0.55, 0.1])
    assert factors([0, 100], kind="cosine", lr=0.01, min_lr=0.001) == pytest.approx([1, 0.1])


def test_linear() -> None:
    assert factors([0, 25, 100, 101], kind="linear", end_factor=0.2) == pytest.approx([1, 0.8, 0.2, 0.2])


def test_piecewise() -> None:
    settings = {"kind": "piecewise", "boundaries": [3, 7.5], "values": [1, 0.1, 0.01], "warmup_steps": 2}
    assert factors([1, 2, 29, 30, 74, 75, 99], **settings) == pytest.approx([0.5, 1, 1, 0.1, 0.1, 0.01, 0.01])


def test_the_optimiser_follows_the_schedule_in_every_group() -> None:
    settings = Optimizer.model_validate({"lr": 0.5, "factors": [{"pattern": "head", "lr": 0.1}]})
    optimizer = make_optimizer(Net(), settings)
    schedule = make_schedule(optimizer, Schedule(kind="linear"), steps=4, per_epoch=1, lr=0.5)
    rates = []
    for _ in range(5):
        rates.append(sorted({round(group["lr"], 9) for group in optimizer.param_groups}))
        optimizer.step()
        schedule.step()
    assert rates == [[0.05, 0.5], [0.0375, 0.375], [0.025, 0.25], [0.0125, 0.125], [0.0]]


def test_a_warm_up_longer_than_the_training() -> None:
    optimizer = make_optimizer(Net(), Optimizer())
    with pytest.raises(ValueError, match="warm-up of 20 steps leaves none of the 20 steps"):
        make_schedule(optimizer, Schedule(warmup_epochs=2), steps=20, per_epoch=10, lr=1e-3)


def test_decays() -> None:
    assert [ema_decay(Ema(kind="constant", decay=0.9), n) for n in (0, 9)] == [0.9, 0.9]
    # (1 + n) / (10 + n), until the decay is reached: n = 80 gives 81 / 90.
    assert [ema_decay(Ema(decay=0.9), n) for n in (0, 8, 80, 81)] == pytest.approx([0.1, 0.5, 0.9, 0.9])
    # After gamma * ln 2 updates half of the decay is reached.
    half = round(2000 * math.log(2)) - 1
    assert ema_decay(Ema(kind="exponential", decay=0.8), half) == pytest.approx(0.4, abs=1e-4)
    assert ema_decay(Ema(kind="exponential", decay=0.8, gamma=1.0), 0) == pytest.approx(0.8 * (1 - math.exp(-1)))


def test_running_mean_by_hand() -> None:
    norm = nn.BatchNorm1d(1)
    mean = RunningMean(norm, Ema(kind="constant", decay=0.75))
    with torch.no_grad():
        norm.weight.fill_(5.0)
        norm.running_mean.fill_(8.0)
        norm.num_batches_tracked.fill_(7)
    mean.update()
    # 0.75 * 1 + 0.25 * 5 and 0.75 * 0 + 0.25 * 8; the count is copied.
    found = mean.full()
    assert (found["weight"].item(), found["running_mean"].item(), found["num_batches_tracked"].item()) == (2.0, 2.0, 7)
    mean.update()
    assert mean.full()["weight"].item() == 2.75
    with mean.in_place():
        assert norm.weight.item() == 2.75
    assert norm.weight.item() == 5.0


def test_running_mean_is_float32_whatever_the_model_is() -> None:
    """In bfloat16 0.999 * 1 + 0.001 * 2 rounds to 1, for ever; in float32 it moves."""
    layer = nn.Linear(1, 1, bias=False).bfloat16()
    nn.init.constant_(layer.weight, 1.0)
    mean = RunningMean(layer, Ema(kind="constant", decay=0.999))
    nn.init.constant_(layer.weight, 2.0)
    mean.update()
    assert mean.full()["weight"].dtype == torch.float32
    assert mean.full()["weight"].item() == pytest.approx(1.001)
    with mean.in_place():
        assert layer.weight.dtype == torch.bfloat16


def test_running_mean_of_another_model() -> None:
    mean = RunningMean(nn.Linear(1, 1), Ema())
    with pytest.raises(ValueError, match="do not both have bias"):
        mean.load({"weight": torch.zeros(1, 1)}, 1)


def test_in_place_comes_back_after_an_error() -> None:
    layer = nn.Linear(1, 1)
    before = layer.weight.item()
    mean = RunningMean(layer, Ema(kind="constant", decay=0.5))
    mean.tensors["weight"].zero_()
    with pytest.raises(KeyError), mean.in_place():
        raise KeyError
    assert layer.weight.item() == before
