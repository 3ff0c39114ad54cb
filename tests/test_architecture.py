"""The house rules of the design: who imports whom, what stays free of torch, and what must not exist."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "zoo"
FILES = sorted(ZOO.rglob("*.py"))
DOMAINS = ("classification", "detection", "ocr", "nlp")
# What each domain may import of the others.
BELOW = {
    "ocr": {"detection", "classification", "nlp"},
    "detection": {"classification"},
    "classification": set(),
    "nlp": set(),
}
DOORS = {"cli.py"}  # the console script mounts the domains' commands
FORBIDDEN_NAMES = {"utils", "common", "core", "helpers", "misc"}


def imports(file: Path) -> set[str]:
    """Every module of the project that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name for name in found if name.split(".")[0] == "zoo"}


def domain(file: Path) -> str:
    first = file.relative_to(ZOO).parts[0]
    return first if first in DOMAINS else ""


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 10


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_import_direction(file: Path) -> None:
    own = domain(file)
    for name in imports(file):
        other = name.split(".")[1] if "." in name else ""
        if other not in DOMAINS or other == own or (not own and file.name in DOORS):
            continue
        assert own, f"{file.name} is shared and must not import the domain {name}"
        assert other in BELOW[own], f"{own} must not import {name}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_registry_no_eval(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__"), f"line {node.lineno}: {node.func.id}"
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"line {node.lineno}: star import"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in ("import_module", "register"), f"line {node.lineno}: {node.func.attr}"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno}: bare except"
            assert not (len(node.body) == 1 and isinstance(node.body[0], ast.Pass) and _broad(node.type)), (
                f"line {node.lineno}: swallowed error"
            )
        if isinstance(node, ast.ClassDef):
            assert len(node.bases) <= 2, f"line {node.lineno}: {node.name}"


def _broad(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("Exception", "BaseException")


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_size_and_name(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400
    assert not FORBIDDEN_NAMES & {part.removesuffix(".py") for part in file.relative_to(ROOT).parts}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 40 + _docstring_lines(node), f"{node.name} is long"


def _docstring_lines(node: ast.FunctionDef) -> int:
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or first.lineno) - first.lineno + 1 if is_text else 0


LIGHT = [
    "import zoo",
    "from zoo import ocr",
    "from zoo import ocr, documents, images, runtime, weights, config; import zoo.ocr.pipeline, zoo.ocr.job",
    "import zoo.cli, zoo.ocr.recipe, zoo.ocr.render, zoo.ocr.draw, zoo.ocr.pdf",
]


@pytest.mark.parametrize("line", LIGHT)
def test_light_import(line: str) -> None:
    """No torch, no engine, no transformers: what reads published models stays a small install."""
    heavy = ["torch", "torchvision", "transformers", "timm", "openvino", "onnxruntime", "onnx"]
    code = f"import sys; {line}; bad = [m for m in {heavy!r} if m in sys.modules]; assert not bad, bad"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_shared_reads_no_outside_folder() -> None:
    """Nothing in the package knows the folder of reference data: only tests and benchmarks look for it."""
    for file in FILES:
        assert "../shared" not in file.read_text(encoding="utf-8"), file
