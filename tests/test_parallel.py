"""Several processes learn what one learns with the whole batch, judge alike, and go on at another number."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.parallel_child import LEARN, SCENARIOS
from tests.toy_task import ToyNet, ToyTask, train
from zoo import checkpoint, parallel
from zoo.sync_norm import SyncedBatchNorm, sync_norms
from zoo.train_settings import Parallel

ROOT = Path(__file__).resolve().parents[1]
SLOW = ("fp16", "sharded_bf16", "hybrid", "data_and_split", "shard_and_split")
TWO = [name for name in SCENARIOS if name not in SLOW]


def together(folder: Path, processes: int, names: list[str]) -> None:
    """Runs scenarios in several processes and waits for all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.parallel_child", str(folder), *names]
    children = []
    for rank in range(processes):
        own = {"WORLD_SIZE": str(processes), "RANK": str(rank), "LOCAL_RANK": str(rank)}
        children.append(
            subprocess.Popen(command, cwd=ROOT, env=common | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
    try:
        said = [child.communicate(timeout=150)[0].decode()[-3000:] for child in children]
    finally:
        for child in children:
            child.kill()
    assert [child.returncode for child in children] == [0] * processes, "\n".join(said)


def lines(folder: Path, kind: str, name: str) -> list[float]:
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in read if line["kind"] == kind]


def alone(folder: Path, batch: int, **changes: Any) -> Path:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    train(ToyTask(ToyNet(), batch=batch), folder, **LEARN | changes)
    torch.set_num_threads(before)
    return folder


def weights(run: Path, name: str = "model.safetensors") -> dict[str, torch.Tensor]:
    last = checkpoint.last(run)
    assert last is not None
    return load_file(last / name)


def same_training(one: Path, other: Path) -> None:
    """Losses of every step, metrics of the running mean on 21 points, gradient norms, and the final weights."""
    for kind, name in (("train", "loss"), ("train", "norm"), ("evaluate", "likelihood")):
        expected = lines(one, kind, name)
        assert expected and lines(other, kind, name) == pytest.approx(expected, abs=1e-5), name
    for name in ("model.safetensors", "ema.safetensors"):
        ours, theirs = weights(one, name), weights(other, name)
        assert ours.keys() == theirs.keys()
        for key in ours:
            torch.testing.assert_close(theirs[key], ours[key], atol=1e-5, rtol=1e-4, msg=f"{name} {key}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made of every scenario, each with batches of 8."""
    folder = tmp_path_factory.mktemp("pair")
    shutil.copytree(alone(folder / "first_eight", 16), folder / "resumed_sharded")
    together(folder, 2, TWO)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process with batches of 16."""
    return alone(tmp_path_factory.mktemp("alone") / "run", 16)


@pytest.mark.parametrize("name", ["synced", "initial", "sharded", "split"])
def test_two_processes_learn_as_one(pair: Path, plain: Path, name: str) -> None:
    same_training(plain, pair / name)


def test_frozen_norms(pair: Path, tmp_path: Path) -> None:
    same_training(alone(tmp_path / "run", 16, freeze_norm=True), pair / "frozen")


def test_what_is_evaluated_is_what_is_saved(pair: Path) -> None:
    """Without synced norms each process has its own statistics: all are judged with those that the checkpoint has."""
    task = ToyTask()
    task.model.load_state_dict(weights(pair / "unsynced"))
    expected = task.evaluate(task.model)["likelihood"]
    assert lines(pair / "unsynced", "evaluate", "likelihood")[-1] == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [("fp16", {"freeze_norm": True}), ("sharded_bf16", {})])
def test_half_precision(tmp_path: Path, name: str, settings: dict[str, Any]) -> None:
    """Near the exact losses, to the eight bits that bfloat16 has, and not the same."""
    together(tmp_path, 2, [name])
    exact = lines(alone(tmp_path / "run", 16, **settings), "train", "loss")
    ours = lines(tmp_path / name, "train", "loss")
    assert ours == pytest.approx(exact, rel=0.02) and ours != pytest.approx(exact, rel=1e-5)


def test_accumulation_over_processes(pair: Path, tmp_path: Path) -> None:
    """Two processes, two batches each, are one of 32; the 48 points of an epoch leave a last step of 16."""
    settings = {"freeze_norm": True, "accumulate": 2, "steps": 4}
    same_training(alone(tmp_path / "run", 16, **settings), pair / "accumulated")


def test_a_sharded_checkpoint_goes_on_with_one_process(pair: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(pair / "sharded", run)
    alone(tmp_path / "whole", 16, steps=12)
    train(ToyTask(ToyNet(seed=8), batch=16), run, resume=True, **LEARN | {"steps": 12})
    same_training(tmp_path / "whole", run)


def test_one_process_s_checkpoint_goes_on_sharded(pair: Path, tmp_path: Path) -> None:
    same_training(alone(tmp_path / "whole", 16, steps=12), pair / "resumed_sharded")


def test_nan_on_one_process_stops_all(pair: Path) -> None:
    folder = pair / "not_finite"
    assert [json.loads((folder / f"error_{rank}.json").read_text())["step"] for rank in (0, 1)] == [2, 2]
    assert len(json.loads((folder / "nan_step_2.json").read_text())["samples"]) == 16


def test_a_signal_to_one_process_stops_all(pair: Path) -> None:
    stopped = [json.loads((pair / "signalled" / f"stopped_{rank}.json").read_text()) for rank in (0, 1)]
    assert stopped[0] == stopped[1] and stopped[0][0] == "signal" and stopped[0][1] < 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hybrid", "data_and_split", "shard_and_split"])
def test_four_processes(tmp_path: Path, name: str) -> None:
    """data x shard shares 32 points a step, the two with tensor 16."""
    together(tmp_path, 4, [name])
    same_training(alone(tmp_path / "alone", 32 if name == "hybrid" else 16), tmp_path / name)


@pytest.mark.parametrize(("count", "world"), [(0, 2), (1, 2), (5, 2), (7, 3), (2, 4)])
def test_shard_takes_each_once(count: int, world: int) -> None:
    parts = [parallel.shard(count, rank, world) for rank in range(world)]
    assert [index for part in parts for index in part] == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_alone_everything_is_the_identity() -> None:
    assert (parallel.rank(), parallel.world(), parallel.data_rank(), parallel.data_world()) == (0, 1, 0, 1)
    assert parallel.gather([1, "two"]) == [1, "two"]
    model = ToyNet()
    assert parallel.distribute(model, Parallel(), torch.device("cpu")) is model


@pytest.mark.parametrize(
    ("settings", "processes", "expected"),
    [
        (Parallel(), 6, (6, 1, 1)),
        (Parallel(shard=2), 6, (3, 2, 1)),
        (Parallel(data=2, shard=2, tensor=2), 8, (2, 2, 2)),
    ],
)
def test_degrees(settings: Parallel, processes: int, expected: tuple[int, int, int]) -> None:
    assert parallel.degrees(settings, processes) == expected


@pytest.mark.parametrize(
    ("settings", "processes", "message"),
    [
        (Parallel(data=2), 1, r"data 2 x shard 1 x tensor 1 .* 1 process.*start 2 with torchrun --nproc-per-node"),
        (Parallel(shard=4), 6, r"data auto x shard 4 x tensor 1 .* 6 process"),
        (Parallel(shard=4), 2, r"shard 4 .* 2 process.*start 4"),
    ],
)
def test_numbers_that_do_not_multiply(settings: Parallel, processes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parallel.degrees(settings, processes)


def test_more_shards_than_processes_never_falls_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shard 2"):
        train(ToyTask(), tmp_path / "run", steps=1, parallel={"shard": 2})


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (None, "Net has no tensor_plan"),
        ({"up": "diagonal"}, "up: came 'diagonal'; give one of colwise, rowwise"),
        ({"down": "rowwise"}, "down: the network has no such module"),
    ],
)
def test_tensor_plans(plan: dict[str, str] | None, message: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(2, 2)

    class Mesh:
        def size(self) -> int:
            return 2

    net = Net()
    if plan is not None:
        net.tensor_plan = lambda: plan  # type: ignore[assignment]
    with pytest.raises(ValueError, match=message):
        parallel._split_layers(net, Mesh())  # type: ignore[arg-type]


def test_clipping_gives_the_norm_and_no_gradient_is_an_error() -> None:
    layer = nn.Linear(1, 2, bias=False)
    with pytest.raises(ValueError, match="no parameter has a gradient"):
        parallel.clip_gradients(layer, 1.0)
    layer.weight.grad = torch.tensor([[3.0], [4.0]])
    assert parallel.clip_gradients(layer, 1.0).item() == pytest.approx(5.0)
    torch.testing.assert_close(layer.weight.grad, torch.tensor([[0.6], [0.8]]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("shape", [(7, 4), (3, 4, 5), (2, 4, 3, 5)])
def test_synced_norm_is_torch_s(
    shape: tuple[int, ...], momentum: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one process: outputs, gradients and statistics of nn.BatchNorm, over two batches and then in eval mode."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, group=None: None)
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
    torch.manual_seed(0)
    theirs = nn.Sequential(kind(4, momentum=momentum))
    ours = nn.Sequential(kind(4, momentum=momentum))
    assert sync_norms(ours, lambda: None) == 1 and isinstance(ours[0], SyncedBatchNorm)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for _ in range(2):
        features = torch.randn(shape) * 3 + 100
        one, other = features.clone().requires_grad_(), features.clone().requires_grad_()
        slope = torch.randn(shape)
        ours(one).backward(slope)
        theirs(other).backward(slope)
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, atol=1e-5, rtol=1e-5, msg=name)
    torch.testing.assert_close(ours.eval()(features), theirs.eval()(features))
