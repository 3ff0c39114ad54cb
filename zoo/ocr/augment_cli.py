"""`zoo data synth`: a folder of made lines and pages. To be mounted where `zoo data` is."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import typer


class Language(str, Enum):
    """What the texts are of."""

    en = "en"
    ch = "ch"
    mixed = "mixed"


OUT = typer.Argument(..., help="The folder to fill. What an earlier run with the same settings finished is kept.")


def synth(
    out: Path = OUT,
    lines: int = typer.Option(0, help="Pictures of one line to make; they are listed in rec_gt.txt."),
    pages: int = typer.Option(0, help="Pages to make; lines are listed in Label.txt, words in Words.txt."),
    corpus: Path = typer.Option(None, help="A UTF-8 text file to cut texts from; without it they are made by rule."),
    charset: Path = typer.Option(None, help="A file of one character a line; no other is drawn."),
    lang: Language = typer.Option(Language.mixed, help="Of the texts."),
    font: list[str] = typer.Option([], help="A font, a folder of fonts or file.ttc#2; default those of the system."),
    backgrounds: Path = typer.Option(None, help="A folder of pictures to write on."),
    layout: list[str] = typer.Option([], help="column, columns, form, receipt, table, labels, vertical, rotated."),
    height: int = typer.Option(48, help="Of a line's picture, in pixels."),
    max_length: int = typer.Option(25, help="Characters of a text at most."),
    warp: float = typer.Option(0.3, help="Share of the samples that are tilted."),
    degrade: float = typer.Option(0.3, help="Share of the samples that are made worse, as by folds or stamps."),
    seed: int = typer.Option(0, help="Other seeds give other samples."),
    workers: int = typer.Option(1, help="Processes; the samples are the same for any number."),
) -> None:
    """Make lines and pages of text with exact labels."""
    import sys

    from zoo.ocr.synth import SynthSettings, write
    from zoo.ocr.synth_settings import LAYOUTS

    try:
        settings = SynthSettings(
            seed=seed, lang=lang.value, corpus=corpus, charset=charset, fonts=tuple(font), backgrounds=backgrounds,
            layouts=tuple(layout) or LAYOUTS, height=height, max_length=max_length, warp=warp, degrade=degrade,
        )  # fmt: skip
        made = write(out, settings, lines=lines, pages=pages, workers=workers, progress=sys.stderr.isatty())
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{out}: {made.lines} lines and {made.pages} pages; {made.kept} were there already")
