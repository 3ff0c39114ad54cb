"""`zoo data check ocr` and `zoo data convert ocr`: labels are looked at, cleaned, and written in other formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from zoo.ocr.label_check import ListReport

SHOWN = 20  # findings of each kind that are printed unless all are asked for


class Kind(str, Enum):
    """What labels are of."""

    pages = "pages"
    lines = "lines"


class Target(str, Enum):
    """What labels are written as."""

    paddle = "paddle"
    icdar = "icdar"
    label_studio = "label-studio"
    coco = "coco"
    tsv = "tsv"
    zip = "zip"
    lmdb = "lmdb"


ROOT = typer.Option(None, help="The folder or zip that picture paths begin at; default: looked for.")
FORMAT = typer.Option(
    "auto", help="paddle, icdar, sroie, label-studio or coco; of lines paddle, tsv, lmdb or names. Default: told."
)
KIND = typer.Option(None, help="Whether these are labels of pages or of lines; default: told by the content.")
PATTERN = typer.Option(None, help="Texts are in the names of pictures: a regular expression for a name, '(.+)'.")


def check(
    paths: list[Path] = typer.Argument(..., help="Label files or folders; each is also compared with those before it."),
    kind: Kind = KIND,
    format: str = FORMAT,
    root: Path = ROOT,
    pattern: str = PATTERN,
    pictures: bool = typer.Option(False, "--pictures", help="Decode every picture; default: look at its header."),
    max_length: int = typer.Option(
        None, min=1, help="Characters of a text; default 25 for lines, and not asked for pages."
    ),
    charset: Path = typer.Option(None, help="A file with one character a line; texts with others are bad."),
    model: str = typer.Option(None, help="A reader or run folder whose charset is meant, such as ppocrv4_mobile."),
    out: Path = typer.Option(None, help="Where to write the cleaned list; of several lists a folder."),
    json: Path = typer.Option(None, help="Where to write all findings as JSON."),
    everything: bool = typer.Option(False, "--all", help=f"Print every finding, not {SHOWN} of each kind."),
    workers: int = typer.Option(1, min=1, help="Processes."),
) -> None:
    """Check labels for training: exit code 0 if all are good or can be repaired, 1 if any is bad."""
    from zoo.ocr.label_check import Opening, save_json
    from zoo.ocr.label_check import check as check_lists
    from zoo.ocr.label_look import Rules

    with usage():
        opening = Opening(kind=kind.value if kind else None, format=format, root=root, pattern=pattern)
        rules = Rules(max_length=max_length, charset=_charset(charset, model), decode=pictures)
        reports = check_lists(paths, opening, rules, out, workers)
        if json is not None:
            save_json(reports, json)
    for report in reports:
        _print(report, None if everything else SHOWN)
    raise typer.Exit(1 if any(report.bad for report in reports) else 0)


def convert(
    source: Path = typer.Argument(..., help="A label file or folder."),
    out: Path = typer.Argument(..., help="What to write: a file, or a folder for icdar and lmdb."),
    to: Target = typer.Option(..., help="The format to write; tsv, zip and lmdb hold lines only."),
    kind: Kind = KIND,
    format: str = FORMAT,
    root: Path = ROOT,
    pattern: str = PATTERN,
) -> None:
    """Write labels in another format; exit code 1 if any had to be left out."""
    from zoo.ocr.label_check import Opening
    from zoo.ocr.label_convert import convert_lines, convert_pages
    from zoo.ocr.labels import LineLabels

    with usage():
        opening = Opening(kind=kind.value if kind else None, format=format, root=root, pattern=pattern)
        labels = opening.open(source)
        if isinstance(labels, LineLabels):
            done = convert_lines(labels, out, to.value)
        else:
            done = convert_pages(labels, out, to.value)
    typer.echo(f"{done.count} of {len(labels)} labels written to {out}", err=True)
    for message in done.skipped:
        typer.echo(f"  left out: {message}", err=True)
    raise typer.Exit(1 if done.skipped else 0)


@contextmanager
def usage() -> Iterator[None]:
    """A user's mistake becomes its message on standard error and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def _charset(file: Path | None, model: str | None) -> frozenset[str] | None:
    if file is not None and model is not None:
        raise ValueError("--charset and --model: give one of them")
    if file is not None:
        from zoo.ocr.charset import read_dictionary

        return frozenset(read_dictionary(file).charset())
    if model is None:
        return None
    if Path(model).is_dir():
        from zoo.ocr.trained import part_of, read_page

        return frozenset(read_page(part_of(Path(model), "rec")).charset)
    from zoo import weights
    from zoo.ocr.models import READERS, reader_name
    from zoo.ocr.weights import WEIGHTS

    return frozenset(weights.charset(WEIGHTS[READERS[reader_name(model, None)].rec]))


def _print(report: ListReport, most: int | None) -> None:
    """The findings, then the tables of a report."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    shown: dict[tuple[str, str], int] = {}
    for finding in report.findings:
        key = (finding.kind, finding.done)
        shown[key] = shown.get(key, 0) + 1
        if most is None or shown[key] <= most:
            console.print(f"{finding.place}: {finding.kind}: {finding.what} ({finding.done})")
    for (kind, done), count in sorted(report.counts.items()):
        printed = min(shown.get((kind, done), 0), most or count)
        if count > printed:
            console.print(f"{report.path}: {kind}: {count - printed:,} more ({done})")
    where = f"{report.total:,} {report.kind} ({report.format}), pictures in {report.pictures}"
    console.print(f"{report.path}: {where}; {report.cleaned:,} are good or repaired")
    _table("findings", ("finding", "done", "count"), [(*key, count) for key, count in sorted(report.counts.items())])
    if report.unknown:
        rows = [(repr(one), f"U+{ord(one):04X}", n) for one, n in report.unknown.most_common(SHOWN)]
        more = len(report.unknown) - len(rows)
        also = f", and {more} more characters (--json lists all)" if more else ""
        _table(f"outside the charset{also}", ("character", "code", "count"), rows)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(title=Text(title), title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column == "count" else "left")
    for row in rows:
        table.add_row(*(Text(f"{value:,}" if isinstance(value, int) else str(value)) for value in row))
    Console().print(table)
