"""`zoo data show ocr`: a contact sheet of labels, as they are or as training changes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from zoo.ocr.data_cli import FORMAT, KIND, PATTERN, ROOT, Kind, usage

if TYPE_CHECKING:
    from zoo.ocr.augment_line import LineAugment
    from zoo.ocr.augment_page import PageAugment
    from zoo.ocr.labels import LineLabels, PageLabels
    from zoo.ocr.show import Shown
    from zoo.ocr.train_recipe import TrainRecipe

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
SAMPLES, EACH = 24, 4  # samples shown by default, and where each change has rows of its own


def show(
    source: Path = typer.Argument(..., help="A label file or folder."),
    out: Path = typer.Option(Path("sheet.jpg"), help="The picture to write."),
    augment: bool = typer.Option(False, "--augment", help="Show them as training changes them."),
    each: bool = typer.Option(False, "--each", help="Show each change alone, a row for each."),
    recipe: Path = typer.Option(None, "--config", "-c", help="A recipe whose changes are meant; default PP-OCR's."),
    override: list[str] = typer.Option([], "-o", help="key=value of the recipe, such as det.augment.fliplr=0."),
    count: int = typer.Option(None, min=1, help=f"Samples; default {SAMPLES}, with --each {EACH}."),
    columns: int = typer.Option(4, min=1, help="Samples in a row."),
    seed: int = typer.Option(0, min=0, help="Other seeds show other samples and other changes."),
    kind: Kind = KIND,
    format: str = FORMAT,
    root: Path = ROOT,
    pattern: str = PATTERN,
) -> None:
    """Show labels as one picture; exit code 1 if any of those chosen could not be shown."""
    from zoo import images
    from zoo.ocr.label_check import Opening

    with usage():
        if out.suffix.lower() not in SUFFIXES:
            raise ValueError(f"--out {out}: give a picture, {', '.join(SUFFIXES)}")
        if augment and each:
            raise ValueError("--augment and --each: give one of them")
        changed = augment or each or recipe is not None
        if override and not changed:
            raise ValueError(f"-o {override[0]}: without --augment, --each or --config nothing is changed")
        opening = Opening(kind=kind.value if kind else None, format=format, root=root, pattern=pattern)
        labels = opening.open(source)
        number = count or (EACH if each else SAMPLES)
        shown = _shown(labels, _recipe(recipe, override) if changed else None, each, number, columns, seed)
        out.write_bytes(images.encode(shown.image, out.suffix))
    typer.echo(f"{out}: {min(number, len(labels)) - len(shown.skipped)} of {len(labels):,} labels", err=True)
    for message in shown.skipped:
        typer.echo(f"  not shown: {message}", err=True)
    raise typer.Exit(1 if shown.skipped else 0)


def _recipe(path: Path | None, overrides: list[str]) -> TrainRecipe:
    from zoo import config
    from zoo.ocr.train_recipe import TrainRecipe

    if path is not None:
        return config.load(TrainRecipe, path, overrides)
    train = {"epochs": 1}
    return config.load(TrainRecipe, None, overrides, defaults={"det": {"train": train}, "rec": {"train": train}})


def _shown(
    labels: LineLabels | PageLabels, recipe: TrainRecipe | None, each: bool, count: int, columns: int, seed: int
) -> Shown:
    from zoo.ocr import show
    from zoo.ocr.labels import LineLabels

    places = show.pick(len(labels), count, seed)
    if isinstance(labels, LineLabels):
        line = None if recipe is None else _line_augment(recipe)
        steps = show.line_steps(line) if each and line is not None else {"": line}
        return show.show_lines(labels, places, steps, columns=columns, seed=seed)
    page = None if recipe is None else _page_augment(recipe)
    pages = show.page_steps(page) if each and page is not None else {"": page}
    return show.show_pages(labels, places, pages, columns=columns, seed=seed)


def _line_augment(recipe: TrainRecipe) -> LineAugment:
    part = recipe.rec or recipe.cls
    if part is None:
        raise ValueError("these are labels of lines, and the recipe trains neither rec nor cls")
    return part.augment


def _page_augment(recipe: TrainRecipe) -> PageAugment:
    if recipe.det is None:
        raise ValueError("these are labels of pages, and the recipe has no det")
    return recipe.det.augment
