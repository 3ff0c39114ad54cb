"""`zoo weights`: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from typer.testing import CliRunner, Result

from tests.weights.local import entry_of, file_of
from zoo.weights import FileSource, Weights, cli

ROOT = Path(__file__).resolve().parents[2]
TENSORS = save({"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, Weights]:
    """One that can be had, of two files, and one that cannot."""
    paths = [tmp_path / "net.safetensors", tmp_path / "list.txt"]
    paths[0].write_bytes(TENSORS)
    paths[1].write_bytes(b"a\nb\n")
    files = [file_of(path.name, path.read_bytes(), FileSource(path=str(path))) for path in paths]
    lost = file_of("lost.onnx", b"x", FileSource(path=str(tmp_path / "lost.onnx")))
    return {"tiny_rec": entry_of("tiny_rec", *files), "lost_rec": entry_of("lost_rec", lost)}


def zoo(entries: dict[str, Weights], *arguments: str) -> Result:
    return CliRunner().invoke(cli.make(entries), arguments)


def test_list_of_nothing() -> None:
    done = zoo({}, "list", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert zoo({}, "list").exit_code == 0


def test_list(entries: dict[str, Weights]) -> None:
    rows = {row["name"]: row for row in json.loads(zoo(entries, "list", "--json").stdout)}
    assert list(rows) == list(entries) and not rows["tiny_rec"]["here"]
    assert rows["tiny_rec"]["sources"] and rows["tiny_rec"]["task"] == "ocr/rec"
    zoo(entries, "get", "tiny_rec")
    rows = {row["name"]: row["here"] for row in json.loads(zoo(entries, "list", "--json").stdout)}
    assert rows == {"tiny_rec": True, "lost_rec": False}


def test_get_prints_paths(entries: dict[str, Weights], tmp_path: Path) -> None:
    done = zoo(entries, "get", "tiny_rec")
    folder = tmp_path / "home" / "weights" / "tiny_rec"
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [str(folder / "net.safetensors"), str(folder / "list.txt")]
    assert (folder / "net.safetensors").read_bytes() == TENSORS


def test_get_of_what_cannot_be_had(entries: dict[str, Weights]) -> None:
    for arguments in (["lost_rec"], ["--all"]):
        done = zoo(entries, "get", *arguments)
        assert done.exit_code == 1 and done.stdout == ""
        assert "lost_rec: lost.onnx" in done.stderr and "ZOO_WEIGHTS_PATH" in done.stderr


@pytest.mark.parametrize("command", ["get", "verify", "where", "convert"])
def test_a_name_that_is_none(entries: dict[str, Weights], command: str) -> None:
    done = zoo(entries, command, "tiny_rek", *(["out"] if command == "convert" else []))
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.strip() == "tiny_rek: no such entry; did you mean tiny_rec?"
    assert "see zoo weights list" in zoo(entries, "get", "qqqqqq").stderr


def test_usage(entries: dict[str, Weights]) -> None:
    assert "give names of entries, or --all" in zoo(entries, "get").stderr
    for arguments in (["get"], ["where"], ["convert", "tiny_rec"], ["nonsense"], ["list", "--nonsense"]):
        assert zoo(entries, *arguments).exit_code == 2, arguments


def test_where(entries: dict[str, Weights], tmp_path: Path) -> None:
    folder = tmp_path / "home" / "weights" / "tiny_rec"
    before = zoo(entries, "where", "tiny_rec")
    assert before.exit_code == 1 and "not here yet; zoo weights get tiny_rec" in before.stderr
    zoo(entries, "get", "tiny_rec")
    after = zoo(entries, "where", "tiny_rec")
    assert after.exit_code == 0 and after.stderr == ""
    assert before.stdout == after.stdout and str(folder / "net.safetensors") in after.stdout


def test_verify(entries: dict[str, Weights], tmp_path: Path) -> None:
    nothing = zoo(entries, "verify")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert zoo(entries, "verify", "tiny_rec").exit_code == 1  # asked for by name, and missing
    zoo(entries, "get", "tiny_rec")
    good = zoo(entries, "verify")
    assert good.exit_code == 0
    assert good.stdout.splitlines() == ["ok\ttiny_rec\tnet.safetensors", "ok\ttiny_rec\tlist.txt"]
    path = tmp_path / "home" / "weights" / "tiny_rec" / "net.safetensors"
    status = path.stat()
    path.write_bytes(TENSORS[:-1] + b"x")  # of the same size and time: only its bytes tell
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    bad = zoo(entries, "verify", "tiny_rec")
    assert bad.exit_code == 1 and "damaged\ttiny_rec\tnet.safetensors" in bad.stdout
    everything = zoo(entries, "verify", "--all")
    assert everything.exit_code == 1 and "missing\tlost_rec\tlost.onnx" in everything.stdout


def test_convert(entries: dict[str, Weights], tmp_path: Path) -> None:
    for source in ("tiny_rec", str(tmp_path / "net.safetensors")):
        out = tmp_path / "out" / Path(source).stem
        done = zoo(entries, "convert", source, str(out))
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines() == [f"{out}.safetensors", f"{out}.json"]
        assert load_file(f"{out}.safetensors")["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    page = json.loads((tmp_path / "out" / "tiny_rec.json").read_text())
    assert page["licence"] == "Apache-2.0" and page["order"] == ["w"]
    (tmp_path / "bad.onnx").write_bytes(b"rubbish")
    bad = zoo(entries, "convert", str(tmp_path / "bad.onnx"), str(tmp_path / "x"))
    assert bad.exit_code == 1 and "bad.onnx: " in bad.stderr and not list(tmp_path.glob("x*"))


# The console script over the real table


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zoo", "weights", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)


def test_the_console_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = json.loads(run("list", "--json").stdout)
    assert {row["name"] for row in rows} >= {"ppocrv3_mobile_det", "ppocrv4_mobile_rec", "ppocrv5_mobile_rec"}
    assert not any(row["here"] for row in rows)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    done = run("get", "ppocrv4_mobile_det")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("ppocrv4_mobile_det: ch_PP-OCRv4_det_infer.onnx (4")
    assert "pip download" in done.stderr and "rapidocr-onnxruntime==1.4.4" in done.stderr
    assert "Traceback" not in done.stderr
    assert run("where", "ppocrv4_mobile_det").stdout.startswith(str(tmp_path / "home"))


def test_a_pipe_gets_the_whole_table() -> None:
    lines = run("list").stdout.splitlines()
    assert all(line == line.encode("ascii", "ignore").decode() for line in lines)  # no mark of a cut text
    assert any("package AGPL-3.0" in line for line in lines) and max(map(len, lines)) <= 200


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals here")
@pytest.mark.parametrize("columns", [80, 160])
def test_one_line_a_row_in_a_terminal(columns: int) -> None:
    shown = in_terminal(columns)
    entries = json.loads(run("list", "--json").stdout)
    rows = [line for line in shown if line.startswith("pp")]
    assert [row.split()[0] for row in rows] == [entry["name"] for entry in entries]
    assert not any("…" in line for line in shown) and max(map(len, shown)) <= columns


def in_terminal(columns: int) -> list[str]:
    """The lines that `zoo weights list` writes to a terminal of that many columns."""
    import fcntl
    import pty
    import re
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", "weights", "list"],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).split("\r\n")
