"""How good a trained or published network is on labelled data: the exported network, behind the predictor users get.

python tools/evaluate.py runs/plates --task rec
python tools/evaluate.py ppocrv4_mobile_rec --data labels.txt --report out
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import typer

from zoo import config
from zoo.ocr import evaluation
from zoo.ocr.metrics import add_up
from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
from zoo.ocr.report import WorstLines, WorstPages
from zoo.ocr.train_data import Joined, lines, opened, pages
from zoo.ocr.train_recipe import ClsPart, Data, DetPart, RecPart, TrainRecipe
from zoo.ocr.trained import Alone, Part, alone, is_run, part_of
from zoo.run import RECIPE


def evaluate(
    one: Alone, data: Data, *, report: Path | None = None, labels: evaluation.Labels = "turned"
) -> dict[str, float]:
    """The metrics of one network on data.evaluate; labels: of the direction classifier. report: for the worst cases."""
    samples = Joined(opened(data, "evaluate", one.task, pages if one.task == "det" else lines))
    if not len(samples):
        raise ValueError(f"{one.source}: its recipe names no {one.task}.data.evaluate; give labels with --data")
    everything = range(len(samples))
    predictor = one.predictor
    if isinstance(predictor, Detector):
        worst = WorstPages()
        rates = evaluation.page_rates(evaluation.score_pages(predictor, samples, everything, worst))
        if report is not None:
            worst.write(report)
        return rates
    bad = WorstLines()
    total = None
    if isinstance(predictor, Recogniser):
        total = add_up(evaluation.score_lines(predictor, samples, everything, bad))
        rates = total.rates()
    else:
        assert isinstance(predictor, DirectionClassifier)
        rates = evaluation.direction_rates(evaluation.score_directions(predictor, samples, everything, bad, labels))
    if report is not None:
        bad.write(report, total)
    return rates


def part_recipe(run: Path, task: Part) -> DetPart | RecPart | ClsPart:
    """What a run's part was trained by."""
    recipe = config.load(TrainRecipe, part_of(run, task) / RECIPE)
    return cast(DetPart | RecPart | ClsPart, getattr(recipe, task))


def main(
    name: str = typer.Argument(..., help="A run folder, a weight entry, or a reader with --task."),
    data: list[Path] = typer.Option([], help="Labels; default those that the run's recipe evaluates on."),
    root: Path = typer.Option(None, help="Where the labels' picture paths begin."),
    format: str = typer.Option("auto", help="Of the labels."),
    task: str = typer.Option(None, help="det, rec or cls, where there are several."),
    report: Path = typer.Option(None, help="A folder for pictures and tables of the worst cases."),
    engine: str = typer.Option("auto", help="auto, openvino, onnxruntime or torch."),
) -> None:
    """Evaluate a network; prints one line of JSON."""
    try:
        one = alone(name, cast(Part | None, task), engine=engine)  # type: ignore[arg-type]
        labels: evaluation.Labels = "turned"
        given = Data(root=root, format=format, evaluate=tuple(data))  # type: ignore[arg-type]
        if is_run(name):
            trained = part_recipe(Path(name), one.task)
            given = given if data else trained.data
            labels = trained.labels if isinstance(trained, ClsPart) else labels
        elif not data:
            raise ValueError(f"{name}: is published and knows no data; give labels with --data")
        rates = evaluate(one, given, report=report, labels=labels)
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    print(json.dumps({"name": name, "task": one.task, **rates}))


if __name__ == "__main__":
    typer.run(main)
