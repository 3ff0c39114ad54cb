"""One training's folder: the recipe, the machine, the measured values, pictures and checkpoints. No domain, no torch.

recipe.yml, environment.json, metrics.jsonl (one JSON object a line), tensorboard/, pictures/, checkpoints/. Of several
processes the first one alone writes.
"""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import BaseModel

from zoo import checkpoint, images

RECIPE, METRICS, ENVIRONMENT = "recipe.yml", "metrics.jsonl", "environment.json"


class Run:
    """An open run folder; `open` gives one. resumed: whether it goes on from what the folder holds.

    lock: what keeps other processes out of the folder until it is closed.
    """

    def __init__(self, folder: Path, *, resumed: bool, writes: bool, lock: IO[str] | None = None) -> None:
        self.folder = folder
        self.resumed = resumed
        self.writes = writes
        self._lock = lock
        self._metrics: Any = None
        self._board: Any = None
        self._wandb: Any = None

    @classmethod
    def open(
        cls, folder: str | Path, recipe: Mapping[str, Any] | BaseModel | None = None, *, resume: bool = False
    ) -> Run:
        """A new folder, or with `resume` one that holds a run.

        recipe: what recipe.yml is to say; a resumed run keeps its own beside a changed one. Several processes open
        it together. Raises ValueError where the folder holds a run and resume is False, and the other way round, and
        where another training writes into it.
        """
        folder = Path(folder)
        writes = int(os.environ.get("RANK", "0")) == 0
        error, lock = "", None
        if writes:
            try:
                lock = _prepare(folder, recipe, resume)
            except (ValueError, OSError) as problem:
                error = str(problem)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from zoo import parallel

            parallel.start()
            error = parallel.from_first(error)
        if error:
            raise ValueError(error)
        return cls(folder, resumed=resume, writes=writes, lock=lock)

    def begin(self, step: int, *, device: str, wandb: bool = False) -> None:
        """Starts the records after `step`: what a killed process measured past that step is cut off."""
        if not self.writes:
            return
        board = _board_writer()
        self._wandb = _wandb_run(self.folder) if wandb else None
        _cut(self.folder / METRICS, step)
        name = ENVIRONMENT if not self.resumed else f"environment_{step:06d}.json"
        self.write(name, environment(device))
        self._metrics = (self.folder / METRICS).open("a", encoding="utf-8")
        self._board = board(str(self.folder / "tensorboard"), purge_step=step + 1)

    def log(self, kind: str, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """One line of metrics.jsonl, and the same for TensorBoard. kind: "train" or "evaluate"."""
        if not self.writes:
            return
        assert self._metrics is not None, "begin comes before log"
        plain = {name: value if math.isfinite(value) else None for name, value in values.items()}
        line = json.dumps({"kind": kind, "step": step, "epoch": epoch, **plain})
        with checkpoint.room_for(METRICS, self.folder):
            self._metrics.write(line + "\n")
            self._metrics.flush()
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)
        if self._wandb is not None:
            self._wandb.log({f"{kind}/{name}": value for name, value in values.items()}, step=step)

    def picture(self, step: int, name: str, picture: np.ndarray) -> None:
        """pictures/NAME_000123.jpg, of uint8 BGR (H, W, 3)."""
        if not self.writes:
            return
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise ValueError(f"pictures: {name}: came {picture.dtype} {picture.shape}; give uint8 BGR (H, W, 3)")
        folder, file = self.folder / "pictures", f"{name}_{step:06d}.jpg"
        with checkpoint.room_for(file, self.folder):
            folder.mkdir(exist_ok=True)
            checkpoint.replace_file(folder / file, images.encode(picture))
        if self._board is not None:
            self._board.add_image(name, picture[..., ::-1].copy(), step, dataformats="HWC")

    def write(self, name: str, data: Any) -> None:
        """A JSON file in the folder."""
        if not self.writes:
            return
        text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        with checkpoint.room_for(name, self.folder):
            checkpoint.replace_file(self.folder / name, text.encode())

    def close(self) -> None:
        """Ends the records; a run may be opened again with resume."""
        records, self._metrics, self._board = (self._metrics, self._board, self._lock), None, None
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None
        for one in records:
            with checkpoint.room_for("the end of the log", self.folder):
                if one is not None:
                    one.close()


def environment(device: str) -> dict[str, Any]:
    """Where and how a training runs: command line, revision of the working directory, versions, threads, device."""
    import torch

    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "git": _revision(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "packages": {str(one.metadata["Name"]): one.version for one in metadata.distributions()},
    }


def _revision() -> dict[str, Any] | None:
    """The git revision of the working directory and whether it was changed since; None outside of git."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=20)
        status = subprocess.run(
            ["git", "status", "--porcelain"], capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"revision": head.stdout.strip(), "dirty": bool(status.stdout.strip())}


def _prepare(folder: Path, recipe: Mapping[str, Any] | BaseModel | None, resume: bool) -> IO[str]:
    """Makes or checks the folder, locks it, and writes recipe.yml."""
    begun = any((folder / name).exists() for name in (METRICS, checkpoint.FOLDER))
    if resume and not begun and not (folder / RECIPE).exists():
        raise ValueError(f"{folder}: holds no run to go on with; start one without --resume")
    # A recipe alone is what a training left that failed before its first step, such as for a path mistyped.
    if begun and not resume:
        raise ValueError(f"{folder}: holds a run already; go on with it by --resume {folder}, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    checkpoint.clean(folder)
    _keep_recipe(folder, recipe)
    return lock


def _locked(folder: Path) -> IO[str]:
    """A file that this process holds as long as it is open; the system lets go of it however the process ends."""
    lock = (folder / ".lock").open("w")
    if os.name == "nt":
        return lock  # Windows has no fcntl
    import fcntl

    try:
        # lockf, not flock, whose locks loader workers would inherit and hold on to.
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise ValueError(
                f"{folder}: another training writes here now; wait for it, or name another folder"
            ) from None
        # Some network file systems have no locks; the training needs none.
    return lock


def _keep_recipe(folder: Path, recipe: Mapping[str, Any] | BaseModel | None) -> None:
    """Writes recipe.yml; one that was there and says something else stays beside it."""
    text = _yaml(recipe if recipe is not None else {})
    path = folder / RECIPE
    if path.is_file():
        before = path.read_bytes()
        if recipe is None or before == text:
            return
        newest = checkpoint.last(folder)
        step = int(newest.name.partition("_")[2]) if newest is not None else 0
        checkpoint.replace_file(folder / f"recipe_before_{step:06d}.yml", before)
    checkpoint.replace_file(path, text)


def _yaml(recipe: Mapping[str, Any] | BaseModel) -> bytes:
    import yaml

    plain = (
        recipe.model_dump(mode="json") if isinstance(recipe, BaseModel) else json.loads(json.dumps(recipe, default=str))
    )
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).encode()


def _cut(path: Path, step: int) -> None:
    """Keeps the lines up to a step; a last line that was not finished goes as well."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            past = json.loads(line)["step"] > step
        except json.JSONDecodeError:
            past = True
        if not past and line.endswith("\n"):
            kept.append(line)
    checkpoint.replace_file(path, "".join(kept).encode())


def _board_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "training writes for TensorBoard, which is not installed: pip install 'ppzoo[train]'"
        ) from None
    return SummaryWriter


def _wandb_run(folder: Path) -> Any:
    try:
        import wandb
    except ImportError:
        raise ValueError("wandb=true and wandb is not installed: pip install wandb, or leave it out") from None
    # Kept, so that a resumed run goes on in the same chart; of chance, since many a run has a part called rec.
    file = folder / "wandb_id.txt"
    if not file.is_file():
        checkpoint.replace_file(file, secrets.token_hex(8).encode())
    name = "/".join(folder.resolve().parts[-2:])
    return wandb.init(project="zoo", name=name, id=file.read_text().strip(), dir=str(folder), resume="allow")
