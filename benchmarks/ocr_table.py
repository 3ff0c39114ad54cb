"""Everything one run of the benchmark measured, its file, and its Markdown."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from ocr_data import LabelledPicture
from ocr_processes import Record, Startup
from ocr_scores import FoundLine, Scores, score
from ocr_systems import PEERS

FILE = "ocr_peers.json"
BEGIN, END = "<!-- ocr_peers.py: begin -->", "<!-- ocr_peers.py: end -->"


@dataclass(kw_only=True)
class SetResults:
    """One set: the pictures' names, and each system's record."""

    pictures: list[str]
    records: dict[str, Record]


@dataclass(kw_only=True)
class Results:
    """One run. titles and startup are by the system's name, sets by the set's."""

    machine: str
    date: str
    command: str
    threads: int
    rounds: int
    titles: dict[str, str]
    startup: dict[str, Startup] = field(default_factory=dict)
    sets: dict[str, SetResults] = field(default_factory=dict)


def save(results: Results, folder: Path) -> None:
    """Writes all of it, with every polygon and text, to `folder`/ocr_peers.json."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(results), ensure_ascii=False)
    (folder / FILE).write_text(text, encoding="utf-8")


def load(folder: Path) -> Results:
    """What `save` wrote."""
    fields = json.loads((folder / FILE).read_text(encoding="utf-8"))
    fields["startup"] = {name: Startup(**startup) for name, startup in fields["startup"].items()}
    fields["sets"] = {
        name: SetResults(
            pictures=part["pictures"],
            records={system: Record(**record) for system, record in part["records"].items()},
        )
        for name, part in fields["sets"].items()
    }
    return Results(**fields)


def score_record(record: Record, pictures: Sequence[LabelledPicture]) -> Scores:
    """Scores of one system on one set; pictures in the record's order."""
    finds = [
        [FoundLine(polygon_xy=np.array(polygon, dtype=np.float64), text=text) for polygon, text, _ in lines]
        for lines in record.lines
    ]
    return score((picture.lines, found) for picture, found in zip(pictures, finds, strict=True))


def markdown(results: Results, scores: Mapping[tuple[str, str], Scores]) -> str:
    """The page: head, the table, the ratios. scores: by (set, system)."""
    return "\n".join([*_head(results), "", *_table(results, scores), "", *_ratios(results, scores), ""])


def write_between_marks(page: Path, text: str) -> None:
    """Puts the text between this script's two marks in a page; appends both if the page has none of them."""
    block = f"{BEGIN}\n{text}{END}\n"
    old = page.read_text(encoding="utf-8") if page.is_file() else "# Benchmarks\n\n"
    if BEGIN in old and END in old:
        before, after = old.split(BEGIN, 1)[0], old.split(END, 1)[1].removeprefix("\n")
        block = before + block + after
    else:
        block = old + block
    page.write_text(block, encoding="utf-8")


def _head(results: Results) -> list[str]:
    versions: dict[str, str] = {}
    for part in results.sets.values():
        for system, record in part.records.items():
            versions[system] = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    return [
        "## OCR beside its peers",
        "",
        f"- machine: {results.machine}",
        f"- date: {results.date}; {results.threads} threads, float32, median of {results.rounds} rounds per picture",
        f"- command: `{results.command}`",
        "- pictures: " + ", ".join(f"{name} {len(part.pictures)}" for name, part in results.sets.items()),
        *(f"- {_name(system)}: {results.titles[system]} ({text})" for system, text in versions.items()),
        "",
        "Every system reads a picture before any sees the next; the others sleep meanwhile. The zoo runs once for each",
        "peer, with the peer's weights and rules:",
        "",
        *(f"- {name}: {peer.rules}" for name, peer in PEERS.items() if name in results.titles),
        "",
        "Times run from the path of the file to the lines, so decoding counts. First reading: an engine that",
        "prepares each new shape takes longer then. Import and first result are of fresh processes; the second holds",
        "import and loading.",
        "Peak memory is of a process that read that set only. `benchmarks/ocr_scores.py` defines the scores.",
    ]


def _table(results: Results, scores: Mapping[tuple[str, str], Scores]) -> list[str]:
    rows = [
        "| set | system | s/picture median | mean | first reading median | peak MiB | import s | first result s "
        "| detection hmean | end-to-end hmean | character error rate |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, part in results.sets.items():
        for system, record in part.records.items():
            seconds = record.picture_seconds()
            startup, marks = results.startup[system], scores[name, system]
            rows.append(
                f"| {name} | {_name(system)} "
                f"| {statistics.median(seconds):.3f} | {statistics.mean(seconds):.3f} "
                f"| {statistics.median(record.first_seconds()):.3f} "
                f"| {record.peak_kib / 1024:.0f} | {startup.import_seconds:.2f} | {startup.first_result_seconds:.2f} "
                f"| {marks.detection_hmean:.4f} | {marks.end_to_end_hmean:.4f} | {marks.character_error_rate:.4f} |"
            )
    return rows


def _ratios(results: Results, scores: Mapping[tuple[str, str], Scores]) -> list[str]:
    rows = [
        "How many times faster the zoo is (seconds of the peer over seconds of the zoo), the zoo's peak memory over",
        "the peer's, and the zoo's scores less the peer's:",
        "",
        "| set | peer | by median | by mean | by first readings | memory | detection | end to end | character errors |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, part in results.sets.items():
        for peer in PEERS:
            if peer in part.records:
                theirs, ours = part.records[peer], part.records[f"zoo-as-{peer}"]
                their_marks, our_marks = scores[name, peer], scores[name, f"zoo-as-{peer}"]
                pairs = [
                    (theirs.picture_seconds(), ours.picture_seconds(), statistics.median),
                    (theirs.picture_seconds(), ours.picture_seconds(), statistics.mean),
                    (theirs.first_seconds(), ours.first_seconds(), statistics.median),
                ]
                ratios = " | ".join(f"{average(slow) / average(fast):.2f}" for slow, fast, average in pairs)
                rows.append(
                    f"| {name} | {peer} | {ratios} | {ours.peak_kib / theirs.peak_kib:.2f} "
                    f"| {our_marks.detection_hmean - their_marks.detection_hmean:+.4f} "
                    f"| {our_marks.end_to_end_hmean - their_marks.end_to_end_hmean:+.4f} "
                    f"| {our_marks.character_error_rate - their_marks.character_error_rate:+.4f} |"
                )
    return rows


def _name(system: str) -> str:
    return system.replace("zoo-as-", "zoo as ")
