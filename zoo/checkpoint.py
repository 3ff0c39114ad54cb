"""Checkpoints on disk: whole or not there at all, however the process ends. No torch until one is written.

A run folder holds checkpoints/step_000123/ {model.safetensors, ema.safetensors where a running mean is kept, state.pt,
state.json}, and the pointers last.json and best.json, which are for people: readers go by the folders themselves.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, cast

FOLDER = "checkpoints"
_NAME = re.compile(r"step_(\d+)")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(OSError):
    """There was no room for a checkpoint or a line of the log; what was written before is all there."""

    def __init__(self, what: str, run: Path) -> None:
        """what: was not written. run: the folder."""
        found = [path.name for path in _complete(run)]
        kept = f"{len(found)} checkpoint(s), the newest is {found[-1]}" if found else "no checkpoint yet"
        free = shutil.disk_usage(run).free / 2**20
        self._text = (
            f"the disk is full ({free:.1f} MiB free): {what} was not written. Nothing is lost, there are {kept}. "
            f"Free some space, then go on with: python tools/train.py --resume {run}"
        )
        super().__init__(errno.ENOSPC, self._text)

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What goes into a checkpoint. model, ema: whole tensors on the CPU by name. state: what torch.load reads with
    weights_only. progress: plain values; `best` in it, if not None, has the `step` of the best checkpoint."""

    step: int
    model: Mapping[str, Any]
    ema: Mapping[str, Any] | None
    state: Mapping[str, Any]
    progress: Mapping[str, Any] = field(default_factory=dict)


def last(run: Path) -> Path | None:
    """The newest checkpoint of a run folder; None where there is none."""
    found = _complete(run)
    return found[-1] if found else None


def best(run: Path) -> Path | None:
    """The checkpoint with the best evaluation; the newest one where nothing was evaluated; None where there is none.

    Raises ValueError where the best one is gone.
    """
    newest = last(run)
    if newest is None:
        return None
    held = read_progress(newest)["best"]
    if held is None:
        return newest
    folder = newest.with_name(_name(held["step"]))
    if folder not in _complete(run):
        raise ValueError(f"{folder}: the best checkpoint of this run is gone; the newest one is {newest.name}")
    return folder


def read_weights(path: Path) -> dict[str, Any]:
    """The tensors of a .safetensors file by name. Raises ValueError that names a damaged file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, FileNotFoundError) as error:
        raise ValueError(_damaged(path, error)) from None


def read_state(path: Path) -> dict[str, Any]:
    """What state.pt of a checkpoint holds. Raises ValueError that names a damaged file."""
    import pickle

    import torch

    try:
        return cast(dict[str, Any], torch.load(path, map_location="cpu", weights_only=True))
    except (RuntimeError, EOFError, pickle.UnpicklingError, FileNotFoundError) as error:
        raise ValueError(_damaged(path, error)) from None


def _damaged(path: Path, error: Exception) -> str:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    state = "is gone" if isinstance(error, FileNotFoundError) else f"is damaged ({reason})"
    return f"{path}: {state}; restore it from a copy. With {path.parent} moved away a training goes on from another"


def read_progress(checkpoint: Path) -> dict[str, Any]:
    """How far the training had come at a checkpoint. Raises ValueError that names a damaged file."""
    path = checkpoint / "state.json"
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(_damaged(path, error)) from None
    if not isinstance(held, dict) or "best" not in held:
        raise ValueError(_damaged(path, ValueError("it does not say which checkpoint is the best")))
    return held


def write(run: Path, contents: Contents, *, keep: int) -> Path:
    """Writes a checkpoint, moves the pointers, and removes what is neither among the last `keep` nor the best.

    Raises DiskFull; what was there before is still there.
    """
    folder = run / FOLDER
    final = folder / _name(contents.step)
    draft = folder / f".{final.name}.draft"
    with room_for(final.name, run):
        folder.mkdir(parents=True, exist_ok=True)
        if final not in _complete(run):
            try:
                _write_folder(draft, contents)
            except OSError:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            _make_room(final)
            os.replace(draft, final)
            _sync_folder(folder)
    with room_for("last.json", run):
        _point(run)
    _remove_old(run, keep)
    return final


def clean(run: Path) -> None:
    """Removes what a process left half-written when it was killed, and sets the pointers right."""
    folder = run / FOLDER
    if not folder.is_dir():
        return
    for draft in [*folder.glob(".step_*"), *folder.glob(".*.draft")]:
        if draft.is_dir():
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)
    if last(run) is not None:
        _point(run)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file so that it is either the old one or the whole new one. Raises OSError."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        _write(draft, content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def room_for(what: str, run: Path) -> Iterator[None]:
    """Turns the error of a full disk into DiskFull; what: is being written. Any other error passes as it is."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(what, run) from error
        raise


def _complete(run: Path) -> list[Path]:
    """The checkpoints by step. A folder has its name only when everything in it is on the disk."""
    folder = run / FOLDER
    if not folder.is_dir():
        return []
    named = [(int(found.group(1)), path) for path in folder.iterdir() if (found := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(named) if (path / "state.json").is_file()]


def _name(step: int) -> str:
    return f"step_{step:06d}"


def _write_folder(draft: Path, contents: Contents) -> None:
    import torch
    from safetensors.torch import save

    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    # Clones: tensors that share memory (tied weights) may not stand in one safetensors file.
    _write(draft / "model.safetensors", save({name: value.clone() for name, value in contents.model.items()}))
    if contents.ema is not None:
        _write(draft / "ema.safetensors", save({name: value.clone() for name, value in contents.ema.items()}))
    packed = BytesIO()
    torch.save(dict(contents.state), packed)
    _write(draft / "state.pt", packed.getvalue())
    _write(draft / "state.json", json.dumps(dict(contents.progress), indent=1).encode())
    _sync_folder(draft)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk, as fsync of a file does not."""
    if os.name == "nt":
        return  # Windows opens no folders
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _point(run: Path) -> None:
    """last.json and best.json, as the checkpoints themselves say."""
    newest = last(run)
    assert newest is not None
    held = read_progress(newest)["best"]
    replace_file(run / FOLDER / "last.json", json.dumps({"folder": newest.name}).encode())
    if held is not None:
        text = json.dumps({"folder": _name(held["step"]), **held})
        replace_file(run / FOLDER / "best.json", text.encode())


def _remove_old(run: Path, keep: int) -> None:
    found = _complete(run)
    held = read_progress(found[-1])["best"]
    kept = {path.name for path in found[-keep:]} | ({_name(held["step"])} if held is not None else set())
    for path in found:
        if path.name not in kept:
            _make_room(path)


def _make_room(path: Path) -> None:
    """Removes a checkpoint, or what is left of one, if there is any."""
    if path.exists():
        # Out of its name first: a process killed in between leaves no checkpoint that lacks a file.
        gone = path.with_name(f".{path.name}.gone")
        os.replace(path, gone)
        shutil.rmtree(gone)
