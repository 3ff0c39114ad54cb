"""`zoo ocr` as a batch: what is written, what is said, which exit code; with the rules of fakes.py as networks."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import cv2
import pytest
from PIL import Image

from tests.ocr import fakes
from zoo.ocr import job
from zoo.ocr.recipe import Recipe


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("one.png", "rgb"), ("two.png", "grb"), ("blank.png", "")):
        bars = {(60, 50): fakes.bar(text)} if text else {}
        cv2.imwrite(str(tmp_path / name), fakes.picture(200, 400, bars))
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    frames = [Image.fromarray(fakes.picture(200, 400, {(60, 50): fakes.bar(t)})[..., ::-1]) for t in ("rg", "gb")]
    frames[0].save(tmp_path / "pages.tif", save_all=True, append_images=frames[1:])
    return tmp_path


class Standard:
    """Standard output with its buffer, caught."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()

    def isatty(self) -> bool:
        return False


def run(
    monkeypatch: pytest.MonkeyPatch,
    sources: list,
    kind: str,
    out: Path | None = None,
    workers: int = 1,
    draw: bool = False,
) -> tuple[int, str]:
    standard = Standard()
    monkeypatch.setattr(sys, "stdout", standard)
    batch = job.Job(reader=fakes.reader(), recipe=Recipe(workers=workers), kind=kind, out=out, draw=draw)
    return batch.run(sources), standard.buffer.getvalue().decode()


def test_one_picture_to_a_pipe_is_only_its_text(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert run(monkeypatch, [folder / "one.png"], "text") == (0, "rgb\n")


def test_a_blank_picture_writes_nothing_and_is_no_failure(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert run(monkeypatch, [folder / "blank.png"], "text") == (0, "")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_goes_on_and_lists_what_failed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    sources = [folder / name for name in ("one.png", "broken.png", "pages.tif", "two.png")]
    code, text = run(monkeypatch, sources, "text", workers=workers)
    assert code == 1
    assert text == "".join(
        f"==> {folder / name} <==\n{body}"
        for name, body in (("one.png", "rgb\n"), ("pages.tif", "rg\n\fgb\n"), ("two.png", "grb\n"))
    )
    said = capsys.readouterr().err
    assert "1 of 4 failed" in said and "broken.png" in said


def test_json_is_one_object_a_line(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    code, text = run(monkeypatch, [folder / "pages.tif"], "json")
    pages = [json.loads(line) for line in text.splitlines()]
    assert code == 0 and [page["lines"][0]["text"] for page in pages] == ["rg", "gb"]


@pytest.mark.parametrize("kind", job.SUFFIX)
def test_every_format_to_a_folder(monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str) -> None:
    out = folder / "out"
    out.mkdir()
    code, text = run(monkeypatch, [folder / "one.png", folder / "pages.tif"], kind, out)
    assert (code, text) == (0, "")
    assert {path.name for path in out.iterdir()} == {f"one{job.SUFFIX[kind]}", f"pages{job.SUFFIX[kind]}"}
    assert all(path.stat().st_size for path in out.iterdir())


def test_names_that_are_alike_do_not_overwrite_each_other() -> None:
    sources = [Path("a/x.png"), Path("a/x.jpg"), Path("b/x.jpg"), Path("y.jpg"), b"picture"]
    assert list(job.output_names(sources).values()) == ["x.png", "x.jpg", "x.jpg-2", "y", "stdin"]


def test_drawing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    out = folder / "out"
    out.mkdir()
    run(monkeypatch, [folder / "one.png"], "text", out, draw=True)
    drawn = cv2.imread(str(out / "one.ocr.png"))
    assert drawn.shape[0] >= 200 and drawn.shape[1] >= 800  # side by side


def zoo(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "zoo", *arguments], capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ocr"], "Missing argument"),
        (["ocr", "nowhere.png"], "nowhere.png"),
        (["ocr", "-", "other.png"], "standard input"),
        (["ocr", "README.md", "--format", "docx"], "docx"),
        (["ocr", "README.md", "--model", "ppocr9"], "ppocr9"),
        (["ocr", "README.md", "--lang", "klingon"], "klingon"),
        (["ocr", "README.md", "--threads", "0"], "threads"),
        (["ocr", "README.md", "-o", "settings.det.limit=3"], "settings.det.limit"),
        (["ocr", "README.md", "--config", "nowhere.yml"], "nowhere.yml"),
        (["config", "schema", "nothing"], "nothing"),
    ],
)
def test_usage_is_exit_code_2_and_one_message(arguments: list[str], message: str) -> None:
    done = zoo(*arguments, cwd=Path(__file__).resolve().parents[2])
    assert done.returncode == 2, done
    assert done.stdout == "" and message in done.stderr and "Traceback" not in done.stderr
