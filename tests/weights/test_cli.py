"""`zoo weights`: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from typer.testing import CliRunner, Result

from tests.weights.local import entry_of, file_of
from zoo import weights
from zoo.weights import FileSource, Weights, cli

ARRAYS = {"w": np.arange(6, dtype="f4").reshape(2, 3)}
DATA = save(ARRAYS)

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, Weights]:
    (tmp_path / "published").write_bytes(DATA)
    source = FileSource(path=str(tmp_path / "published"))
    table = [
        entry_of("good_det", file_of("a.safetensors", DATA, source)),
        entry_of("good_rec", file_of("b.safetensors", DATA, source)),
    ]
    return {entry.name: entry for entry in table}


def run(entries: dict[str, Weights], *arguments: str) -> Result:
    return CliRunner().invoke(cli.make(entries), arguments)


def path_of(entries: dict[str, Weights], name: str) -> str:
    return str(next(iter(weights.where(entries[name]).values())))


def test_no_entries() -> None:
    assert run({}, "list").exit_code == 0
    assert json.loads(run({}, "list", "--json").stdout) == []
    assert run({}, "verify").exit_code == 0
    assert run({}, "get", "--all").exit_code == 0


def test_list(entries: dict[str, Weights]) -> None:
    run(entries, "get", "good_det")
    lines = run(entries, "list").stdout.splitlines()
    assert lines[0].split() == ["name", "task", "format", "MB", "here", "native", "licence"]
    assert [line.split() for line in lines[1:]] == [
        ["good_det", "ocr/rec", "onnx", "0.0", "yes", "-", "Apache-2.0"],
        ["good_rec", "ocr/rec", "onnx", "0.0", "-", "-", "Apache-2.0"],
    ]


def test_list_as_json(entries: dict[str, Weights], tmp_path: Path) -> None:
    rows = json.loads(run(entries, "list", "--json").stdout)
    assert [(row["name"], row["here"]) for row in rows] == [("good_det", False), ("good_rec", False)]
    assert rows[0]["sources"] == [str(tmp_path / "published")]


def test_get_prints_paths_alone(entries: dict[str, Weights]) -> None:
    result = run(entries, "get", "good_rec")
    assert (result.exit_code, result.stdout) == (0, path_of(entries, "good_rec") + "\n")
    assert Path(result.stdout.strip()).read_bytes() == DATA
    assert not Path(path_of(entries, "good_det")).exists()


def test_get_all(entries: dict[str, Weights]) -> None:
    assert run(entries, "get", "--all").stdout.split() == [path_of(entries, name) for name in entries]


def test_get_that_fails(entries: dict[str, Weights], tmp_path: Path) -> None:
    (tmp_path / "published").unlink()
    result = run(entries, "get", "good_det")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "published: No such file" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("get", "good_dett"), "good_dett: no such entry; did you mean good_det?"),
        (("get", "good_det", "x"), "x: no such entry; see zoo weights list"),
        (("get",), "give names of entries, or --all"),
        (("verify", "good_rek"), "did you mean good_rec?"),
        (("where", "good_rek"), "did you mean good_rec?"),
        (("convert", "good_rek", "out"), "did you mean good_rec?"),
        (("where",), "Missing argument"),
        (("convert", "good_rec"), "Missing argument"),
        (("get", "--nonsense"), "No such option"),
        (("nonsense",), "No such command"),
    ],
)
def test_usage(entries: dict[str, Weights], arguments: tuple[str, ...], says: str) -> None:
    result = run(entries, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_where(entries: dict[str, Weights]) -> None:
    result = run(entries, "where", "good_det")
    assert (result.exit_code, result.stdout) == (1, path_of(entries, "good_det") + "\n")
    assert "not here yet; zoo weights get good_det" in result.stderr
    run(entries, "get", "good_det")
    result = run(entries, "where", "good_det")
    assert (result.exit_code, result.stdout, result.stderr) == (0, path_of(entries, "good_det") + "\n", "")


def test_verify(entries: dict[str, Weights]) -> None:
    run(entries, "get", "good_det")
    result = run(entries, "verify")
    assert (result.exit_code, result.stdout) == (0, "ok\tgood_det\ta.safetensors\n")
    for arguments in (("--all",), ("good_det", "good_rec")):
        result = run(entries, "verify", *arguments)
        assert result.exit_code == 1
        assert result.stdout == "ok\tgood_det\ta.safetensors\nmissing\tgood_rec\tb.safetensors\n"
    Path(path_of(entries, "good_det")).write_bytes(DATA[::-1])
    result = run(entries, "verify")
    assert (result.exit_code, result.stdout) == (1, "damaged\tgood_det\ta.safetensors\n")


@pytest.mark.parametrize("source", ["good_det", "path"])
def test_convert(entries: dict[str, Weights], tmp_path: Path, source: str) -> None:
    given = str(tmp_path / "mine.safetensors") if source == "path" else source
    (tmp_path / "mine.safetensors").write_bytes(DATA)
    result = run(entries, "convert", given, str(tmp_path / "new" / "out"))
    assert result.exit_code == 0, result.stderr
    tensors, page = map(Path, result.stdout.split())
    assert (load_file(tensors)["w"] == ARRAYS["w"]).all()
    about = json.loads(page.read_text(encoding="utf-8"))
    assert about["tensors"] == {"w": {"shape": [2, 3], "dtype": "float32"}}
    assert about.get("name") == (None if source == "path" else "good_det")


@pytest.mark.parametrize("name", ["a.onnx", "a.pdparams", "a.pdiparams", "a.pdmodel", "a.safetensors", "a.txt"])
@pytest.mark.parametrize("data", [None, b"", b"rubbish"], ids=["absent", "empty", "rubbish"])
def test_convert_of_what_is_no_file_of_weights(
    entries: dict[str, Weights], tmp_path: Path, name: str, data: bytes | None
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    result = run(entries, "convert", str(path), str(tmp_path / "out"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert str(tmp_path / "a.") in result.stderr
    assert not [name for name in os.listdir(tmp_path) if name.startswith("out")]
