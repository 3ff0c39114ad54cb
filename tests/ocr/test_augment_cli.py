"""The command that makes synthetic data."""

from __future__ import annotations

from pathlib import Path

import typer
from typer.testing import CliRunner

from zoo.ocr.augment_cli import synth

app = typer.Typer()
app.command()(synth)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_lines_and_pages_are_made(tmp_path: Path) -> None:
    out = str(tmp_path / "made")
    options = (out, "--lines", "2", "--pages", "1", "--lang", "en", "--degrade", "0", "--layout", "labels")
    assert run(*options) == (0, f"{out}: 2 lines and 1 pages; 0 were there already\n")
    assert run(*options) == (0, f"{out}: 2 lines and 1 pages; 3 were there already\n")
    assert len((tmp_path / "made" / "rec_gt.txt").read_text(encoding="utf-8").splitlines()) == 2


def test_mistakes_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    out = str(tmp_path / "made")
    (tmp_path / "empty.txt").write_text("")
    for options, words in [
        ((), "at least one"),
        (("--lines", "1", "--corpus", str(tmp_path / "empty.txt")), "corpus is empty"),
        (("--lines", "1", "--font", str(tmp_path / "none.ttf")), "none.ttf"),
        (("--pages", "1", "--layout", "poem"), "layouts="),
    ]:
        code, output = run(out, *options, "--degrade", "0")
        assert code == 2 and words in output and output.count("\n") == 1, output
