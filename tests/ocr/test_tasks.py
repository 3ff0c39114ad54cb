"""The tasks of training: targets as the reference's, losses those of the parity cases, evaluation the predictor's."""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.ocr import small_sets
from tests.parity.cases import PARITY
from zoo import config
from zoo.distill import mutual_map_loss
from zoo.ocr import bundle_export, det_losses, rec_distill, rec_losses
from zoo.ocr.det_task import DetTask, Students
from zoo.ocr.evaluation import turned
from zoo.ocr.rec_targets import Encoder
from zoo.ocr.rec_task import Peers, RecTask
from zoo.ocr.samples import BadSample, LineSample
from zoo.ocr.train_recipe import TrainRecipe
from zoo.ocr.train_tasks import prepare
from zoo.ocr.trained import write_page

TRAIN = {"steps": 2, "device": "cpu"}


def recipe(**parts: object) -> TrainRecipe:
    return config.load(TrainRecipe, defaults=parts)


def det_part(folder: Path, **changes: object) -> dict[str, object]:
    data = {"train": [str(small_sets.pages(folder))], "evaluate": [str(small_sets.pages(folder))]}
    plain = {"start": "scratch", "batch": 2, "workers": 0, "augment": {"crop": [96, 96]}, "train": TRAIN}
    return {**plain, "data": data, **changes}


def rec_part(folder: Path, **changes: object) -> dict[str, object]:
    data = {"train": [str(small_sets.lines(folder))], "evaluate": [str(small_sets.lines(folder))]}
    return {
        "start": "scratch", "charset": str(small_sets.dictionary(folder)), "batch": 2, "workers": 0, "longest": 12,
        "scales": [[160, 48]], "train": TRAIN, "data": data, **changes,
    }  # fmt: skip


def still(network: nn.Module) -> nn.Module:
    """In train mode, with dropout and batch norms as in eval mode, so that two passes are alike."""
    network.train()
    for module in network.modules():
        if isinstance(module, nn.Dropout | nn.BatchNorm2d):
            module.eval()
    return network


def same(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert set(got) == set(wanted)
    for name, value in wanted.items():
        assert got[name].ndim == 0
        assert got[name].item() == pytest.approx(value.item(), rel=1e-5), name


# Targets.


def test_tokens_are_the_references() -> None:
    """The case's charset has 96 characters; its labels are CTC classes, one more than places."""
    path = PARITY / "ocr" / "rec_v3.json"
    if not path.exists():
        pytest.skip(f"reference case is not here: {path}")
    facts = json.loads(path.read_text(encoding="utf-8"))
    charset = tuple(chr(0x4E00 + i) for i in range(96))
    encoder = Encoder(charset, "sar", 25)
    lines = [encoder("".join(charset[label - 1] for label in line), "x") for line in facts["labels"]]
    assert [
        line[: len(text)].tolist() for line, text in zip(encoder.ctc(lines), facts["labels"], strict=True)
    ] == facts["labels"]
    assert encoder.tokens(lines).tolist() == facts["sar_target"]


def test_nrtr_tokens() -> None:
    """Start 2, characters from 4 on, end 3, padding 0: PaddleOCR's NRTRLabelEncode."""
    encoder = Encoder(("a", "b"), "nrtr", 6)
    assert encoder.tokens([encoder("ba", "x"), encoder("b", "x")]).tolist() == [[2, 5, 4, 3, 0, 0], [2, 5, 3, 0, 0, 0]]


@pytest.mark.parametrize(("guide", "most"), [(None, 5), ("sar", 3), ("nrtr", 3)])
def test_lengths_that_can_be_taught(guide, most: int) -> None:
    encoder = Encoder(("a",), guide, 5)
    assert len(encoder("a" * most, "x")) == most
    for text in ("", "a" * (most + 1)):
        with pytest.raises(BadSample, match=f"list:3: '{text}' has {len(text)} characters; 1 to {most} can be taught"):
            encoder(text, "list:3")


def test_characters_outside_the_charset() -> None:
    with pytest.raises(BadSample, match="'axby' has 'xy', which the charset lacks"):
        Encoder(("a", "b"))("axby", "list:1")
    assert Encoder(("a", "b"), skip_unknown=True)("axby", "list:1").tolist() == [0, 1]


def test_columns_that_ctc_needs() -> None:
    encoder = Encoder(("a", "b"))
    assert [encoder.columns(encoder(text, "x")) for text in ("a", "ab", "aab", "aaa")] == [1, 2, 4, 5]


def test_a_line_too_narrow_for_its_text_is_bad(tmp_path: Path) -> None:
    """16 pixels are two columns; an infinite loss would end the training."""
    part = rec_part(tmp_path, scales=[[16, 48]], guide=False, augment={"concat": 0})
    task = prepare(recipe(model="ppocrv3_mobile", rec=part))["rec"].task
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        batch = next(iter(task.batches(0)))
    assert set(batch.texts) == {"ab"}
    assert any("needs 3 columns, the network gives 2" in str(one.message) for one in said)


# Losses.


def test_detection_losses_are_those_of_the_parity(tmp_path: Path) -> None:
    task = prepare(recipe(model="ppocrv3_mobile", det=det_part(tmp_path)))["det"].task
    assert isinstance(task, DetTask)
    batch = next(iter(task.batches(0)))
    model = still(task.model)
    assert batch.images.shape == (2, 3, 96, 96)
    assert batch.targets.shrink_map.shape == (2, 96, 96)
    same(task.losses(model, batch), det_losses.db_losses(model(batch.images), batch.targets))


def test_dml_losses(tmp_path: Path) -> None:
    task = prepare(recipe(model="ppocrv3_mobile", det=det_part(tmp_path, method="dml")))["det"].task
    model, batch = still(task.model), next(iter(task.batches(0)))
    assert isinstance(model, Students)
    first, second = model.student(batch.images), model.student2(batch.images)
    wanted = {"mutual": mutual_map_loss(first.shrink, second.shrink).mean()}
    for name, one in (("student", first), ("student2", second)):
        wanted |= {f"{name}_{term}": loss for term, loss in det_losses.db_losses(one, batch.targets).items()}
    same(task.losses(model, batch), wanted)
    assert torch.equal(model.eval()(batch.images).shrink, model.student(batch.images).shrink)


def test_cml_losses_and_frozen_teacher(tmp_path: Path) -> None:
    """The teacher is a file with a training form: its threshold branch is left out, as it only shows its shrink map."""
    from safetensors.torch import save_file

    teacher = tmp_path / "teacher.safetensors"
    save_file(bundle_export.build("ppocrv3_mobile_det").state_dict(), teacher)
    part = det_part(tmp_path, method="cml", teacher=str(teacher), teacher_network="ppocrv3_mobile_det")
    task = prepare(recipe(model="ppocrv3_mobile", det=part))["det"].task
    assert isinstance(task, DetTask) and task.teacher is not None
    model, batch = still(task.model), next(iter(task.batches(0)))
    with torch.no_grad():
        shown = task.teacher(batch.images).shrink
    losses = task.losses(model, batch)
    same(losses, det_losses.cml_losses(model(batch.images), shown, batch.targets))
    torch.stack(list(losses.values())).sum().backward()
    assert all(parameter.grad is None for parameter in task.teacher.parameters())
    assert not task.teacher.training


@pytest.mark.parametrize("model", ["ppocrv3_mobile", "ppocrv4_mobile"])
def test_recognition_losses_are_those_of_the_parity(tmp_path: Path, model: str) -> None:
    task = prepare(recipe(model=model, rec=rec_part(tmp_path)))["rec"].task
    assert isinstance(task, RecTask)
    network, batch = still(task.model), next(iter(task.batches(0)))
    guide_loss = rec_losses.sar_loss if model == "ppocrv3_mobile" else rec_losses.nrtr_loss
    output = network(batch.images, batch.targets.guide)
    wanted = rec_losses.recognition_losses(output, batch.targets, guide_loss)
    assert set(wanted) == {"ctc", "guide"}
    same(task.losses(network, batch), wanted)


def test_mutual_losses_are_those_of_the_parity(tmp_path: Path) -> None:
    task = prepare(recipe(model="ppocrv3_mobile", rec=rec_part(tmp_path, method="udml")))["rec"].task
    network, batch = still(task.model), next(iter(task.batches(0)))
    assert isinstance(network, Peers)
    outputs = [one(batch.images, batch.targets.guide) for one in (network.student, network.teacher)]
    same(
        task.losses(network, batch),
        rec_losses.mutual_recognition_losses(outputs[0], outputs[1], batch.targets, rec_losses.sar_loss),
    )


@pytest.mark.parametrize("guide", [True, False])
def test_without_a_guide_ctc_trains_the_backbone(tmp_path: Path, guide: bool) -> None:
    task = prepare(recipe(model="ppocrv3_mobile", rec=rec_part(tmp_path, guide=guide)))["rec"].task
    batch = next(iter(task.batches(0)))
    losses = task.losses(task.model, batch)
    assert set(losses) == ({"ctc", "guide"} if guide else {"ctc"})
    losses["ctc"].backward()
    assert (task.model.backbone.stem.conv.weight.grad is None) is guide


def test_ctc_distillation_by_hand() -> None:
    """One column, blank and two characters: the blank's score changes sign, all are doubled, then softmax."""
    student, teacher = torch.tensor([[[1.0, 0.0, 0.5]]]), torch.tensor([[[0.0, 1.0, 0.0]]])

    def soft(*scores: float) -> list[float]:
        total = sum(math.exp(2 * score) for score in scores)
        return [math.exp(2 * score) / total for score in scores]

    one, other = soft(-1.0, 0.0, 0.5), soft(0.0, 1.0, 0.0)
    wanted = sum(q * math.log((q + 1e-6) / (p + 1e-6) + 1e-6) for p, q in zip(one, other, strict=True))
    assert rec_distill.ctc_logits_loss(student, teacher).item() == pytest.approx(wanted, rel=1e-5)
    assert rec_distill.ctc_logits_loss(student, student).item() == pytest.approx(0.0, abs=1e-5)


def test_ctc_distillation_of_networks_with_other_columns() -> None:
    """A mean over the line: repeating every column changes nothing."""
    student, teacher = torch.randn(2, 5, 7), torch.randn(2, 4, 7)
    wide = teacher.repeat_interleave(3, dim=1)
    assert torch.allclose(rec_distill.ctc_logits_loss(student, teacher), rec_distill.ctc_logits_loss(student, wide))


def test_decoupled_distillation_by_hand() -> None:
    """Student (1/2, 1/4, 1/4), teacher (1/4, 1/4, 1/2), label 0.

    Label or not: student (1/2, 1/2), teacher (1/4, 3/4). Among the others: student (1/2, 1/2), teacher (1/3, 2/3).
    """
    student, teacher = torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.tensor([[0.25, 0.25, 0.5]]).log()
    target = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    others = math.log((1 / 3) / 0.5) / 3 + 2 * math.log((2 / 3) / 0.5) / 3
    got = rec_distill.decoupled_loss(student, teacher, torch.tensor([0]), alpha=3.0, beta=5.0)
    assert got.item() == pytest.approx(3 * target + 5 * others, rel=1e-5)


def test_distillation_under_a_frozen_run(tmp_path: Path) -> None:
    """A run of the same charset teaches CTC and, since both have one, the attention branch."""
    part = rec_part(tmp_path)
    made = prepare(recipe(model="ppocrv4_mobile", rec=part))["rec"]
    as_run(tmp_path / "teacher", made)
    part |= {"method": "distil", "teacher": str(tmp_path / "teacher")}
    task = prepare(recipe(model="ppocrv4_mobile", rec=part))["rec"].task
    batch = next(iter(task.batches(0)))
    losses = task.losses(task.model, batch)
    assert set(losses) == {"ctc", "guide", "teacher_ctc", "teacher_guide"}
    assert all(math.isfinite(loss.item()) for loss in losses.values())
    (tmp_path / "other").mkdir()
    part |= {"charset": str(small_sets.dictionary(tmp_path / "other", "abcdefg"))}
    with pytest.raises(ValueError, match="has another charset"):
        prepare(recipe(model="ppocrv4_mobile", rec=part))


def as_run(folder: Path, made) -> None:
    """A run folder with the task's present weights as its one checkpoint."""
    from zoo.checkpoint import Contents, write

    write_page(folder, made.page)
    state = made.task.model.state_dict()
    write(folder, Contents(step=1, model=state, ema=None, state={}, progress={"best": None, "metrics": {}}), keep=1)


# Evaluation.


def test_no_evaluation_data_is_an_empty_result(tmp_path: Path) -> None:
    part = det_part(tmp_path)
    part["data"] = {"train": part["data"]["train"]}  # type: ignore[index]
    task = prepare(recipe(model="ppocrv3_mobile", det=part))["det"].task
    assert task.evaluate(task.model) == {}


class Spelling(nn.Module):
    """A recogniser of bars: a column's class is its brightness in steps, 0 where it is black."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, pictures: Tensor, targets: None = None):
        from zoo.ocr.rec import RecognitionOutput

        columns = ((pictures.mean(dim=(1, 2)) + 1) / self.scale).unflatten(1, (-1, 8)).mean(dim=2)  # 0..1
        classes = (columns * 3).round().long().clamp(0, 3)
        logits = 9.0 * nn.functional.one_hot(classes, 4).float()
        return RecognitionOutput(logits, logits, logits, None)


def bars(*levels: int) -> np.ndarray:
    """48 pixels high; each level, 0 to 3 thirds of white, 32 wide."""
    return np.repeat(np.array(levels, np.uint8) * 85, 32)[None, :, None].repeat(48, axis=0).repeat(3, axis=2)


def test_recognition_is_judged_as_the_predictor_reads(tmp_path: Path) -> None:
    """Two bars right, one wrong by one letter of two; the loader's own picture of the line plays no part."""
    part = rec_part(tmp_path, charset=str(small_sets.dictionary(tmp_path, "ab")), guide=False)
    made = prepare(recipe(model="ppocrv3_mobile", rec=part), report=tmp_path / "run")["rec"].task
    lines = [
        LineSample(bars(0, 1, 0, 2, 0, 0), "ab", "one"),
        LineSample(bars(0, 2, 0, 0), "b", "two"),
        LineSample(bars(0, 1, 0, 1, 0, 0), "ab", "three"),
    ]
    made.evaluation = lines
    model = Spelling().train()
    # The padding is 0 after normalisation, which is grey: a third class that the set does not use is put there.
    made.charset = ("a", "b", "")
    rates = {name: round(value, 4) for name, value in made.evaluate(model).items()}
    assert model.training, "evaluation leaves the mode as it was"
    assert rates["cer"] == pytest.approx(expected_cer(made, model, lines), abs=1e-4)
    table = (tmp_path / "run" / "rec" / "worst" / "worst_000.tsv").read_text(encoding="utf-8").splitlines()
    assert table[0] == "line\twanted\tread\tscore"
    assert any(row.startswith("three\tab\t") for row in table)


def expected_cer(task: RecTask, model: nn.Module, lines: list[LineSample]) -> float:
    """Edits over characters of what the predictor reads, counted with difflib's opposite: dynamic programming here."""
    read = [line.text.text for line in task.reader(model)([line.image for line in lines])]
    edits = sum(distance(sample.text, text) for sample, text in zip(lines, read, strict=True))
    return edits / sum(len(sample.text) for sample in lines)


def distance(first: str, second: str) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        previous, row = row, [i]
        for j, b in enumerate(second, start=1):
            row.append(min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a != b)))
    return row[-1]


class Bright(nn.Module):
    """A detector: text is where the picture is light."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(1))

    def forward(self, pictures: Tensor):
        from zoo.ocr.db import DetectionOutput

        shrink = (pictures.amax(dim=1, keepdim=True) > 1.5).float() * 0.95 + self.offset
        return DetectionOutput(shrink, None, None)


def test_detection_is_judged_as_the_predictor_finds(tmp_path: Path) -> None:
    """White bars on black: of three labels two are on bars that grow to them, one lies on nothing."""
    from zoo.ocr.samples import PageSample

    part = det_part(tmp_path, settings={"limit_side": 320, "limit_type": "max", "unclip_ratio": 0.0, "tile": False})
    task = prepare(recipe(model="ppocrv3_mobile", det=part), report=tmp_path / "run")["det"].task
    page = np.zeros((320, 320, 3), np.uint8)
    boxes = [(32, 32, 200, 80), (32, 150, 280, 200), (40, 260, 200, 300)]
    for left, top, right, bottom in boxes[:2]:
        page[top:bottom, left:right] = 255
    polygons = tuple(np.array([[l, t], [r, t], [r, b], [l, b]], np.float32) for l, t, r, b in boxes)  # noqa: E741
    task.evaluation = [PageSample(page, polygons, ("a", "b", "c"), np.zeros(3, bool), "page")]
    rates = task.evaluate(Bright().train())
    assert rates == {"hmean": pytest.approx(0.8), "precision": 1.0, "recall": pytest.approx(2 / 3)}
    assert next(iter(rates)) == "hmean", "the first decides"
    rows = (tmp_path / "run" / "det" / "worst" / "worst_000.tsv").read_text(encoding="utf-8").splitlines()
    assert rows == ["picture\tmissed\tfalse", "page\t1\t0"]
    assert (tmp_path / "run" / "det" / "worst" / "worst_000.jpg").is_file()


class Halves(nn.Module):
    """A classifier: a line is on its head where its left half is lighter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(20.0))

    def forward(self, pictures: Tensor) -> Tensor:
        light = pictures.mean(dim=(1, 2))
        difference = self.scale * (light[:, :96].mean(dim=1) - light[:, 96:].mean(dim=1))
        return torch.stack((-difference, difference), dim=1)


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({"scales": [[160, 48]]}, 160),
        ({"scales": [[320, 48], [128, 32]]}, 320),
        ({"scales": [[128, 32]]}, 192),  # at the 48 pixels that the predictor reads at
        ({"scales": [[640, 48]]}, 320),
        ({"scales": [[160, 48]], "widths": "own"}, 320),
        ({"scales": [[160, 48]], "settings": {"min_width": 256}}, 256),
    ],
)
def test_a_line_is_padded_no_further_than_in_training(tmp_path: Path, changes: dict[str, object], width: int) -> None:
    made = prepare(recipe(rec=rec_part(tmp_path, guide=False, **changes)))["rec"]
    assert isinstance(made.task, RecTask)
    assert made.task.settings.min_width == made.page.settings["min_width"] == width


def test_direction_is_judged_both_ways(tmp_path: Path) -> None:
    data = {"train": [str(small_sets.lines(tmp_path))], "evaluate": [str(small_sets.lines(tmp_path))]}
    part = {"start": "scratch", "batch": 2, "workers": 0, "train": TRAIN, "data": data}
    task = prepare(recipe(model="ppocrv3_mobile", cls=part))["cls"].task
    dark_first = np.zeros((48, 192, 3), np.uint8)
    dark_first[:, 96:] = 255
    # The second is the wrong way round, so the rule fails both ways.
    task.evaluation = [LineSample(dark_first, "", "one"), turned(LineSample(dark_first, "", "two"))]
    assert task.evaluate(Halves()) == {"accuracy": 0.5}
    batch = next(iter(task.batches(0)))
    assert batch.images.shape == (2, 3, 48, 192)
    wanted = nn.functional.cross_entropy(still(task.model)(batch.images), batch.directions)
    assert task.losses(task.model, batch)["direction"].item() == pytest.approx(wanted.item(), rel=1e-6)


# What people see, and their mistakes.


def test_pictures_and_names(tmp_path: Path) -> None:
    for part, made in prepare(
        recipe(model="ppocrv3_mobile", det=det_part(tmp_path), rec=rec_part(tmp_path, guide=False))
    ).items():
        batch = next(iter(made.task.batches(0)))
        names = made.task.names(batch)
        assert len(names) == 2 and all(re.search(r"(pages|lines)\.txt:\d", name) for name in names)
        made.task.model.train()
        for picture in made.task.pictures(made.task.model, batch).values():
            assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        assert made.task.model.training, part


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {}}, r"rec\.data\.train: is empty; give labels, such as -o rec\.data\.train=\[labels\.txt\]"),
        ({"data": {"train": ["nosuch.txt"]}}, r"rec\.data\.train\.0: nosuch\.txt: no such file.*-o rec\.data\.train="),
        ({"charset": None}, r"rec\.charset: start=scratch brings no charset"),
        ({"start": "nosuch"}, r"rec\.start=nosuch: is no weight entry, run folder"),
        ({"start": "ppocrv4_mobile_det"}, r"rec\.start=ppocrv4_mobile_det: is weights for det"),
        ({"batch": 99}, "8 samples make no batch of 99"),
    ],
)
def test_mistakes_name_the_key(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made = prepare(recipe(model="ppocrv3_mobile", rec=rec_part(tmp_path, **changes)))
        made["rec"].task.batches(0)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"det": {"train": TRAIN, "method": "cml"}}, "method=cml needs a teacher"),
        ({"det": {"train": TRAIN, "teacher": "x"}}, "give method=cml"),
        ({"det": {"train": TRAIN, "dynamic_shrink": True}}, "needs train.epochs"),
        ({"det": {"train": TRAIN, "augment": {"crop": [100, 96]}}}, "multiples of 32"),
        ({"rec": {"train": TRAIN, "method": "distil"}}, "distil needs a teacher"),
        ({"rec": {"train": TRAIN, "charset_mode": "extend"}}, "needs charset"),
        ({"rec": {"train": TRAIN, "learning_rate": 1}}, "rec.learning_rate: no such key"),
        ({}, "trains nothing"),
        ({"model": "ppocrv6_small", "rec": {"train": TRAIN}}, "no native network to train"),
    ],
)
def test_impossible_recipes(part: dict[str, object], said: str) -> None:
    with pytest.raises(config.ConfigError, match=said):
        recipe(**part)
