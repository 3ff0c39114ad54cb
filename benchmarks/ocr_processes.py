"""Starts workers, keeps all but one asleep, and measures them picture by picture."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ocr_systems import System

WORKER = Path(__file__).with_name("ocr_worker.py")


@dataclass(frozen=True, kw_only=True)
class Startup:
    """Seconds of fresh processes: medians of several. first_result counts from before the import."""

    import_seconds: float
    first_result_seconds: float


@dataclass(kw_only=True)
class Record:
    """What one system did with one set. seconds[p] holds one entry per round for picture p; lines[p] its lines."""

    seconds: list[list[float]]
    lines: list[list[list[Any]]]
    peak_kib: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    def picture_seconds(self) -> list[float]:
        """For each picture the median over the rounds."""
        return [statistics.median(rounds) for rounds in self.seconds]

    def first_seconds(self) -> list[float]:
        """For each picture its first reading: engines that prepare each new shape take longer then."""
        return [rounds[0] for rounds in self.seconds]


class Worker:
    """A running ocr_worker.py. It sleeps (SIGSTOP) except while it is asked something.

    Sleeping matters: idle thread pools (OpenMP, ONNX Runtime) spin for a while after a run, and would take the
    processors from whichever system is measured next.
    """

    def __init__(self, system: System, threads: int, log: Path) -> None:
        self.name = system.name
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                worker_command(system, threads),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=worker_environment(system, threads),
                encoding="utf-8",
            )
        self.ready = self._reply()
        self._process.send_signal(signal.SIGSTOP)

    def read(self, picture: Path) -> dict[str, Any]:
        """The worker's reply for one picture: {"seconds", "lines", "peak_kib"}."""
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps({"picture": str(picture)}) + "\n")
        self._process.stdin.flush()
        reply = self._reply()
        self._process.send_signal(signal.SIGSTOP)
        return reply

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        row = self._process.stdout.readline()
        if not row:
            self._process.wait()
            raise RuntimeError(f"{self.name} ended; the last of {self._log}:\n{_tail(self._log)}")
        reply: dict[str, Any] = json.loads(row)
        return reply


def worker_command(system: System, threads: int) -> list[str]:
    options = json.dumps(system.options)
    return [str(system.python), str(WORKER), "--system", system.system, "--threads", str(threads), "--options", options]


def worker_environment(system: System, threads: int) -> dict[str, str]:
    """This process's environment with every thread pool held to `threads`."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
    return {**os.environ, **dict.fromkeys(names, str(threads)), **system.variables}


def measure_startup(system: System, threads: int, picture: Path, runs: int, log: Path) -> Startup:
    """Medians over `runs` fresh processes, after one that only warms the file cache."""
    command = [*worker_command(system, threads), "--startup", str(picture)]
    replies = []
    for _ in range(runs + 1):
        with log.open("wb") as errors:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, env=worker_environment(system, threads), check=False
            )
        if done.returncode:
            raise RuntimeError(f"{system.name} failed; the last of {log}:\n{_tail(log)}")
        replies.append(json.loads(done.stdout))
    return Startup(
        import_seconds=statistics.median(reply["import_seconds"] for reply in replies[1:]),
        first_result_seconds=statistics.median(reply["first_result_seconds"] for reply in replies[1:]),
    )


def measure(
    systems: Sequence[System], pictures: Sequence[Path], *, threads: int, rounds: int, logs: Path
) -> dict[str, Record]:
    """Each system's record over the pictures, by its name.

    All systems read a picture before anyone sees the next; who begins moves on by one each time. A first reading of
    the first picture is not counted. Workers are fresh, so the peak memory is that of these pictures.
    """
    records: dict[str, Record] = {}
    with contextlib.ExitStack() as stack:
        workers = []
        for system in systems:
            workers.append(
                stack.enter_context(contextlib.closing(Worker(system, threads, logs / f"{system.name}.log")))
            )
        for worker in workers:
            records[worker.name] = Record(
                seconds=[[] for _ in pictures], lines=[[] for _ in pictures], versions=worker.ready["versions"]
            )
            worker.read(pictures[0])
        for turn in range(rounds * len(pictures)):
            index = turn % len(pictures)
            for step in range(len(workers)):
                worker = workers[(turn + step) % len(workers)]
                add(worker.read(pictures[index]), records[worker.name], index)
    return records


def add(reply: dict[str, Any], record: Record, index: int) -> None:
    """Enters one reply for picture `index`."""
    record.seconds[index].append(reply["seconds"])
    record.lines[index] = reply["lines"]
    record.peak_kib = max(record.peak_kib, reply["peak_kib"])


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
