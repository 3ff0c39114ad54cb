"""A batch of pictures and documents: read side by side, written in order, every failure listed, nothing lost."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from zoo.ocr.page import Page
    from zoo.ocr.pipeline import Reader
    from zoo.ocr.recipe import Recipe

SUFFIX = {"text": ".txt", "json": ".json", "md": ".md", "hocr": ".hocr", "pdf": ".pdf"}
Source = Path | bytes


class Result(NamedTuple):
    """What came of one source: the pages read before the error, if there was one."""

    source: Source
    pages: list[Page]
    error: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """How a batch is read and where it goes. kind: a key of SUFFIX. out: a folder, or None for standard output."""

    reader: Reader
    recipe: Recipe
    kind: str
    out: Path | None
    draw: bool

    def run(self, sources: Sequence[Source]) -> int:
        """Reads and writes all of them; 0, or 1 if any failed. Failures are listed on standard error at the end."""
        failures = []
        names = output_names(sources)
        for result in self._progress(self._results(sources), len(sources)):
            error = result.error
            try:
                if result.pages:
                    self._write(result, names[id(result.source)], several=len(sources) > 1)
            except BrokenPipeError:
                raise
            except (ValueError, OSError) as problem:
                error = error or str(problem)
            if error:
                failures.append(error)
        if failures:
            _say(f"{len(failures)} of {len(sources)} failed:")
            for error in failures:
                _say(f"  {error}")
        return 1 if failures else 0

    def _results(self, sources: Sequence[Source]) -> Iterator[Result]:
        """In the order of the sources; at most two a worker are held at once."""
        with ThreadPoolExecutor(self.recipe.workers, thread_name_prefix="reader") as pool:
            running: deque[Future[Result]] = deque()
            try:
                for source in sources:
                    if len(running) >= 2 * self.recipe.workers:
                        yield running.popleft().result()
                    running.append(pool.submit(self._read, source))
                while running:
                    yield running.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, source: Source) -> Result:
        pages: list[Page] = []
        try:
            for page in self.reader.pages(source, pages=self.recipe.pages, dpi=self.recipe.dpi):
                pages.append(page)
        except (ValueError, OSError) as error:
            return Result(source, pages, str(error))
        except MemoryError:
            return Result(source, pages, f"{_name(source)}: not enough memory for this picture")
        return Result(source, pages, "")

    def _progress(self, results: Iterator[Result], total: int) -> Iterator[Result]:
        if not sys.stderr.isatty() or total < 2:
            yield from results
            return
        from rich.console import Console
        from rich.progress import track

        yield from track(results, total=total, description="Reading", console=Console(stderr=True), transient=True)

    def _write(self, result: Result, name: str, *, several: bool) -> None:
        if self.draw:
            self._draw(result.pages, name)
        if self.out is None:
            if several and self.kind in ("text", "md"):
                sys.stdout.buffer.write(f"==> {_name(result.source)} <==\n".encode())
            write(result.pages, self.kind, sys.stdout.buffer, _original(result.source))
            sys.stdout.buffer.flush()
            return
        target = self.out / f"{name}{SUFFIX[self.kind]}"
        part = target.with_name(target.name + ".part")
        with part.open("wb") as file:
            write(result.pages, self.kind, file, _original(result.source))
        part.replace(target)

    def _draw(self, pages: Sequence[Page], name: str) -> None:
        import cv2

        folder = self.out or Path()
        for page in pages:
            number = f"-{page.number}" if len(pages) > 1 else ""
            _, data = cv2.imencode(".png", page.draw())
            target = folder / f"{name}{number}.ocr.png"
            target.write_bytes(data.tobytes())
            _say(f"drawn: {target}")


def write(pages: Sequence[Page], kind: str, file: BinaryIO, original: Path | None) -> None:
    """The pages of one document in one of the formats of SUFFIX."""
    if kind == "text":
        file.write("\f".join(f"{page.text}\n" if page.text else "" for page in pages).encode())
    elif kind == "json":
        file.write("".join(f"{page.to_json()}\n" for page in pages).encode())
    elif kind == "md":
        file.write("\n\n---\n\n".join(page.to_markdown() for page in pages).rstrip("\n").encode() + b"\n")
    elif kind == "hocr":
        from zoo.ocr import render

        file.write(render.hocr(pages).encode())
    else:
        from zoo.ocr import pdf

        file.write(pdf.searchable_pdf(pages, original))


def output_names(sources: Sequence[Source]) -> dict[int, str]:
    """A file name without suffix for each source, by its id: the stem, or the whole name where two stems are alike."""
    stems = [_name(source) if isinstance(source, bytes) else source.stem for source in sources]
    names: dict[int, str] = {}
    taken: set[str] = set()
    for source, stem in zip(sources, stems, strict=True):
        wanted = stem if stems.count(stem) == 1 or isinstance(source, bytes) else source.name
        name, count = wanted, 1
        while name in taken:
            count += 1
            name = f"{wanted}-{count}"
        taken.add(name)
        names[id(source)] = name
    return names


def _original(source: Source) -> Path | None:
    return source if isinstance(source, Path) and source.suffix.lower() == ".pdf" else None


def _name(source: Source) -> str:
    return "stdin" if isinstance(source, bytes) else str(source)


def _say(text: Any) -> None:
    print(text, file=sys.stderr)  # noqa: T201
