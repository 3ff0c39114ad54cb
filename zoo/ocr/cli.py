"""`zoo ocr`: pictures, folders and documents in; text, JSON, Markdown, hOCR or searchable PDF out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from zoo.ocr.pipeline import Reader
    from zoo.ocr.recipe import Recipe


class ReadByDefault(TyperGroup):
    """`zoo ocr PATH` is `zoo ocr read PATH`; a path that is named like a command is given as ./label."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["read", *args])


class Format(str, Enum):
    """What comes out."""

    text = "text"
    json = "json"
    md = "md"
    hocr = "hocr"
    pdf = "pdf"


def ocr(
    paths: list[str] = typer.Argument(..., help="Pictures, PDFs, folders or globs; - reads one from standard input."),
    model: str = typer.Option(None, help="A reader, such as ppocrv4_mobile (the default) or ppocrv5_mobile."),
    lang: str = typer.Option(None, help="ch (Chinese and English), en, japan or chinese_cht."),
    pages: str = typer.Option(None, help="Pages of a document, such as 1,3-5,7-."),
    dpi: int = typer.Option(None, help="Dots an inch at which a PDF page is drawn."),
    format: Format = typer.Option(Format.text, help="What to write."),
    out: Path = typer.Option(None, help="A folder for one file each; without it everything goes to standard output."),
    draw: bool = typer.Option(False, help="Also write a picture with boxes and text side by side."),
    words: str = typer.Option(None, help="Boxes within each line: word or character."),
    device: str = typer.Option(None, help="cpu; gpu or cuda where there is one."),
    engine: str = typer.Option(None, help="auto, openvino, onnxruntime or torch."),
    precision: str = typer.Option(None, help="f32, or fast: the CPU may choose bf16."),
    threads: int = typer.Option(None, help="Processor threads, default all."),
    workers: int = typer.Option(None, help="Pictures read at once."),
    config: Path = typer.Option(None, help="A YAML recipe; `zoo config schema` describes it."),
    override: list[str] = typer.Option([], "-o", help="key=value for the recipe, such as settings.det.box_thresh=0.5."),
) -> None:
    """Read the text of pictures, folders and documents; `zoo ocr label DIR` labels a folder for training instead."""
    given = {
        "model": model, "lang": lang, "pages": pages, "dpi": dpi, "settings.words": words, "device": device,
        "engine": engine, "precision": precision, "threads": threads, "workers": workers,
    }  # fmt: skip
    with _usage():
        recipe = _recipe(config, override, given)
        sources = _sources(paths)
        _check_output(format, out, sources)
    with _usage(code=1):
        reader = _reader(recipe)
    from zoo.ocr.job import Job

    raise typer.Exit(Job(reader=reader, recipe=recipe, kind=format.value, out=out, draw=draw).run(sources))


def label(
    folder: Path = typer.Argument(..., help="A folder of pictures; Label.txt and its companions are written into it."),
    crops: bool = typer.Option(False, "--crops", help="Also cut every labelled line out: crop_img and rec_gt.txt."),
    confirmed: bool = typer.Option(False, "--confirmed", help="Mark the labels as seen by a person."),
    model: str = typer.Option(None, help="A reader, such as ppocrv4_mobile (the default) or ppocrv5_mobile."),
    lang: str = typer.Option(None, help="ch (Chinese and English), en, japan or chinese_cht."),
    device: str = typer.Option(None, help="cpu; gpu or cuda where there is one."),
    engine: str = typer.Option(None, help="auto, openvino, onnxruntime or torch."),
    precision: str = typer.Option(None, help="f32, or fast: the CPU may choose bf16."),
    threads: int = typer.Option(None, help="Processor threads, default all."),
    config: Path = typer.Option(None, help="A YAML recipe; `zoo config schema` describes it."),
    override: list[str] = typer.Option([], "-o", help="key=value for the recipe, such as settings.det.box_thresh=0.5."),
) -> None:
    """Label a folder with what is read, for PPOCRLabel to correct; pictures that have labels keep them."""
    from zoo.ocr import prelabel

    given = {
        "model": model, "lang": lang, "device": device, "engine": engine, "precision": precision, "threads": threads,
    }  # fmt: skip
    with _usage():
        if not folder.is_dir():
            raise ValueError(f"{folder}: is no folder; give the folder of the pictures")
        recipe = _recipe(config, override, given)
    with _usage(code=1):
        done = prelabel.prelabel(folder, _reader(recipe), confirmed=confirmed)
        typer.echo(f"{done.new} labelled, {done.before} had labels before: {folder / prelabel.LABELS}", err=True)
        skipped = list(done.skipped)
        if crops:
            cuts = prelabel.crops(folder)
            typer.echo(f"{cuts.new} lines cut out: {folder / prelabel.CROP_LABELS}", err=True)
            skipped += cuts.skipped
    for message in skipped:
        typer.echo(f"  left out: {message}", err=True)
    raise typer.Exit(1 if skipped else 0)


@contextmanager
def _usage(code: int = 2) -> Iterator[None]:
    """A user's mistake becomes its message on standard error and an exit code."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code) from None


def _recipe(config: Path | None, overrides: list[str], given: dict[str, Any]) -> Recipe:
    from zoo import config as configs
    from zoo.ocr.models import READERS, reader_name
    from zoo.ocr.recipe import Recipe

    # As JSON, which YAML reads back: "7" stays a text and 7 a number.
    options = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    recipe = configs.load(Recipe, config, [*overrides, *options])
    if recipe.settings is None:
        return recipe
    # Settings left out are those the model was published with, not those of the class.
    published = asdict(READERS[reader_name(recipe.model, recipe.lang)].settings)
    return configs.load(Recipe, config, [*overrides, *options], defaults={"settings": published})


def _sources(paths: list[str]) -> list[Path | bytes]:
    from zoo import documents

    if "-" in paths:
        if len(paths) > 1:
            raise ValueError("-: standard input holds one picture; give no other path with it")
        return [sys.stdin.buffer.read()]
    return list(documents.files(paths))


def _check_output(kind: Format, out: Path | None, sources: list[Path | bytes]) -> None:
    if out is None and kind in (Format.hocr, Format.pdf) and len(sources) > 1:
        raise ValueError(f"--format {kind.value}: several files do not fit into one; give --out DIR")
    if out is None and kind is Format.pdf and sys.stdout.isatty():
        raise ValueError("--format pdf: give --out DIR, or send standard output to a file")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)


def _reader(recipe: Recipe) -> Reader:
    from zoo.ocr.models import DEFAULT, load

    return load(
        recipe.model or DEFAULT if recipe.lang is None else recipe.model,
        lang=recipe.lang,
        settings=recipe.settings,
        threads=recipe.threads,
        engine=recipe.engine,
        precision=recipe.precision,
        device=recipe.device,
        workers=recipe.workers,
    )
