"""A run's folder: what it says, who may open it, and what a resumed run keeps."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zoo import checkpoint, images
from zoo.run import Run
from zoo.train_settings import Train


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def begun(folder: Path, step: int = 0, *, resume: bool = False, recipe: Any = None, wandb: bool = False) -> Run:
    run = Run.open(folder, recipe, resume=resume)
    run.begin(step, device="cpu", wandb=wandb)
    return run


def test_the_files(tmp_path: Path) -> None:
    run = begun(tmp_path / "a" / "run", recipe=Train(epochs=3, recompute=("neck",)))
    run.log("train", 1, 0, {"loss": 0.5, "norm": float("inf")})
    run.log("evaluate", 1, 0, {"accuracy": 1.0})
    run.picture(1, "inputs", np.full((4, 6, 3), (0, 0, 255), np.uint8))
    run.close()
    recipe = yaml.safe_load((run.folder / "recipe.yml").read_text())
    assert (recipe["epochs"], recipe["recompute"], recipe["optimizer"]["lr"]) == (3, ["neck"], 1e-3)
    assert metrics(run.folder) == [
        {"kind": "train", "step": 1, "epoch": 0, "loss": 0.5, "norm": None},
        {"kind": "evaluate", "step": 1, "epoch": 0, "accuracy": 1.0},
    ]
    facts = json.loads((run.folder / "environment.json").read_text())
    assert facts["python"].split(".") == [str(part) for part in sys.version_info[:3]]
    assert facts["packages"]["torch"] and facts["command"] and facts["threads"] >= 1
    picture = images.decode(run.folder / "pictures" / "inputs_000001.jpg")
    assert picture.shape == (4, 6, 3) and picture[2, 3].argmax() == 2
    board = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in board.Scalars("train/loss")] == [(1, 0.5)]


def test_a_folder_that_holds_a_run(tmp_path: Path) -> None:
    begun(tmp_path, recipe={"a": 1}).close()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"holds a run already; go on with it by --resume .*, or name another folder"):
        Run.open(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_folder_with_other_files_may_become_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    begun(tmp_path).close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_to_resume(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path if exists else tmp_path / "absent"
    with pytest.raises(ValueError, match="holds no run to go on with"):
        Run.open(folder, resume=True)
    assert not (tmp_path / "absent").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file"):
        Run.open(tmp_path / "file" / "run")


def test_resume_cuts_the_log_and_keeps_the_recipes(tmp_path: Path) -> None:
    run = begun(tmp_path, recipe={"lr": 1})
    for step in (1, 2, 3, 4):
        run.log("train", step, 0, {"loss": float(step)})
    run.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 5, "lo')  # killed while writing
    checkpoint.write(
        tmp_path, checkpoint.Contents(step=2, model={}, ema=None, state={}, progress={"best": None}), keep=1
    )
    again = begun(tmp_path, 2, resume=True, recipe={"lr": 2})
    again.log("train", 3, 0, {"loss": 9.0})
    again.close()
    assert [(line["step"], line["loss"]) for line in metrics(tmp_path)] == [(1, 1.0), (2, 2.0), (3, 9.0)]
    assert yaml.safe_load((tmp_path / "recipe.yml").read_text()) == {"lr": 2}
    assert yaml.safe_load((tmp_path / "recipe_before_000002.yml").read_text()) == {"lr": 1}
    assert (tmp_path / "environment.json").is_file() and (tmp_path / "environment_000002.json").is_file()
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in board.Scalars("train/loss")] == [(1, 1.0), (2, 2.0), (3, 9.0)]


def test_resume_without_a_recipe_keeps_it(tmp_path: Path) -> None:
    begun(tmp_path, recipe={"lr": 1}).close()
    begun(tmp_path, resume=True).close()
    assert yaml.safe_load((tmp_path / "recipe.yml").read_text()) == {"lr": 1}
    assert not list(tmp_path.glob("recipe_before*"))


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", resumed=False, writes=False)
    run.begin(0, device="cpu")
    run.log("train", 1, 0, {"loss": 1.0})
    run.picture(1, "inputs", np.zeros((2, 2, 3), np.uint8))
    run.write("facts.json", {})
    run.close()
    assert not (tmp_path / "run").exists()


def test_pictures_of_another_kind(tmp_path: Path) -> None:
    run = begun(tmp_path)
    with pytest.raises(ValueError, match=r"inputs: came float32 \(2, 2, 3\); give uint8 BGR"):
        run.picture(1, "inputs", np.zeros((2, 2, 3), np.float32))


def test_a_full_disk_says_what_is_kept(tmp_path: Path) -> None:
    class Full:
        def write(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    run = begun(tmp_path)
    run._metrics = Full()
    with pytest.raises(checkpoint.DiskFull, match=r"metrics.jsonl was not written.*no checkpoint yet.*--resume"):
        run.log("train", 1, 0, {"loss": 1.0})


def test_wandb_only_where_it_is_asked_for_and_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    with pytest.raises(ValueError, match="wandb is not installed: pip install wandb"):
        begun(tmp_path / "one", wandb=True)
    begun(tmp_path / "two").close()
    said: list[Any] = []
    ids: list[str] = []

    def init(project: str, name: str, id: str, dir: str, resume: str) -> types.SimpleNamespace:
        ids.append(id)
        return types.SimpleNamespace(
            log=lambda values, step: said.append((name, values, step)), finish=lambda: said.append("finish")
        )

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    run = begun(tmp_path / "three", wandb=True)
    run.log("train", 4, 0, {"loss": 1.0})
    run.close()
    again = begun(tmp_path / "three", 4, wandb=True, resume=True)
    begun(tmp_path / "other" / "three", wandb=True).close()
    again.close()
    name = f"{tmp_path.name}/three"
    assert [one for one in said if one != "finish"] == [(name, {"train/loss": 1.0}, 4)]
    assert ids[0] == ids[1] and ids[0] != ids[2], "one chart for a run that goes on, another for another run"


def test_two_trainings_do_not_write_into_one_folder(tmp_path: Path) -> None:
    run = Run.open(tmp_path / "run", recipe={})
    code = "import sys; from zoo.run import Run; Run.open(sys.argv[1], recipe={}, resume=True)"
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    other = subprocess.run(command, cwd=Path(__file__).resolve().parents[1], capture_output=True, text=True)
    assert other.returncode == 1 and "another training writes here now" in other.stderr
    run.close()
    again = subprocess.run(command, cwd=Path(__file__).resolve().parents[1], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
