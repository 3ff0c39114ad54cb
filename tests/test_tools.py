"""tools/train.py, evaluate.py and predict.py: a run, going on with it, and the exported network that it becomes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from tests.ocr import small_sets
from zoo.ocr import trained
from zoo.ocr.predict import Recogniser

ROOT = Path(__file__).resolve().parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(name: str, *arguments: str):
    """The tool as a command."""
    import typer

    app = typer.Typer()
    app.command()(tool(name).main)
    return CliRunner().invoke(app, list(arguments))


def recipe(folder: Path) -> Path:
    """A training of the v3 recogniser of six letters from nothing."""
    labels, letters = small_sets.lines(folder), small_sets.dictionary(folder)
    path = folder / "small.yml"
    path.write_text(
        f"""model: ppocrv3_mobile
rec:
  start: scratch
  charset: {letters}
  guide: false
  batch: 4
  workers: 0
  longest: 8
  scales: [[96, 48]]
  augment: {{ tia: 0, perspective: 0, crop: 0, invert: 0, concat: 0 }}
  data: {{ train: [{labels}], evaluate: [{labels}] }}
  train:
    epochs: 2
    device: cpu
    optimizer: {{ name: adam, lr: 0.001 }}
""",
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two epochs."""
    folder = tmp_path_factory.mktemp("trained")
    done = call("train", "-c", str(recipe(folder)), "--out", str(folder / "run"))
    assert done.exit_code == 0, done.output
    assert "rec: finished at step 4" in done.output
    return folder / "run"


def test_the_run_folder_says_what_it_is(run: Path) -> None:
    assert trained.is_run(run) and trained.is_run(run / "rec")
    assert not trained.is_run(run.parent)
    page = trained.read_page(run / "rec")
    assert (page.task, page.network, page.charset) == ("rec", "ppocrv3_mobile_rec", (*"abcdef", " "))
    assert trained.parts_of(run) == {"rec": run / "rec"}
    assert (run / "recipe.yml").is_file() and (run / "rec" / "recipe.yml").is_file()
    assert list((run / "rec" / "worst").glob("worst_000.*"))


def test_a_run_is_not_begun_over(run: Path) -> None:
    done = call("train", "-c", str(run.parent / "small.yml"), "--out", str(run))
    assert done.exit_code == 1
    assert "holds a run already" in done.output


@pytest.mark.parametrize("part", [pytest.param(False, marks=pytest.mark.slow), True])
def test_going_on(run: Path, tmp_path: Path, part: bool) -> None:
    """A copy of the run goes on for two epochs more, named as a whole or by its part."""
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    folder = tmp_path / "copy" / "rec" if part else tmp_path / "copy"
    done = call("train", "--resume", str(folder), "-o", "rec.train.epochs=4")
    assert done.exit_code == 0, done.output
    assert "rec: finished at step 8" in done.output
    measured = (tmp_path / "copy" / "rec" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["epoch"] for line in measured if json.loads(line)["kind"] == "evaluate"] == [1, 2, 3, 4]


def test_the_exported_network_scores_as_the_training_said(run: Path) -> None:
    """The same resizing and decoding, so the same metrics to the digits shown; nothing of the recipe is repeated."""
    done = call("evaluate", str(run))
    assert done.exit_code == 0, done.output
    told = json.loads(done.output.splitlines()[-1])
    lines = (run / "rec" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    said = {values["step"]: values for values in map(json.loads, lines) if values["kind"] == "evaluate"}
    best = trained.weights_of(run / "rec").parent
    wanted = said[int(best.name.removeprefix("step_"))]
    for name in ("exact", "exact_dense", "exact_alphanumeric", "ned", "cer"):
        assert f"{told[name]:.6f}" == f"{wanted[name]:.6f}", name


def test_the_bundle_is_made_once_and_right(run: Path) -> None:
    made = trained.bundle(run / "rec")
    assert made.error < 1e-4
    assert made.metrics["cer"] >= 0
    before = made.network.stat().st_mtime_ns
    assert trained.bundle(run / "rec").network.stat().st_mtime_ns == before
    facts = json.loads((made.folder / "bundle.json").read_text(encoding="utf-8"))
    assert facts["checkpoint"]["file"].startswith("checkpoints/step_")
    assert facts["charset"] == [*"abcdef", " "]


def test_engines_agree_on_a_line(run: Path) -> None:
    line = small_sets.word("bad")
    texts = []
    for engine in ("onnxruntime", "torch"):
        reader = trained.alone(str(run), engine=engine).predictor  # type: ignore[arg-type]
        assert isinstance(reader, Recogniser)
        texts.append(reader([line])[0].text)
    assert texts[0].text == texts[1].text
    assert np.allclose(texts[0].scores, texts[1].scores, atol=1e-4)


def test_predicting(run: Path) -> None:
    picture = run.parent / "line0.png"
    (run.parent / "broken.png").write_bytes(b"no picture")
    done = call("predict", str(run), str(picture), str(run.parent / "broken.png"))
    assert done.exit_code == 1, "one of two could not be read"
    answers = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    assert [set(answer) for answer in answers] == [{"file", "text", "score"}]
    assert "broken.png" in done.output


def test_reading_needs_no_torch_once_exported(run: Path) -> None:
    trained.bundle(run / "rec")
    code = (
        "import sys; from zoo.ocr import trained; from tests.ocr import small_sets; "
        f"one = trained.alone({str(run)!r}); one.predictor([small_sets.word('bad')]); "
        "assert 'torch' not in sys.modules and 'onnx' not in sys.modules, 'torch'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_export_without_torch_is_a_clear_error(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "rec" / "bundles", ignore_errors=True)
    monkeypatch.setattr(trained, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"not exported yet, which needs torch.*pip install 'ppzoo\[export\]'"):
        trained.alone(str(tmp_path / "copy"))


def test_a_run_that_trained_rec_alone_takes_the_rest_from_its_model(run: Path, official) -> None:
    from zoo import ocr

    official("ppocrv3_mobile_det", "ppocr_mobile_v2_cls")
    reader = ocr.load(str(run))
    assert reader.recogniser.charset == (*"abcdef", " ")
    page = np.full((200, 400, 3), 255, np.uint8)
    line = small_sets.word("bad", 60)
    page[60:120, 40 : 40 + line.shape[1]] = line
    assert len(reader.detector(page).scores) >= 1
    assert reader(page).width == 400


def test_a_wrong_network_is_not_kept(run: Path, tmp_path: Path) -> None:
    """A file that is of other weights is found out by the comparison."""
    from zoo.ocr import bundle_export

    made = trained.bundle(run / "rec")
    network = bundle_export.network_of(made.page, made.checkpoint)
    with torch.no_grad():
        network.network.classifier.bias[2] += 1.0
    with pytest.raises(ValueError, match="away from the trained network"):
        bundle_export.compare(network, "rec", made.network)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate", "ppocrv4_mobile_rec"), "give labels with --data"),
        (("evaluate", "ppocrv4_mobile"), "has det, rec, cls; say which one with --task"),
        (("evaluate", "nosuch"), "no such reader"),
        (("predict", "ppocrv4_mobile_rec", "--task", "det", "x.png"), "has rec, not det"),
        (("train",), "trains nothing"),
        (("train", "--resume", "nosuch"), "holds no run"),
        (("train", "-o", "rec.train.epochs=1", "--only", "det"), "--only det: the recipe trains rec"),
        (("train", "-o", "rec.train.epochs=1"), "rec.data.train: is empty"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.exit_code == 1
    assert said in done.output
    assert "Traceback" not in done.output
