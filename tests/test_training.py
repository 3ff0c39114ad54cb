"""The loop: it learns, goes on exactly where it was, ends in order, and says what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.toy_task import Batch, ToyNet, ToyTask, train
from zoo import checkpoint
from zoo.interrupt import Signals
from zoo.training import NotFinite, OutOfMemory

ROOT = Path(__file__).resolve().parents[1]
FULL = {
    "precision": "fp32",
    "accumulate": 2,
    "clip_norm": 1.0,
    "ema": {"kind": "exponential", "decay": 0.9, "gamma": 10},
    "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
    "schedule": {"kind": "cosine", "warmup_steps": 3},
    "recompute": ["block"],
    "save_every": {"steps": 4},
    "evaluate_every": {"steps": 4},
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from threads, and lose much where other processes are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def child(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment)


def log(folder: Path, kind: str = "train") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timed = ("samples_per_second", "waiting")
    return [{k: v for k, v in line.items() if k not in timed} for line in lines if line["kind"] == kind]


def same_file(first: Path, second: Path, name: str) -> None:
    one, other = load_file(first / name), load_file(second / name)
    assert one.keys() == other.keys()
    for key in one:
        assert torch.equal(one[key], other[key]), key


def same_state(one: Any, other: Any, at: str = "") -> None:
    """Bit for bit, through dicts and lists; torch gives betas back as a list."""
    if isinstance(one, Tensor):
        assert torch.equal(one, other), at
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), at
        for key in one:
            same_state(one[key], other[key], f"{at}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), at
        for index, pair in enumerate(zip(one, other, strict=True)):
            same_state(*pair, f"{at}.{index}")
    else:
        assert one == other, at


def same_run(first: Path, second: Path, *, ema: bool = True) -> None:
    """Weights, running mean, optimiser, schedule, random state, progress and every logged number."""
    one, other = checkpoint.last(first), checkpoint.last(second)
    assert one is not None and other is not None and one.name == other.name
    for name in ("model.safetensors", "ema.safetensors") if ema else ("model.safetensors",):
        same_file(one, other, name)
    same_state(*(torch.load(folder / "state.pt", weights_only=True) for folder in (one, other)))
    assert checkpoint.read_progress(one) == checkpoint.read_progress(other)
    assert log(first) == log(second)
    assert log(first, "evaluate") == log(second, "evaluate")


def test_it_learns(tmp_path: Path) -> None:
    rhythm = {"evaluate_every": {"epochs": 10}, "save_every": {"epochs": 30}}
    outcome = train(ToyTask(), tmp_path / "run", epochs=30, optimizer={"lr": 0.01}, **rhythm)
    assert (outcome.step, outcome.epoch, outcome.stopped) == (30 * 6, 30, "finished")
    # Guessing among three classes costs log 3 = 1.0986.
    assert log(tmp_path / "run")[-1]["entropy"] < 1.0986 / 2
    assert outcome.best is not None and outcome.best.metric == max(
        line["likelihood"] for line in log(tmp_path / "run", "evaluate")
    )


@pytest.mark.parametrize("stop", [4, 8, 5], ids=["within the first epoch", "within the third", "at an odd step"])
def test_exact_resume(tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """N steps and the rest are all steps, bit for bit: dropout, accumulation, clipping, EMA, recompute, warm-up."""
    settings = FULL | {"steps": 14, "save_every": {"steps": stop}}
    train(ToyTask(ToyNet(dropout=0.3)), tmp_path / "whole", **settings)
    halted = ToyTask(ToyNet(dropout=0.3))
    made, count = halted.losses, 0

    def losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        nonlocal count
        count += 1
        if count > 2 * (stop + 1):  # one step past the checkpoint, so that the log must be cut
            raise KeyboardInterrupt
        return made(model, batch)

    monkeypatch.setattr(halted, "losses", losses)
    with pytest.raises(KeyboardInterrupt):
        train(halted, tmp_path / "halved", **settings)
    assert log(tmp_path / "halved")[-1]["step"] == stop + 1
    resumed = ToyTask(ToyNet(dropout=0.3, seed=99))
    outcome = train(resumed, tmp_path / "halved", resume=True, **settings)
    same_run(tmp_path / "whole", tmp_path / "halved")
    assert outcome.step == 14
    # What lies before the checkpoint in its epoch (3 steps of 2 batches) is not loaded again.
    opened = next(batches for batches in resumed.epochs if batches.loaded)
    assert (opened.epoch, opened.loaded[0]) == (stop // 3, stop % 3 * 2)


@pytest.mark.parametrize("name", ["adam", "sgd", "momentum"])
def test_exact_resume_of_every_optimiser(tmp_path: Path, name: str) -> None:
    settings = {"steps": 8, "optimizer": {"name": name, "lr": 0.01, "weight_decay": 0.01}, "save_every": {"steps": 4}}
    train(ToyTask(), tmp_path / "whole", **settings)
    train(ToyTask(), tmp_path / "halved", **settings | {"steps": 4})
    train(ToyTask(ToyNet(seed=9)), tmp_path / "halved", resume=True, **settings)
    one, other = checkpoint.last(tmp_path / "whole"), checkpoint.last(tmp_path / "halved")
    assert one is not None and other is not None
    same_file(one, other, "model.safetensors")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_resumes_exactly_too(tmp_path: Path, precision: str) -> None:
    settings = {"steps": 6, "precision": precision, "save_every": {"steps": 3}, "optimizer": {"lr": 0.01}}
    if precision == "fp16":
        settings["scaler"] = {"init_scale": 256.0, "growth_interval": 2}
    train(ToyTask(), tmp_path / "whole", **settings)
    train(ToyTask(), tmp_path / "halved", **settings | {"steps": 3})
    train(ToyTask(), tmp_path / "halved", resume=True, **settings)
    one, other = checkpoint.last(tmp_path / "whole"), checkpoint.last(tmp_path / "halved")
    assert one is not None and other is not None
    same_file(one, other, "model.safetensors")
    exact = {"steps": 6, "optimizer": {"lr": 0.01}}
    train(ToyTask(), tmp_path / "exact", **exact)
    near = [line["loss"] for line in log(tmp_path / "whole")]
    true = [line["loss"] for line in log(tmp_path / "exact")]
    assert near == pytest.approx(true, rel=0.02) and near != true


@pytest.mark.parametrize("count", [16, 12], ids=["even", "uneven end of the epoch"])
def test_accumulation_is_the_whole_batch(tmp_path: Path, count: int) -> None:
    """Two batches, the second of 8 or 4, are one of 16 or 12: the mean over samples, not over batches."""
    plain = {"epochs": 4, "optimizer": {"name": "sgd", "lr": 0.1}, "clip_norm": 0.5}
    train(ToyTask(ToyNet(norm=False), count=count, batch=16, drop_last=False), tmp_path / "one", **plain)
    train(
        ToyTask(ToyNet(norm=False), count=count, batch=8, drop_last=False),
        tmp_path / "two",
        accumulate=2,
        **plain,
    )
    one, two = ([line["loss"] for line in log(tmp_path / name)] for name in ("one", "two"))
    assert len(one) == 4 and two == pytest.approx(one, abs=1e-6)


def test_an_epoch_that_accumulation_does_not_divide(tmp_path: Path) -> None:
    """Five batches by two: three steps an epoch, and the next epoch begins at its own first batch."""
    task = ToyTask(count=40)
    outcome = train(task, tmp_path / "run", epochs=2, accumulate=2)
    assert (outcome.step, outcome.epoch) == (6, 2)
    assert [batches.loaded for batches in task.epochs if batches.loaded] == [[0, 1, 2, 3, 4]] * 2


def test_clipping_limits_the_step(tmp_path: Path) -> None:
    """With SGD at rate 1 the weights move by exactly clip_norm when the gradient is longer."""
    task = ToyTask()
    before = [parameter.detach().clone() for parameter in task.model.parameters()]
    train(task, tmp_path / "run", steps=1, clip_norm=1e-3, optimizer={"name": "sgd", "lr": 1.0})
    moved = torch.cat([(a - b).flatten() for a, b in zip(task.model.parameters(), before, strict=True)])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)
    assert log(tmp_path / "run")[0]["norm"] > 1e-3


def test_evaluation_leaves_the_training_as_it_was(tmp_path: Path) -> None:
    """The toy's evaluation draws random numbers and sets eval mode; dropout must not notice."""
    often, never = ToyTask(ToyNet(dropout=0.5)), ToyTask(ToyNet(dropout=0.5))
    train(often, tmp_path / "often", steps=9, evaluate_every={"steps": 1}, keep=1)
    train(never, tmp_path / "never", steps=9, evaluate_every={"steps": 100})
    assert (often.evaluations, never.evaluations) == (9, 1)
    assert log(tmp_path / "often") == log(tmp_path / "never")


def test_the_running_mean_is_what_is_evaluated(tmp_path: Path) -> None:
    """A mean that hardly moves scores as the initial weights do, while the weights themselves learn."""
    task = ToyTask(ToyNet(norm=False))
    initial = task.evaluate(task.model)["likelihood"]
    task.model.train()
    frozen = {"kind": "constant", "decay": 0.999999}
    outcome = train(
        task, tmp_path / "run", epochs=20, ema=frozen, optimizer={"lr": 0.02}, evaluate_every={"epochs": 20}
    )
    assert outcome.metrics["likelihood"] == pytest.approx(initial, abs=1e-3)
    assert task.evaluate(task.model)["likelihood"] > initial + 0.5


def test_best_and_last_are_kept(tmp_path: Path) -> None:
    task = ToyTask()
    scores = iter([0.1, 0.9, 0.3, 0.2, 0.5, 0.4])
    task.evaluate = lambda model: {"score": next(scores)}  # type: ignore[method-assign]
    outcome = train(task, tmp_path / "run", epochs=6, keep=2)
    assert outcome.best is not None and (outcome.best.metric, outcome.best.epoch) == (0.9, 2)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("step_*"))
    assert names == ["step_000012", "step_000030", "step_000036"]
    assert checkpoint.best(tmp_path / "run") == tmp_path / "run" / "checkpoints" / "step_000012"
    pointer = json.loads((tmp_path / "run" / "checkpoints" / "best.json").read_text())
    assert (pointer["folder"], pointer["metric"]) == ("step_000012", 0.9)


def test_early_stop(tmp_path: Path) -> None:
    """0.5 and 0.52 are not 0.1 better than 0.45; 0.58 would be, but comes too late."""
    task = ToyTask()
    scores = iter([0.45, 0.5, 0.52, 0.58])
    task.evaluate = lambda model: {"score": next(scores)}  # type: ignore[method-assign]
    stop = {"patience": 2, "min_delta": 0.1}
    outcome = train(task, tmp_path / "run", epochs=9, early_stop=stop)
    assert (outcome.stopped, outcome.epoch) == ("early", 3)
    assert outcome.best is not None and outcome.best.metric == 0.52
    again = train(ToyTask(), tmp_path / "run", resume=True, epochs=9, early_stop=stop)
    assert (again.stopped, again.step) == ("early", outcome.step)


def test_nothing_to_evaluate_on(tmp_path: Path) -> None:
    outcome = train(ToyTask(evaluated=0), tmp_path / "run", epochs=1)
    assert outcome.metrics == {} and outcome.best is None
    assert checkpoint.best(tmp_path / "run") == checkpoint.last(tmp_path / "run")
    with pytest.raises(ValueError, match="early_stop needs an evaluation"):
        train(ToyTask(evaluated=0), tmp_path / "other", epochs=1, early_stop={"patience": 1})


def test_no_batch_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give no batch"):
        train(ToyTask(count=7), tmp_path / "run", epochs=1)


def test_a_finished_run_has_nothing_to_add(tmp_path: Path) -> None:
    train(ToyTask(), tmp_path / "run", epochs=1)
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    outcome = train(ToyTask(), tmp_path / "run", resume=True, epochs=1)
    assert (outcome.step, outcome.stopped) == (6, "finished") and outcome.best is not None
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before


@dataclass
class Spoilt(ToyTask):
    """Its third batch holds a NaN, or its losses a term that is infinite."""

    def made(self, index: Tensor, number: int) -> Batch:
        batch = super().made(index, number)
        return batch._replace(inputs=batch.inputs * float("nan")) if number == 2 else batch


def test_nan_stops_and_names_the_samples(tmp_path: Path) -> None:
    task = Spoilt()
    with pytest.raises(NotFinite, match=r"step 3: not finite: entropy nan, size nan; .*lr 0.001.*nan_step_3.json"):
        train(task, tmp_path / "run", epochs=1)
    facts = json.loads((tmp_path / "run" / "nan_step_3.json").read_text())
    order = torch.from_numpy(__import__("numpy").random.default_rng([3, 0]).permutation(48)[16:24])
    assert facts["samples"] == [f"point {index}" for index in order.tolist()]
    assert facts["losses"] == {"entropy": "nan", "size": "nan"}
    assert (tmp_path / "run" / "pictures" / "nan_inputs_000003.jpg").is_file()
    assert all(torch.isfinite(parameter).all() for parameter in task.model.parameters())


def test_a_gradient_that_is_not_finite_stops_too(tmp_path: Path) -> None:
    """The square root has an infinite slope at 0, though its value is fine."""
    task = ToyTask()
    task.losses = lambda model, batch: {"root": (model(batch.inputs) * 0).abs().sum().sqrt()}  # type: ignore[method-assign]
    with pytest.raises(NotFinite, match="step 1: not finite: root 0; gradient norm nan"):
        train(task, tmp_path / "run", steps=1)


def test_overflow_in_fp16_is_skipped_and_counted(tmp_path: Path) -> None:
    """A scale of 2**40 overflows fp16 (65504) in the gradients: halved until they fit."""
    scaler = {"init_scale": 2.0**40, "growth_interval": 1000}
    outcome = train(ToyTask(), tmp_path / "run", steps=45, precision="fp16", scaler=scaler)
    lines = log(tmp_path / "run")
    assert outcome.step == 45 and 0 < lines[-1]["overflows"] < 45
    assert lines[-1]["scale"] == 2.0 ** (40 - lines[-1]["overflows"])
    assert lines[0]["norm"] is None and lines[-1]["norm"] < 100


def test_endless_overflow_is_an_error(tmp_path: Path) -> None:
    scaler = {"init_scale": 2.0**120, "backoff_factor": 0.99}
    with pytest.raises(NotFinite, match="step 50: 50 steps in a row overflowed in fp16"):
        train(ToyTask(), tmp_path / "run", steps=60, precision="fp16", scaler=scaler)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
    ids=["python", "cpu", "cuda"],
)
def test_too_little_memory(tmp_path: Path, error: Exception) -> None:
    task = ToyTask()

    def losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        raise error

    task.losses = losses  # type: ignore[method-assign]
    with pytest.raises(OutOfMemory, match=r"batch of 8 .*accumulate, now 1.*crop.*precision bf16.*recompute"):
        train(task, tmp_path / "run", steps=1)


def test_other_errors_pass(tmp_path: Path) -> None:
    task = ToyTask()
    task.losses = lambda model, batch: {}  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="give at least one, each a scalar"):
        train(task, tmp_path / "run", steps=1)


def test_a_signal_ends_after_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = FULL | {"steps": 9, "save_every": {"steps": 100}, "evaluate_every": {"steps": 100}}
    train(ToyTask(ToyNet(dropout=0.3)), tmp_path / "whole", **settings)
    before = signal.getsignal(signal.SIGTERM)
    task = ToyTask(ToyNet(dropout=0.3))
    made, calls = task.losses, iter(range(99))

    def losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        if next(calls) == 2:  # within the second step
            os.kill(os.getpid(), signal.SIGTERM)
        return made(model, batch)

    task.losses = losses  # type: ignore[method-assign]
    outcome = train(task, tmp_path / "halved", **settings)
    assert outcome.stopped == "signal" and outcome.step in (2, 3)
    assert f"python tools/train.py --resume {tmp_path / 'halved'}" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    train(ToyTask(ToyNet(dropout=0.3)), tmp_path / "halved", resume=True, **settings)
    same_run(tmp_path / "whole", tmp_path / "halved")


def test_a_second_signal_ends_at_once() -> None:
    code = (
        "import os, signal, time\nfrom zoo.interrupt import Signals\n"
        "with Signals() as signals:\n    os.kill(os.getpid(), signal.SIGINT)\n    assert signals.asked\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(9)\n"
    )
    assert child(code).wait(timeout=60) == -signal.SIGINT


def test_signals_restore_the_handlers_after_an_error() -> None:
    before = [signal.getsignal(number) for number in Signals.caught]
    with pytest.raises(KeyError), Signals():
        raise KeyError
    assert [signal.getsignal(number) for number in Signals.caught] == before


def test_kill_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    """kill -9 in the midst of the second checkpoint: the first one holds, and the run goes on exactly."""
    settings = FULL | {"steps": 10}
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom zoo import checkpoint\n"
        "from tests.toy_task import ToyNet, ToyTask, train\nwrite = checkpoint._write\n"
        "def dying(path, content):\n"
        "    if path.name == 'state.pt' and '000008' in str(path):\n"
        "        path.write_bytes(content[:50])\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(path, content)\n"
        f"checkpoint._write = dying\ntrain(ToyTask(ToyNet(dropout=0.3)), Path(sys.argv[1]), **{settings!r})\n"
    )
    killed = tmp_path / "killed"
    assert child(code, str(killed)).wait(timeout=120) == -signal.SIGKILL
    assert (killed / "checkpoints" / ".step_000008.draft").is_dir()
    train(ToyTask(ToyNet(dropout=0.3)), killed, resume=True, **settings)
    assert not list((killed / "checkpoints").glob(".*"))
    train(ToyTask(ToyNet(dropout=0.3)), tmp_path / "whole", **settings)
    same_run(tmp_path / "whole", killed)


@pytest.mark.slow
def test_kill_at_any_time(tmp_path: Path) -> None:
    """Killed again and again at odd moments, the run still ends as the one that was left alone."""
    settings = FULL | {"steps": 60, "save_every": {"steps": 2}, "log_every": 1}
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.toy_task import ToyNet, ToyTask, train\n"
        "folder = Path(sys.argv[1])\n"
        f"train(ToyTask(ToyNet(dropout=0.3)), folder, resume=folder.exists(), **{settings!r})\n"
    )
    killed, deaths = tmp_path / "killed", 0
    for attempt in range(40):
        started = child(code, str(killed))
        if attempt < 8:
            held = checkpoint.last(killed)
            while started.poll() is None and checkpoint.last(killed) == held:
                time.sleep(0.005)
            time.sleep(0.013 * attempt)
            started.kill()
        if started.wait(timeout=120) == 0:
            break
        deaths += 1
    assert deaths > 2
    train(ToyTask(ToyNet(dropout=0.3)), tmp_path / "whole", **settings)
    same_run(tmp_path / "whole", killed)


def test_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint._write

    def full(path: Path, content: bytes) -> None:
        if path.name == "state.pt" and "000008" in str(path):
            path.write_bytes(content[:9])
            raise OSError(28, "No space left on device")
        write(path, content)

    settings = FULL | {"steps": 10}
    monkeypatch.setattr(checkpoint, "_write", full)
    with pytest.raises(checkpoint.DiskFull, match=r"step_000008 was not written.*the newest is step_000004.*--resume"):
        train(ToyTask(), tmp_path / "run", **settings)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("*step*")] == ["step_000004"]
    monkeypatch.undo()
    train(ToyTask(), tmp_path / "run", resume=True, **settings)
    train(ToyTask(), tmp_path / "whole", **settings)
    same_run(tmp_path / "whole", tmp_path / "run")


def test_recompute_changes_nothing(tmp_path: Path) -> None:
    """The same losses, weights and batch-norm statistics; only what is kept between the passes differs."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = ToyNet(dropout=0.4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.inner(inputs)

    plain, saving = ToyTask(Wrapped()), ToyTask(Wrapped())
    names = list(saving.model.state_dict())
    train(plain, tmp_path / "plain", steps=5)
    train(saving, tmp_path / "saving", steps=5, recompute=["inner"])
    assert list(saving.model.state_dict()) == names
    assert log(tmp_path / "plain") == log(tmp_path / "saving")
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, saving.model.state_dict()[name]), name
    with pytest.raises(ValueError, match=r"no module 'iner'; the nearest are inner"):
        train(ToyTask(Wrapped()), tmp_path / "typo", steps=1, recompute=["iner"])


def test_frozen_norms_keep_their_statistics(tmp_path: Path) -> None:
    task = ToyTask()
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    train(task, tmp_path / "run", steps=3, freeze_norm=True)
    after = task.model.state_dict()
    assert torch.equal(after["norm.running_mean"], before["norm.running_mean"])
    assert not torch.equal(after["norm.weight"], before["norm.weight"])


@pytest.mark.slow
def test_compiled_it_learns_the_same(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    train(ToyTask(), tmp_path / "plain", steps=6)
    task = ToyTask()
    names = list(task.model.state_dict())
    train(task, tmp_path / "compiled", steps=6, compile=True)
    assert list(task.model.state_dict()) == names
    plain, compiled = ([line["loss"] for line in log(tmp_path / name)] for name in ("plain", "compiled"))
    assert compiled == pytest.approx(plain, abs=1e-5)


def test_no_cuda_here(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ValueError, match="finds no CUDA device"):
        train(ToyTask(), tmp_path / "run", steps=1, device="cuda")


def test_a_log_window_survives_a_resume(tmp_path: Path) -> None:
    """A line is the mean of the steps since the last one, also where the training was stopped between the two."""
    settings = {"save_every": {"steps": 2}, "evaluate_every": {"steps": 50}, "steps": 6}
    train(ToyTask(), tmp_path / "each", **settings)
    train(ToyTask(), tmp_path / "whole", log_every=3, **settings)
    task, calls = ToyTask(), iter(range(99))
    made = task.losses

    def losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return made(model, batch)

    task.losses = losses  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        train(task, tmp_path / "halved", log_every=3, **settings)
    train(ToyTask(), tmp_path / "halved", resume=True, log_every=3, **settings)
    assert log(tmp_path / "halved") == log(tmp_path / "whole")
    each = [line["entropy"] for line in log(tmp_path / "each")]
    means = [line["entropy"] for line in log(tmp_path / "whole")]
    assert means == pytest.approx([sum(each[:3]) / 3, sum(each[3:]) / 3])
