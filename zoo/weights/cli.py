"""`zoo weights`: list, get, verify, where, convert. The console script hands in the entries of all domains."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from zoo.weights import cache
from zoo.weights.entry import Weights


def make(entries: Mapping[str, Weights]) -> typer.Typer:
    """The command group over a table of entries."""
    app = typer.Typer(no_args_is_help=True, help="Published weights: list, get, verify, where, convert.")
    for command in (_list, _get, _verify, _where, _convert):
        command(app, entries)
    return app


def _list(app: typer.Typer, entries: Mapping[str, Weights]) -> None:
    @app.command("list")
    def command(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
        """List every entry: size, licence, whether it is here."""
        rows = [_row(entry) for entry in entries.values()]
        if as_json:
            typer.echo(json.dumps(rows, indent=1))
        else:
            _table(rows)


def _get(app: typer.Typer, entries: Mapping[str, Weights]) -> None:
    @app.command("get")
    def command(
        names: list[str] = typer.Argument(None, help="Entries by name."),
        everything: bool = typer.Option(False, "--all", help="All entries."),
    ) -> None:
        """Fetch entries and print where their files lie."""
        with _errors():
            chosen = _chosen(entries, names, everything)
        with _errors(1):
            for files in cache.get_all(chosen).values():
                for path in files.values():
                    typer.echo(path)


def _verify(app: typer.Typer, entries: Mapping[str, Weights]) -> None:
    @app.command("verify")
    def command(
        names: list[str] = typer.Argument(None, help="Entries by name; without any, those that are here."),
        everything: bool = typer.Option(False, "--all", help="All entries, also those that are not here."),
    ) -> None:
        """Hash the cached files again; exit code 1 if one is damaged or missing."""
        with _errors():
            chosen = _chosen(entries, names, everything or not names)
        bad = False
        for entry in chosen:
            states = cache.verify(entry)
            if not (names or everything) and set(states.values()) == {"missing"}:
                continue
            for name, state in states.items():
                typer.echo(f"{state}\t{entry.name}\t{name}")
                bad |= state != "ok"
        raise typer.Exit(1 if bad else 0)


def _where(app: typer.Typer, entries: Mapping[str, Weights]) -> None:
    @app.command("where")
    def command(name: str = typer.Argument(help="An entry by name.")) -> None:
        """Print where the files of an entry lie; exit code 1 if they are not there yet."""
        with _errors():
            (entry,) = _chosen(entries, [name], False)
        paths = cache.where(entry).values()
        for path in paths:
            typer.echo(path)
        if not all(path.is_file() for path in paths):
            typer.echo(f"{name}: not here yet; zoo weights get {name}", err=True)
            raise typer.Exit(1)


def _convert(app: typer.Typer, entries: Mapping[str, Weights]) -> None:
    @app.command("convert")
    def command(
        source: str = typer.Argument(help="An entry by name, or an ONNX, Paddle or safetensors file."),
        out: Path = typer.Argument(help="Where to write, without suffix."),
    ) -> None:
        """Write OUT.safetensors and OUT.json."""
        from zoo.weights import convert

        if source not in entries and not Path(source).suffix:
            with _errors():
                _chosen(entries, [source], False)
        with _errors(1):
            entry = entries.get(source)
            path = cache.get(entry)[entry.files[0].name] if entry else Path(source)
            for written in convert.convert(path, out, entry):
                typer.echo(written)


@contextmanager
def _errors(code: int = 2) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code) from None


def _chosen(entries: Mapping[str, Weights], names: list[str] | None, everything: bool) -> list[Weights]:
    import difflib

    if everything:
        return list(entries.values())
    if not names:
        raise ValueError("give names of entries, or --all; zoo weights list shows them")
    for name in names:
        if name not in entries:
            close = difflib.get_close_matches(name, entries, 1)
            raise ValueError(
                f"{name}: no such entry; {f'did you mean {close[0]}?' if close else 'see zoo weights list'}"
            )
    return [entries[name] for name in names]


def _row(entry: Weights) -> dict[str, object]:
    return {
        "name": entry.name,
        "task": f"{entry.domain}/{entry.task}",
        "format": entry.format,
        "native": bool(entry.converter),
        "megabytes": round(sum(file.bytes for file in entry.files) / 1e6, 1),
        "here": all(path.is_file() for path in cache.where(entry).values()),
        "licence": entry.licence,
        "sources": [str(source) for source in entry.files[0].sources],
        "reference": entry.reference,
    }


def _table(rows: list[dict[str, object]]) -> None:
    """One line a row in a terminal of 80 columns: a licence that has more to say is marked and told below."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("name", "task", "format", "MB", "here", "native", "licence"):
        table.add_column(column, justify="right" if column == "MB" else "left", no_wrap=True)
    notes: dict[str, str] = {}
    for row in rows:
        marks = ["yes" if row[key] else "-" for key in ("here", "native")]
        licence, _, more = str(row["licence"]).partition(" (")
        if more:
            licence += " " + notes.setdefault(str(row["licence"]), "*" * (len(notes) + 1))
        cells = (row["name"], row["task"], row["format"], row["megabytes"], *marks, licence)
        table.add_row(*map(str, cells))
    # A pipe has no width of its own; nothing is cut short there.
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    for licence, mark in notes.items():
        console.print(f"{mark} {licence}", highlight=False)
