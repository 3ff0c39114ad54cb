"""What README and docs say a user can type is typed here."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += [(page.name, body) for body in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]
    return found


def test_there_are_examples() -> None:
    assert len(blocks("python")) >= 3 and len(blocks("sh")) >= 3


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_example(official, page: str, code: str) -> None:
    if 'engine="torch"' in code:
        pytest.importorskip("torch", reason="the example needs the train extra")
    official("ppocrv4_mobile_det", "ppocrv4_mobile_rec", "ppocr_mobile_v2_cls")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def commands() -> list[str]:
    """`zoo` and `python` lines of the shell examples, without those that install or take many minutes."""
    lines = [line.split("#")[0].strip() for _, body in blocks("sh") for line in body.splitlines()]
    return [line for line in lines if "zoo " in line and not line.startswith(("make", "pip"))]


def workplace(folder: Path) -> None:
    """The files that the examples name."""
    from PIL import Image

    sample = Image.open(ROOT / "docs" / "images" / "sample.jpg")
    small = sample.resize((550, 400))
    (folder / "photos").mkdir()
    for name in ("scan.jpg", "photo.jpg", "photos/one.png", "photos/two.jpg"):
        small.save(folder / name)
    small.save(folder / "scan.pdf")
    small.save(folder / "book.pdf", save_all=True, append_images=[small] * 7)
    (folder / "configs").symlink_to(ROOT / "configs")


@pytest.mark.parametrize("line", commands())
def test_shell_example(official, tmp_path: Path, line: str) -> None:
    official("ppocrv4_mobile_det", "ppocrv4_mobile_rec", "ppocr_mobile_v2_cls")
    workplace(tmp_path)
    typed = line.replace("zoo ", f"{shlex.quote(sys.executable)} -m zoo ", 1)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", typed], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
