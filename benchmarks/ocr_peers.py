"""Measures the zoo's OCR beside RapidOCR and PaddleOCR: speed, memory, start-up and accuracy on labelled pictures.

    python benchmarks/ocr_peers.py --out docs/benchmarks.md --dump /tmp/ocr-peers      everything (an hour or more)
    python benchmarks/ocr_peers.py --quick --peers rapidocr-v4                          a look, in a minute or two
    python benchmarks/ocr_peers.py --rescore /tmp/ocr-peers                             the table again, nothing is run

Each peer is installed into a virtual environment of its own (network, first time only); Linux, Python 3.11 or newer.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import sys
import tempfile
from pathlib import Path

import ocr_data
import ocr_table
from ocr_data import LabelledPicture
from ocr_processes import measure, measure_startup
from ocr_scores import Scores
from ocr_systems import PEERS, System, peer_system, zoo_system

VENVS = Path(__file__).resolve().parent / ".venvs"


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=_names, default=list(PEERS), help=f"some of {','.join(PEERS)} (default all)")
    parser.add_argument("--sets", type=_names, default=list(ocr_data.SETS), help=f"some of {','.join(ocr_data.SETS)}")
    parser.add_argument("--pictures", type=int, help="at most so many of each set, evenly spread (default all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="how often each picture is read")
    parser.add_argument("--startups", type=int, default=5, help="fresh processes per system")
    parser.add_argument("--quick", action="store_true", help="3 pictures of each set, 1 round, 1 start-up")
    parser.add_argument("--engine", default="auto", help="the zoo's engine: auto, openvino, onnxruntime")
    parser.add_argument("--out", type=Path, help="a Markdown page to put the table into (default: print it)")
    parser.add_argument("--dump", type=Path, help="folder for every polygon, text and time")
    parser.add_argument("--rescore", type=Path, help="a folder written by --dump: make its table again, run nothing")
    parser.add_argument("--venvs", type=Path, default=VENVS, help="where the peers are installed (default %(default)s)")
    parser.add_argument("--data", type=Path, default=ocr_data.DEFAULT_FOLDER, help="folder of the labelled sets")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.pictures, arguments.rounds, arguments.startups = 3, 1, 1
    for name, allowed in ((arguments.peers, PEERS), (arguments.sets, ocr_data.SETS)):
        for unknown in set(name) - set(allowed):
            parser.error(f"{unknown!r} is not one of {', '.join(allowed)}")
    for option in ("threads", "rounds", "startups"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} {getattr(arguments, option)}: give at least 1")
    if arguments.threads > len(os.sched_getaffinity(0)):
        parser.error(f"--threads {arguments.threads}: this process may use {len(os.sched_getaffinity(0))} processors")
    return arguments


def run(arguments: argparse.Namespace, command: str) -> ocr_table.Results:
    """Installs, starts and measures; writes the dump after each set, so that an end half way loses little."""
    systems = prepare(arguments.peers, arguments.venvs, arguments.engine)
    results = ocr_table.Results(
        machine=machine(),
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        command=command,
        threads=arguments.threads,
        rounds=arguments.rounds,
        titles={system.name: system.title for system in systems},
    )
    sets = {name: labelled(name, arguments.data, arguments.pictures) for name in arguments.sets}
    first = next(iter(sets.values()))[0].path
    with tempfile.TemporaryDirectory() as logs:
        for system in systems:
            _say(f"starting {system.name}")
            log = Path(logs) / f"{system.name}.startup.log"
            results.startup[system.name] = measure_startup(system, arguments.threads, first, arguments.startups, log)
        for name, pictures in sets.items():
            _say(f"reading {name}: {len(pictures)} pictures, {len(systems)} systems, {arguments.rounds} rounds")
            paths = [picture.path for picture in pictures]
            records = measure(systems, paths, threads=arguments.threads, rounds=arguments.rounds, logs=Path(logs))
            names = [str(path.relative_to(arguments.data)) for path in paths]
            results.sets[name] = ocr_table.SetResults(pictures=names, records=records)
            if arguments.dump:
                ocr_table.save(results, arguments.dump)
    return results


def prepare(peers: list[str], venvs: Path, engine: str) -> list[System]:
    """Each peer, followed by the zoo with its rules."""
    venvs.mkdir(parents=True, exist_ok=True)
    (venvs / ".gitignore").write_text("*\n", encoding="utf-8")
    return [system for name in peers for system in (peer_system(name, venvs), zoo_system(name, engine))]


def labelled(name: str, folder: Path, count: int | None) -> list[LabelledPicture]:
    pictures = ocr_data.load(name, folder=folder, pictures=count)
    if not pictures:
        raise ValueError(f"{folder}: no pictures of the set {name!r} in it")
    return pictures


def score_all(results: ocr_table.Results, folder: Path) -> dict[tuple[str, str], Scores]:
    """Scores by (set, system), from the polygons and texts in the results and the labels in the folder."""
    scores = {}
    for name, part in results.sets.items():
        by_name = {str(picture.path.relative_to(folder)): picture for picture in ocr_data.load(name, folder=folder)}
        pictures = [by_name[picture] for picture in part.pictures]
        for system, record in part.records.items():
            scores[name, system] = ocr_table.score_record(record, pictures)
    return scores


def machine() -> str:
    """Processor, its number of usable cores, memory, system and Python, in words. Linux."""
    rows = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((row.split(":", 1)[1].strip() for row in rows if row.startswith("model name")), platform.machine())
    flags = next((row.split(":", 1)[1].split() for row in rows if row.startswith("flags")), [])
    extensions = ", ".join(flag for flag in ("avx2", "avx512f", "avx512_vnni", "amx_bf16") if flag in flags)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{model} ({extensions}), {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def main(argv: list[str]) -> None:
    arguments = parse_arguments(argv)
    command = shlex.join(["python", "benchmarks/ocr_peers.py", *argv])
    results = ocr_table.load(arguments.rescore) if arguments.rescore else run(arguments, command)
    page = ocr_table.markdown(results, score_all(results, arguments.data))
    if arguments.out:
        ocr_table.write_between_marks(arguments.out, page)
    else:
        print(page)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"error: {error}")
