"""A checkpoint is whole or not there, and what points to it is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from zoo import checkpoint
from zoo.checkpoint import Contents, DiskFull


def contents(step: int, best: int | None = None, **changes: Any) -> Contents:
    held = {"step": best, "metric": 0.5} if best is not None else None
    made: dict[str, Any] = {"model": {"weight": torch.full((2,), float(step))}, "ema": None, "state": {"step": step}}
    return Contents(step=step, progress={"best": held, "step": step}, **made | changes)


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_nothing_yet(tmp_path: Path) -> None:
    assert checkpoint.last(tmp_path) is None and checkpoint.best(tmp_path) is None
    checkpoint.clean(tmp_path)
    assert not list(tmp_path.iterdir())


def test_one(tmp_path: Path) -> None:
    folder = checkpoint.write(tmp_path, contents(7, ema={"weight": torch.ones(3)}), keep=1)
    assert folder == tmp_path / "checkpoints" / "step_000007"
    assert checkpoint.last(tmp_path) == checkpoint.best(tmp_path) == folder
    assert names(tmp_path) == ["last.json", "step_000007"]
    assert load_file(folder / "model.safetensors")["weight"].tolist() == [7, 7]
    assert load_file(folder / "ema.safetensors")["weight"].tolist() == [1, 1, 1]
    assert torch.load(folder / "state.pt", weights_only=True) == {"step": 7}
    assert checkpoint.read_progress(folder)["step"] == 7


def test_the_last_ones_and_the_best_stay(tmp_path: Path) -> None:
    for step in range(1, 8):
        checkpoint.write(tmp_path, contents(step, best=min(step, 3)), keep=2)
    assert names(tmp_path) == ["best.json", "last.json", "step_000003", "step_000006", "step_000007"]
    assert checkpoint.best(tmp_path) == tmp_path / "checkpoints" / "step_000003"
    pointers = [json.loads((tmp_path / "checkpoints" / name).read_text()) for name in ("best.json", "last.json")]
    assert [pointer["folder"] for pointer in pointers] == ["step_000003", "step_000007"]


def test_steps_of_more_than_six_digits_come_last(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000):
        checkpoint.write(tmp_path, contents(step), keep=5)
    last = checkpoint.last(tmp_path)
    assert last is not None and last.name == "step_1000000"


def test_tied_weights_are_written(tmp_path: Path) -> None:
    weight = torch.arange(3.0)
    folder = checkpoint.write(tmp_path, contents(1, model={"a": weight, "b": weight, "c": weight[1:]}), keep=1)
    found = load_file(folder / "model.safetensors")
    assert found["a"].tolist() == found["b"].tolist() == [0, 1, 2] and found["c"].tolist() == [1, 2]


@pytest.mark.parametrize("file", ["model.safetensors", "state.pt", "state.json", "step_000002"])
def test_half_written_ones_are_not_seen_and_go(tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at each point: as if the process had ended there, without any handler."""

    class Killed(BaseException):
        pass

    checkpoint.write(tmp_path, contents(1), keep=5)
    write, replace = checkpoint._write, checkpoint.os.replace

    def dying_write(path: Path, content: bytes) -> None:
        if path.name == file:
            path.write_bytes(content[: len(content) // 2])
            raise Killed
        write(path, content)

    def dying_replace(one: Path, other: Path) -> None:
        if other.name == file:
            raise Killed
        replace(one, other)

    monkeypatch.setattr(checkpoint, "_write", dying_write)
    monkeypatch.setattr(checkpoint.os, "replace", dying_replace)
    with pytest.raises(Killed):
        checkpoint.write(tmp_path, contents(2), keep=5)
    monkeypatch.undo()
    last = checkpoint.last(tmp_path)
    assert last is not None and last.name == "step_000001"
    checkpoint.clean(tmp_path)
    assert names(tmp_path) == ["last.json", "step_000001"]
    checkpoint.write(tmp_path, contents(2), keep=5)
    assert names(tmp_path) == ["last.json", "step_000001", "step_000002"]


def test_killed_before_the_pointers_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new checkpoint is whole, so it counts; `clean` sets the pointers right."""
    checkpoint.write(tmp_path, contents(1, best=1), keep=5)
    monkeypatch.setattr(checkpoint, "_point", lambda run: None)
    checkpoint.write(tmp_path, contents(2, best=2), keep=5)
    monkeypatch.undo()
    assert checkpoint.best(tmp_path) == tmp_path / "checkpoints" / "step_000002"
    assert json.loads((tmp_path / "checkpoints" / "best.json").read_text())["step"] == 1
    checkpoint.clean(tmp_path)
    assert json.loads((tmp_path / "checkpoints" / "best.json").read_text())["step"] == 2


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", r"step_000002 was not written.* 1 checkpoint\(s\), the newest is step_000001.*--resume"),
        ("state.pt", r"step_000002 was not written.* 1 checkpoint\(s\), the newest is step_000001.*--resume"),
        (".last.json.draft", r"last.json was not written.* 2 checkpoint\(s\), the newest is step_000002.*--resume"),
    ],
)
def test_a_full_disk(tmp_path: Path, file: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, contents(1), keep=5)
    write = checkpoint._write

    def full(path: Path, content: bytes) -> None:
        if path.name == file:
            path.write_bytes(content[:5])
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(checkpoint, "_write", full)
    with pytest.raises(DiskFull, match=message):
        checkpoint.write(tmp_path, contents(2), keep=5)
    assert not list((tmp_path / "checkpoints").glob(".*"))
    assert load_file(tmp_path / "checkpoints" / "step_000001" / "model.safetensors")["weight"].tolist() == [1, 1]


def test_other_errors_of_the_disk_pass_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint, "_write", refuse)
    with pytest.raises(PermissionError):
        checkpoint.write(tmp_path, contents(1), keep=1)
    assert names(tmp_path) == []


def test_a_best_one_that_is_gone(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, contents(2, best=1), keep=1)
    with pytest.raises(
        ValueError, match="step_000001: the best checkpoint of this run is gone; the newest one is step_0"
    ):
        checkpoint.best(tmp_path)


@pytest.mark.parametrize("size", [0, 100])
def test_a_damaged_file_is_named(tmp_path: Path, size: int) -> None:
    import torch
    from safetensors.torch import save_file

    torch.save({"a": torch.ones(100)}, tmp_path / "state.pt")
    save_file({"a": torch.ones(100)}, tmp_path / "model.safetensors")
    assert checkpoint.read_state(tmp_path / "state.pt")["a"].sum() == 100
    assert checkpoint.read_weights(tmp_path / "model.safetensors")["a"].sum() == 100
    for name, read in (("state.pt", checkpoint.read_state), ("model.safetensors", checkpoint.read_weights)):
        with (tmp_path / name).open("r+b") as file:
            file.truncate(size)
        with pytest.raises(ValueError, match=rf"{re.escape(str(tmp_path / name))}: is damaged"):
            read(tmp_path / name)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}"])
def test_progress_that_is_gone_or_damaged_names_the_file(tmp_path: Path, text: str | None) -> None:
    folder = checkpoint.write(tmp_path, contents(7), keep=1)
    if text is not None:
        (folder / "state.json").write_text(text)
        with pytest.raises(ValueError, match=r"state\.json: is damaged"):
            checkpoint.read_progress(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors: is gone"):
        checkpoint.read_weights(folder / "model.safetensors")


def test_what_is_left_of_a_checkpoint_is_replaced(tmp_path: Path) -> None:
    (checkpoint.write(tmp_path, contents(7), keep=1) / "state.json").unlink()
    folder = checkpoint.write(tmp_path, contents(7, model={"weight": torch.zeros(2)}), keep=1)
    assert load_file(folder / "model.safetensors")["weight"].tolist() == [0, 0]
    assert names(tmp_path) == ["last.json", "step_000007"]
