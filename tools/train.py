"""Trains a reader's networks by a recipe.

python tools/train.py -c configs/ocr/ppocrv4.yml --only rec -o rec.data.train=[train.txt] -o rec.data.evaluate=[val.txt]
python tools/train.py --resume runs/ppocrv4
torchrun --nproc-per-node 2 tools/train.py -c ...
"""

from __future__ import annotations

import warnings
from pathlib import Path

import typer

from zoo import checkpoint, config, parallel
from zoo.ocr.train_recipe import TrainRecipe
from zoo.ocr.train_tasks import prepare
from zoo.ocr.trained import PAGE, PARTS, Part, read_page, write_page
from zoo.run import RECIPE, Run
from zoo.training import Outcome, fit


def train(recipe: TrainRecipe, out: Path, *, resume: bool = False) -> dict[Part, Outcome]:
    """Trains each part that the recipe has into out/PART. With `resume` a part goes on where it stopped."""
    outcomes: dict[Part, Outcome] = {}
    for part in PARTS:
        if getattr(recipe, part) is None:
            continue
        folder = out / part
        goes_on = resume and (folder / RECIPE).is_file()
        run = Run.open(folder, recipe.only(part), resume=goes_on)
        has_weights = goes_on and checkpoint.last(folder) is not None
        made = prepare(recipe.only(part), report=out, resume=has_weights)[part]
        if run.writes:
            write_page(folder, made.page)
        outcomes[part] = fit(made.task, getattr(recipe, part).train, run)
        if outcomes[part].stopped == "signal":
            break
    return outcomes


def resumed(folder: Path, overrides: list[str]) -> tuple[TrainRecipe, Path]:
    """The recipe of a run, or of one part of a run, and the folder of the whole. Raises ValueError."""
    if (folder / PAGE).is_file():
        # A part keeps the recipe of itself alone.
        return config.load(TrainRecipe, folder / RECIPE, overrides), _whole(folder)
    if (folder / RECIPE).is_file():
        return config.load(TrainRecipe, folder / RECIPE, overrides), folder
    raise ValueError(f"{folder}: holds no run; give the folder that --out named")


def _whole(part: Path) -> Path:
    task = read_page(part).task
    if part.resolve().name != task:
        raise ValueError(f"{part}: is the {task} part of a run and must be called {task} to go on")
    return part.resolve().parent


def main(
    recipe_file: Path = typer.Option(None, "--config", "-c", help="The recipe, such as configs/ocr/ppocrv4.yml."),
    override: list[str] = typer.Option([], "-o", help="key=value, such as rec.train.optimizer.lr=1e-4."),
    only: str = typer.Option(None, help="One part of the recipe: det, rec or cls."),
    out: Path = typer.Option(None, help="The run's folder; default runs/NAME of the recipe."),
    resume: Path = typer.Option(None, help="A run that stopped, to go on with its own recipe."),
) -> None:
    """Train by a recipe, or go on with a run."""
    warnings.showwarning = _say  # type: ignore[assignment]
    try:
        if resume is not None:
            if recipe_file is not None or out is not None:
                raise ValueError("--resume takes recipe and folder from the run: leave -c and --out out")
            recipe, folder = resumed(resume, override)
        else:
            recipe = config.load(TrainRecipe, recipe_file, override)
            folder = out or Path("runs") / (recipe_file.stem if recipe_file is not None else recipe.model)
        recipe = recipe.only(only) if only is not None else recipe
        if parallel.rank() == 0 and not (folder / RECIPE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            checkpoint.replace_file(folder / RECIPE, as_yaml(recipe))
        outcomes = train(recipe, folder, resume=resume is not None)
    except (ValueError, OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and type(error) is RuntimeError:
            raise  # not one of ours, which say what to do
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    finally:
        parallel.stop()
    if parallel.rank() == 0:
        _report(outcomes, folder)


def as_yaml(recipe: TrainRecipe) -> bytes:
    """The resolved recipe, as the run folder keeps it."""
    import yaml

    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True).encode()


def _say(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: object) -> None:
    """A warning as one line: its place in the code tells the user nothing."""
    if parallel.rank() == 0:
        typer.echo(str(message), err=True)


def _report(outcomes: dict[Part, Outcome], folder: Path) -> None:
    for part, outcome in outcomes.items():
        metrics = " ".join(f"{name} {value:.4f}" for name, value in outcome.metrics.items())
        best = outcome.best
        kept = f"; best {best.name} {best.metric:.4f} at step {best.step}" if best is not None else ""
        print(f"{part}: {outcome.stopped} at step {outcome.step} {metrics}{kept}")
    if all(outcome.stopped != "signal" for outcome in outcomes.values()):
        print(f"read with it: zoo.ocr.load({str(folder)!r})")


if __name__ == "__main__":
    typer.run(main)
