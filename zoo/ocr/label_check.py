"""Checks lists of labels: findings by file:line, counts, pictures labelled twice, and cleaned lists. No torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from zoo.ocr import label_places
from zoo.ocr.label_convert import written
from zoo.ocr.label_files import Archive, counted
from zoo.ocr.label_look import BAD, Done, Finding, Looked, Rules, look
from zoo.ocr.labels import LineLabels, PageLabels, open_lines, open_pages

CHUNK = 500  # labels that are looked at in one go
MOST_LISTED = 100_000  # findings of one list that are kept one by one; the others are only counted
MAX_LENGTH = 25  # characters of a line, as PaddleOCR's recipes have it


@dataclass
class ListReport:
    """What was found in one list. counts: of each (kind, done). cleaned: labels that the cleaned list holds.

    findings: at most MOST_LISTED of them. unknown: how often each character outside the charset occurs.
    """

    path: str
    kind: label_places.Kind
    format: str
    pictures: str
    total: int
    cleaned: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[tuple[str, Done]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def bad(self) -> int:
        """Findings for which something was left out or ignored."""
        return sum(count for (_, done), count in self.counts.items() if done in BAD)

    def add(self, finding: Finding) -> None:
        """Counts a finding, and keeps it while there is room."""
        self.counts[finding.kind, finding.done] += 1
        if len(self.findings) < MOST_LISTED:
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "path": self.path,
            "kind": self.kind,
            "format": self.format,
            "pictures": self.pictures,
            "total": self.total,
            "cleaned": self.cleaned,
            "bad": self.bad,
            "counts": [{"kind": k, "done": done, "count": n} for (k, done), n in sorted(self.counts.items())],
            "unknown_characters": dict(self.unknown.most_common()),
            "findings": [finding._asdict() for finding in self.findings],
            "findings_not_listed": sum(self.counts.values()) - len(self.findings),
        }


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How the lists are opened; as `open_lines` and `open_pages` have it. kind: None is told by the content."""

    kind: label_places.Kind | None = None
    format: str = "auto"
    root: Path | None = None
    pattern: str | None = None

    def open(self, path: Path) -> LineLabels | PageLabels:
        """The labels at a path. Raises ValueError."""
        kind = self.kind or ("lines" if self.pattern is not None else None) or self._kind_of_format()
        if (kind or label_places.kind_of(path)) == "lines":
            return open_lines(path, root=self.root, format=self.format, pattern=self.pattern)
        return open_pages(path, root=self.root, format=self.format)

    def _kind_of_format(self) -> label_places.Kind | None:
        lines, pages = self.format in label_places.LINE_FORMATS, self.format in label_places.PAGE_FORMATS
        return None if lines == pages else "lines" if lines else "pages"


@dataclass
class _List:
    """One list while it is checked. spool: the cleaned lines; where[i]: the label of line i there."""

    labels: LineLabels | PageLabels
    report: ListReport
    spool: IO[str]
    where: list[np.ndarray] = field(default_factory=list)
    keys: list[np.ndarray] = field(default_factory=list)


def check(
    paths: Sequence[Path], opening: Opening, rules: Rules, out: Path | None, workers: int = 1
) -> list[ListReport]:
    """Checks the lists at `paths`, each by itself and against those before it.

    rules: for lines without a max_length it is MAX_LENGTH; for pages it is not asked for unless given.
    out: where the cleaned list goes, PaddleOCR's format with paths from its own folder; of several lists a folder. A
    label that another contradicts is left out with it, and one that only repeats another is taken out.
    workers: processes. Raises ValueError for a path that holds no known labels.
    """
    targets = cleaned_paths(paths, out)
    lists = []
    for path, target in zip(paths, targets, strict=True):
        labels = opening.open(path)
        lists.append(_checked(path, labels, rules, target, workers))
    _find_repeated(lists)
    for one, target in zip(lists, targets, strict=True):
        _write_cleaned(one, target)
    return [one.report for one in lists]


def cleaned_paths(paths: Sequence[Path], out: Path | None) -> list[Path | None]:
    """Where the cleaned list of each path goes. Raises ValueError where two would be one file."""
    if out is None:
        return [None] * len(paths)
    if len(paths) == 1:
        targets = [out / f"{paths[0].stem}.txt" if out.is_dir() else out]
    else:
        if out.is_file():
            raise ValueError(f"--out {out}: is a file; several lists need a folder")
        targets = [out / f"{path.stem}.txt" for path in paths]
    for number, target in enumerate(targets):
        if target in targets[:number]:
            raise ValueError(f"--out {out}: two lists would be {target}; check them one by one")
    return list(targets)


def _checked(path: Path, labels: LineLabels | PageLabels, rules: Rules, target: Path | None, workers: int) -> _List:
    is_lines = isinstance(labels, LineLabels)
    if target and len(labels) and target.resolve() == Path(labels.name(0).rpartition(":")[0]).resolve():
        raise ValueError(f"--out {target}: is the list that is checked; give another name")
    if is_lines and rules.max_length is None:
        rules = Rules(max_length=MAX_LENGTH, charset=rules.charset, decode=rules.decode)
    source = labels.sources[0]
    where = str(source.pictures.file) if isinstance(source.pictures, Archive) else str(source.pictures.path("") or path)
    report = ListReport(str(path), "lines" if is_lines else "pages", source.format, where, len(labels))
    spool = TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115  # closed when it is written out
    one = _List(labels, report, spool)
    if not len(labels):
        report.add(Finding(str(path), "empty list", "holds no label", "left out"))
    for kind, message in labels.repaired:
        report.add(Finding(str(path), kind, message, "repaired"))
    index = 0
    folder = (target or path).parent
    for looked in counted(_looked(labels, rules, folder, workers), -(-len(labels) // CHUNK), f"Checking {path.name}"):
        for each in looked:
            for finding in each.findings:
                report.add(finding)
            report.unknown.update(each.unknown)
        good = np.array([bool(each.cleaned) for each in looked], bool)
        one.where.append(index + np.flatnonzero(good))
        one.keys.append(np.array([(each.picture, each.content, each.text) for each in looked], np.uint64))
        spool.writelines(each.cleaned for each in looked)
        index += len(looked)
    return one


def _looked(labels: LineLabels | PageLabels, rules: Rules, folder: Path, workers: int) -> Iterator[list[Looked]]:
    """Chunk by chunk, in order."""
    starts = range(0, len(labels), CHUNK)
    stops = [min(start + CHUNK, len(labels)) for start in starts]
    if workers <= 1:
        for start, stop in zip(starts, stops, strict=True):
            yield look(labels, start, stop, rules, folder)
        return
    with ProcessPoolExecutor(workers, initializer=_receive, initargs=(labels, rules, folder)) as pool:
        yield from pool.map(_look_in_worker, starts, stops)


_work: list[tuple[LineLabels | PageLabels, Rules, Path]] = []  # in a worker: what it looks at, sent to it but once


def _receive(labels: LineLabels | PageLabels, rules: Rules, folder: Path) -> None:
    _work[:] = [(labels, rules, folder)]


def _look_in_worker(start: int, stop: int) -> list[Looked]:
    labels, rules, folder = _work[0]
    return look(labels, start, stop, rules, folder)


@dataclass(frozen=True)
class _All:
    """The labels of all lists. number: of the list; index: in it; keys: uint64 [n, 3] of picture, content and text."""

    number: np.ndarray
    index: np.ndarray
    keys: np.ndarray

    def groups(self, column: int) -> Iterator[np.ndarray]:
        """The labels, in order, of each picture that several have."""
        order = np.argsort(self.keys[:, column], kind="stable")
        order = order[self.keys[order, column] != 0]
        values = self.keys[order, column]
        bounds = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
        for start, stop in pairwise(bounds):
            if stop - start > 1:
                yield order[start:stop]


def _find_repeated(lists: Sequence[_List]) -> None:
    """Pictures that several labels have: the labels contradict each other, repeat each other, or stand in two lists."""
    sizes = [sum(len(keys) for keys in one.keys) for one in lists]
    keys = [keys for one in lists for keys in one.keys]
    if not keys:
        return
    everything = _All(
        np.repeat(np.arange(len(lists)), sizes),
        np.concatenate([np.arange(size) for size in sizes]),
        np.concatenate(keys),
    )
    out: set[int] = set()
    for group in everything.groups(0):
        out |= _repeated(lists, everything, group, "same picture", repeats="repaired")
    for group in everything.groups(1):
        if len(set(everything.keys[group, 0].tolist())) > 1:  # else it was found by its place
            out |= _repeated(lists, everything, group, "same picture under two names", repeats="noted")
    for number, one in enumerate(lists):
        gone = [int(everything.index[i]) for i in out if everything.number[i] == number]
        one.where = [np.where(np.isin(where, gone), -1, where) for where in one.where]


def _repeated(lists: Sequence[_List], labels: _All, group: np.ndarray, kind: str, *, repeats: Done) -> set[int]:
    """Reports a group, and gives those that the cleaned lists go without."""
    names = [lists[labels.number[i]].labels.name(int(labels.index[i])) for i in group]
    if len(set(labels.keys[group, 2].tolist())) > 1:
        for i, name in zip(group, names, strict=True):
            other = names[0] if name != names[0] else names[1]
            lists[labels.number[i]].report.add(Finding(name, f"{kind}, conflicting labels", f"as {other}", "left out"))
        return {int(i) for i in group}
    out = set()
    for i, name in zip(group[1:], names[1:], strict=True):
        report = lists[labels.number[i]].report
        if labels.number[i] != labels.number[group[0]]:
            report.add(Finding(name, f"{kind}, in two lists", f"as {names[0]}", "left out"))
            out.add(int(i))
        else:
            report.add(Finding(name, f"{kind}, same label", f"as {names[0]}", repeats))
            out |= {int(i)} if repeats == "repaired" else set()
    return out


def _write_cleaned(one: _List, target: Path | None) -> None:
    with one.spool as spool:
        kept = np.concatenate([np.empty(0, np.int64), *one.where]) >= 0
        one.report.cleaned = int(kept.sum())
        if target is None:
            return
        spool.seek(0)
        with written(target) as file:
            file.writelines(line for line, good in zip(spool, kept, strict=True) if good)


def save_json(reports: Sequence[ListReport], file: Path) -> None:
    """Writes the reports as one JSON object."""
    with written(file) as target:
        json.dump({"lists": [report.to_json() for report in reports]}, target, ensure_ascii=False, indent=1)
