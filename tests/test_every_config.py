"""Every file under configs/ binds; those of trainings build their networks and take two steps on made-up data."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.ocr import small_sets
from zoo import config
from zoo.ocr.recipe import Recipe
from zoo.ocr.train_recipe import TrainRecipe
from zoo.ocr.train_tasks import prepare
from zoo.run import Run
from zoo.training import fit

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "ocr"
TRAININGS = ("plates", "ppocrv3", "ppocrv4", "ppocrv5")
SMALL = {
    "det": ["batch=2", "augment.crop=[64,64]", "augment.scale=[0.5,1]"],
    "rec": ["batch=2", "scales=[[96,48]]", "longest=8"],
    "cls": ["batch=2"],
}


def test_no_file_is_left_out() -> None:
    assert {path.stem for path in CONFIGS.iterdir()} == {*TRAININGS, "reader"}


def test_the_reader_binds() -> None:
    assert config.load(Recipe, CONFIGS / "reader.yml").model == "ppocrv4_mobile"


def overrides(folder: Path, part: str) -> list[str]:
    """Made-up data, small pictures, two steps, a charset of six letters."""
    labels = small_sets.pages(folder) if part == "det" else small_sets.lines(folder)
    common = ["start=scratch", "workers=0", "train.device=cpu", f"data.train=[{labels}]", f"data.evaluate=[{labels}]"]
    common += ["data.format=auto", "train.epochs=null", "train.steps=2", "train.schedule.warmup_epochs=0"]
    common += ["train.log_every=1", *SMALL[part]]
    if part == "rec":
        common.append(f"charset={small_sets.dictionary(folder)}")
    if part == "det":
        common.append("dynamic_shrink=false")  # which needs epochs
    return [f"{part}.{one}" for one in common]


PARTS = [("ppocrv3", "det"), ("ppocrv3", "rec"), ("ppocrv3", "cls"), ("ppocrv4", "det"), ("ppocrv4", "rec")]
PARTS += [("ppocrv5", "rec"), ("plates", "rec")]
# The same networks and losses again.
REPEATED = [("ppocrv4", "cls"), ("ppocrv5", "det"), ("ppocrv5", "cls")]


@pytest.mark.parametrize(("name", "part"), [*PARTS, *(pytest.param(*one, marks=pytest.mark.slow) for one in REPEATED)])
def test_two_steps(name: str, part: str, tmp_path: Path) -> None:
    whole = config.load(TrainRecipe, CONFIGS / f"{name}.yml", overrides(tmp_path, part))
    recipe = whole.only(part)
    made = prepare(recipe, report=tmp_path / "run")
    assert set(made) == {part}
    task = made[part].task
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    outcome = fit(task, getattr(recipe, part).train, Run.open(tmp_path / "run" / part, recipe))
    assert (outcome.step, outcome.stopped) == (2, "finished")
    assert outcome.metrics and all(math.isfinite(value) for value in outcome.metrics.values())
    assert any(not value.equal(before[name]) for name, value in task.model.state_dict().items())


@pytest.mark.parametrize("name", TRAININGS)
def test_published_numbers(name: str) -> None:
    """Learning rates, epochs, batches and decay of PaddleOCR's configurations."""
    recipe = config.load(TrainRecipe, CONFIGS / f"{name}.yml")
    if name == "plates":
        assert recipe.rec is not None and recipe.rec.guide is False
        return
    rates = {"ppocrv3": (500, 1e-3, 5), "ppocrv4": (200, 1e-3, 5), "ppocrv5": (75, 5e-4, 5)}[name]
    assert recipe.rec is not None and recipe.det is not None
    rec, det = recipe.rec.train, recipe.det.train
    assert (rec.epochs, rec.optimizer.lr, rec.schedule.warmup_epochs) == rates
    assert (rec.optimizer.name, rec.optimizer.weight_decay, rec.schedule.kind) == ("adam", 3e-5, "cosine")
    assert (det.epochs, det.optimizer.lr, det.optimizer.weight_decay, recipe.det.batch) == (500, 1e-3, 5e-5, 8)
    assert recipe.det.augment.crop == ((960, 960) if name == "ppocrv3" else (640, 640))
    assert recipe.det.dynamic_shrink is (name != "ppocrv3")
