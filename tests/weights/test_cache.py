"""The cache: where it lies, what proves its files, what happens when they are damaged or wanted by several at once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from filelock import FileLock

from tests.weights.local import Server, entry_of, file_of, reply
from zoo import weights
from zoo.weights import FileSource, UrlSource, Weights, WeightsError, cache

DATA = b"numbers of a network" * 1000

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def entry(tmp_path: Path) -> Weights:
    (tmp_path / "published").write_bytes(DATA)
    return entry_of("e", file_of("a.onnx", DATA, FileSource(path=str(tmp_path / "published"))))


def get(entry: Weights) -> Path:
    return weights.get(entry, progress=False)["a.onnx"]


@pytest.fixture
def no_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> str:
        raise AssertionError(f"{path} was hashed")

    monkeypatch.setattr(cache, "sha256", refused)


def test_no_entries() -> None:
    assert weights.get_all([]) == {}
    assert not weights.home().exists(), "nothing is made before something is wanted"


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: Weights) -> None:
    from platformdirs import user_cache_path

    assert weights.home() == tmp_path / "home"
    assert weights.where(entry) == {"a.onnx": tmp_path / "home" / "weights" / "e" / "a.onnx"}
    monkeypatch.setenv("ZOO_HOME", "~/of mine")
    assert weights.home() == Path.home() / "of mine"
    monkeypatch.delenv("ZOO_HOME")
    assert weights.home() == user_cache_path("zoo", appauthor=False)


def test_a_file_is_fetched_once(tmp_path: Path, entry: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    path = get(entry)
    assert path == weights.where(entry)["a.onnx"]
    assert path.read_bytes() == DATA
    (tmp_path / "published").unlink()
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert get(entry) == path
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.onnx", "a.onnx.stamp"], "no leftovers"


@pytest.mark.usefixtures("no_hashing")
def test_the_stamp_spares_hashing(entry: Weights) -> None:
    get(entry)
    get(entry)


@pytest.mark.parametrize("stamp", [None, "", "{", "[]", '["0", 1, 2]', "null"])
def test_without_a_good_stamp_the_bytes_decide(entry: Weights, stamp: str | None, tmp_path: Path) -> None:
    path = get(entry)
    beside = path.with_name("a.onnx.stamp")
    written = json.loads(beside.read_text())
    beside.unlink() if stamp is None else beside.write_text(stamp)
    (tmp_path / "published").unlink()
    assert get(entry) == path
    assert json.loads(beside.read_text()) == written, "and a good one is written again"


@pytest.mark.parametrize("damage", [DATA[:-1], DATA[:-1] + b"!", b"", DATA + b"more"], ids=len)
def test_a_damaged_file_is_told_and_fetched_again(entry: Weights, damage: bytes) -> None:
    path = get(entry)
    path.write_bytes(damage)
    os.utime(path, ns=(0, 0))  # surely another time than the stamp's
    with pytest.warns(UserWarning, match=r"a\.onnx: is damaged or of another version") as caught:
        assert get(entry).read_bytes() == DATA
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get(entry)


def test_a_damaged_file_is_never_given(entry: Weights, tmp_path: Path) -> None:
    path = get(entry)
    path.write_bytes(DATA[::-1])
    os.utime(path, ns=(0, 0))
    (tmp_path / "published").unlink()
    with pytest.warns(UserWarning, match="is damaged"), pytest.raises(WeightsError, match="No such file"):
        get(entry)


def test_a_stamp_of_another_file_proves_nothing(entry: Weights) -> None:
    """An entry whose file was published anew under the same name."""
    path = get(entry)
    anew = entry_of("e", file_of("a.onnx", DATA[::-1]))
    with pytest.warns(UserWarning, match="of another version"), pytest.raises(WeightsError, match="not here"):
        get(anew)
    assert get(entry) == path


def test_verify_reads_the_bytes(entry: Weights) -> None:
    assert weights.verify(entry) == {"a.onnx": "missing"}
    path = get(entry)
    assert weights.verify(entry) == {"a.onnx": "ok"}
    status = path.stat()
    path.write_bytes(DATA[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the stamp still fits
    assert weights.verify(entry) == {"a.onnx": "damaged"}


def test_a_file_is_written_whole_or_not_at_all(entry: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*paths: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(WeightsError, match=r"No space left on device; set ZOO_HOME"):
        get(entry)
    folder = weights.where(entry)["a.onnx"].parent
    assert list(folder.iterdir()) == []


def test_a_cache_that_may_only_be_read(entry: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    path = get(entry)
    path.with_name("a.onnx.stamp").unlink()

    def refused(path: Path, data: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cache, "write_atomically", refused)
    assert get(entry) == path


def test_a_home_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: Weights) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "file"))
    with pytest.raises(WeightsError, match=r"file: .*; set ZOO_HOME to a folder that can be written"):
        get(entry)


def test_a_lock_that_is_never_given_back(entry: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOCK_SECONDS", 0)
    weights.home().mkdir()
    with (
        FileLock(weights.home() / "fetch.lock"),
        pytest.raises(WeightsError, match=r"another process has held fetch\.lock"),
    ):
        get(entry)


CHILD = """
import sys
from tests.weights.local import entry_of, file_of
from zoo import weights
url, size = sys.argv[1], int(sys.argv[2])
entry = entry_of("e", file_of("a.onnx", b"n" * size, weights.UrlSource(url=url)))
print("ready", flush=True)
sys.stdin.readline()
print(weights.get(entry, progress=False)["a.onnx"])
"""


def test_two_processes_fetch_once() -> None:
    size = 300_000

    def slow(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(0.5)  # long enough for the other to ask as well
        reply(handler, b"n" * size)

    root = Path(__file__).resolve().parents[2]
    with Server(slow) as server:
        command = [sys.executable, "-c", CHILD, server.url, str(size)]
        children = [
            subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.communicate(timeout=60)[0].strip() for child in children]
        assert len(server.requests) == 1
    assert said == [str(weights.home() / "weights" / "e" / "a.onnx")] * 2
    assert Path(said[0]).read_bytes() == b"n" * size


def test_threads_fetch_once() -> None:
    start = threading.Barrier(4)
    with Server(lambda handler: reply(handler, DATA)) as server:
        entry = entry_of("e", file_of("a.onnx", DATA, UrlSource(url=server.url)))

        def one(_: int) -> bytes:
            start.wait()
            return get(entry).read_bytes()

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(one, range(4))) == [DATA] * 4
        assert len(server.requests) == 1


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1])
def test_sha256_of_a_file(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"z" * size)
    assert cache.sha256(tmp_path / "a") == hashlib.sha256(b"z" * size).hexdigest()


def listed(tmp_path: Path, text: bytes, classes: int, spaces: int = 0) -> Weights:
    (tmp_path / "keys").write_bytes(text)
    files = (
        file_of("a.onnx", b"", FileSource(path=os.devnull)),
        file_of("keys", text, FileSource(path=f"{tmp_path}/keys")),
    )
    return entry_of("e", *files, charset="keys", classes=classes, spaces=spaces)


@pytest.mark.parametrize(
    ("text", "spaces", "characters"),
    [
        ("a\nb\n", 0, ("a", "b")),
        ("a\nb", 1, ("a", "b", " ")),
        ("a\n \n", 2, ("a", " ", " ", " ")),
        ("a\r\nb\r\n", 0, ("a", "b")),
        ("\ufeffa\nb\n", 0, ("a", "b")),
        # Characters that str.splitlines() and str.strip() would lose, and one of two code points.
        ("\u3000\n\u2028\n\x85\n🇩🇪\n", 0, ("\u3000", "\u2028", "\x85", "🇩🇪")),
    ],
)
def test_charsets(tmp_path: Path, text: str, spaces: int, characters: tuple[str, ...]) -> None:
    entry = listed(tmp_path, text.encode(), len(characters) + 1, spaces)
    assert weights.charset(entry) == characters


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_charset_of_another_size_is_an_error(tmp_path: Path, classes: int) -> None:
    with pytest.raises(WeightsError, match=f"e: 3 characters for {classes} classes"):
        weights.charset(listed(tmp_path, b"a\nb\nc\n", classes))


def test_no_charset(entry: Weights) -> None:
    with pytest.raises(ValueError, match="e: has no charset; it is a rec network"):
        weights.charset(entry)


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a protocol buffer, by protobuf.dev/programming-guides/encoding."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def model(**metadata: str) -> bytes:
    """An ONNX model with an empty graph (7), one set of operators (8) and that metadata (14)."""
    entries = (field(1, key.encode()) + field(2, text.encode()) for key, text in metadata.items())
    return field(7, b"") + field(8, b"\x10\x0b") + b"".join(field(14, entry) for entry in entries)


def test_a_charset_of_the_metadata(tmp_path: Path) -> None:
    data = model(other="x", character="a\nb\n")
    (tmp_path / "published").write_bytes(data)
    file = file_of("a.onnx", data, FileSource(path=f"{tmp_path}/published"))
    entry = entry_of("e", file, charset="metadata:character", spaces=1, classes=4)
    assert weights.charset(entry) == ("a", "b", " ")
    with pytest.raises(WeightsError, match="has no metadata 'letters'"):
        weights.charset(entry_of("e", file, charset="metadata:letters", spaces=1, classes=4))
