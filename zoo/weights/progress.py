"""What a person sees while bytes come: a bar on standard error, and nothing where it is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Takes the bytes received so far and the bytes in all, None where nobody knows.
Advance = Callable[[int, int | None], None]


def wanted(progress: bool) -> bool:
    """Whether to draw at all: the caller wants it and a person looks."""
    return progress and sys.stderr.isatty()


@contextmanager
def bar(text: str, progress: bool) -> Iterator[Advance]:
    """A bar that is gone when the work is done; it moves to and fro until it is told how many bytes there are."""
    if not wanted(progress):
        yield lambda received, total: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(text, total=None)
        yield lambda received, total: bars.update(task, completed=received, total=total)
