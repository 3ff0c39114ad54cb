"""Text-line recognition against PaddleOCR: outputs, losses and gradients of the v3 network and its mutual learning.

The reference cases were made with every `nn.Dropout` off, but not the dropout of 0.1 that an LSTM layer applies itself:
the SAR encoder's. Its one output (a vector a line) is therefore random in the reference, and with it everything that
comes after or learns through it. What does not depend on it is compared exactly. The SAR decoder is compared
exactly too, at the encoder's output that the reference must have had, found by least squares; and what the
reference shows of the encoder must lie within the scatter of our own encoder with its dropout on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.parity import cases
from zoo.ocr import rec, rec_losses
from zoo.ocr.guide import GuideTargets
from zoo.ocr.sar import SarGuide

# The case's configuration leaves `last_pool_kernel_size` out; PaddleOCR 2.7 then pools 3 x 2.
POOL = (3, 2)
CLASSES = 97
DRAWS = 12


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network(state: dict[str, np.ndarray]) -> rec.Recognizer:
    built = rec.ppocrv3_mobile_rec(classes=CLASSES, pool=POOL)
    rec.load_paddle(built, state)
    return built.eval()


def targets(case: cases.Case) -> rec_losses.RecognitionTargets:
    labels = case.facts["labels"]
    lengths = torch.tensor([len(line) for line in labels])
    padded = torch.zeros(len(labels), int(lengths.max()), dtype=torch.long)
    for row, line in zip(padded, labels, strict=True):
        row[: len(line)] = torch.tensor(line)
    guide = GuideTargets(torch.tensor(case.facts["sar_target"]), lengths, torch.tensor(case.facts["valid_ratio"]))
    return rec_losses.RecognitionTargets(padded, lengths, guide)


def run(built: rec.Recognizer, case: cases.Case) -> rec.RecognitionOutput:
    return built(case.inputs()["image"], targets(case).guide)


def sar(built: rec.Recognizer) -> SarGuide:
    assert isinstance(built.guide, SarGuide)
    return built.guide


def fitted_line(guide: SarGuide, features: Tensor, wanted: GuideTargets, scores: Tensor) -> Tensor:
    """The encoder output nearest ours (N, width) with which the decoder gives `scores`."""
    features = features.detach()
    line = guide.encoder(features, wanted.valid_ratios).detach().requires_grad_()
    optimiser = torch.optim.LBFGS([line], max_iter=60, history_size=30, line_search_fn="strong_wolfe")

    def distance() -> Tensor:
        optimiser.zero_grad()
        loss = F.mse_loss(guide.decoder(features, line, wanted.labels, wanted.valid_ratios), scores, reduction="sum")
        loss.backward()
        return loss

    optimiser.step(distance)
    return line.detach()


class FixedLine(nn.Module):
    """A SAR encoder whose output is moved to a given one; gradients are the encoder's."""

    def __init__(self, encoder: nn.Module, line: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.line = line

    def forward(self, features: Tensor, valid_ratios: Tensor) -> Tensor:
        own = self.encoder(features, valid_ratios)
        return own + (self.line - own).detach()


def test_v3_outputs() -> None:
    case = cases.load("ocr", "rec_v3")
    out = run(network(case.state()), case)
    cases.assert_output(out.features, case.outputs["backbone"], "backbone")
    cases.assert_output(out.sequence, case.outputs["train_ctc_neck"], "neck")
    cases.assert_output(out.logits, case.outputs["train_ctc"], "CTC scores")
    cases.assert_output(out.logits.softmax(-1), case.outputs["probs"], "probabilities")


def test_v3_ctc_loss_and_gradients() -> None:
    case = cases.load("ocr", "rec_v3")
    built = network(case.state())
    wanted = targets(case)
    loss = rec_losses.ctc_loss(built(case.inputs()["image"]).logits, wanted.labels, wanted.lengths)
    cases.assert_loss(loss, case.facts["losses"]["CTCLoss"], "CTC loss")
    loss.backward()
    got = cases.gradient_norms(built, rec.load_paddle, case)
    own = {name: norm for name, norm in case.facts["grad_norms"].items() if name.startswith("head.ctc")}
    assert len(own) == 43
    for name, norm in own.items():
        assert got[name] == pytest.approx(norm, rel=cases.GRADIENT_TOLERANCE), name
    assert all(got[name] == 0 for name in got if name.startswith("backbone")), "GTC: the CTC branch must not reach it"


def test_v3_sar_decoder() -> None:
    """Scores, loss and gradients of the decoder, at the encoder output that the reference had."""
    case = cases.load("ocr", "rec_v3")
    built = network(case.state())
    wanted = targets(case)
    guide = sar(built)
    assert wanted.guide is not None
    scores = torch.from_numpy(case.outputs["train_sar"])
    features = built(case.inputs()["image"]).features
    own = guide.encoder(features, wanted.guide.valid_ratios).detach()
    line = fitted_line(guide, features, wanted.guide, scores)
    assert (line - own).norm() < 0.05 * own.norm(), "the fit may not leave the neighbourhood of our own encoder"
    built.zero_grad()  # the fit went through the decoder
    encoder = guide.encoder
    guide.encoder = FixedLine(encoder, line)  # type: ignore[assignment]
    out = run(built, case)
    guide.encoder = encoder
    assert out.guide_scores is not None
    # The fit ends when it no longer moves, at about a tenth of a thousandth of the largest score.
    assert (out.guide_scores - scores).abs().max() < 2e-4 * scores.abs().max()
    losses = rec_losses.recognition_losses(out, wanted, rec_losses.sar_loss)
    cases.assert_loss(losses["guide"], case.facts["losses"]["SARLoss"], "SAR loss")
    cases.assert_loss(sum(losses.values(), torch.zeros(())), case.facts["losses"]["loss"], "sum")
    losses["guide"].backward()
    got = cases.gradient_norms(built, rec.load_paddle, case)
    floor = cases.GRADIENT_FLOOR * max(case.facts["grad_norms"].values())
    for name, norm in case.facts["grad_norms"].items():
        if "sar_head.decoder" in name or "sar_head.encoder.linear" in name:
            assert abs(got[name] - norm) < 5e-3 * max(norm, floor), f"{name}: {got[name]}, reference {norm}"
        elif "backbone" in name:  # learns through the encoder as well
            assert got[name] == pytest.approx(norm, rel=0.05), name


def test_v3_sar_encoder_within_its_dropout() -> None:
    """The reference is one draw of the encoder's dropout: as far from the network without it as our draws are."""
    case = cases.load("ocr", "rec_v3")
    built = network(case.state())
    wanted = targets(case).guide
    assert wanted is not None
    with torch.no_grad():
        features = built(case.inputs()["image"]).features
        still = sar(built)(features, wanted)
        sar(built).encoder.train()
        draws = []
        for seed in range(DRAWS):
            torch.manual_seed(seed)
            draws.append((sar(built)(features, wanted) - still).abs().amax(dim=(1, 2)))
    reference = (torch.from_numpy(case.outputs["train_sar"]) - still).abs().amax(dim=(1, 2))
    scatter = torch.stack(draws)
    assert bool((reference < 1.2 * scatter.amax(dim=0)).all()), (reference, scatter)
    assert bool((reference > 0.8 * scatter.amin(dim=0)).all()), (reference, scatter)


def test_v3_mutual_learning() -> None:
    case = cases.load("ocr", "rec_v3_udml")
    outputs = {}
    for name in ("Student", "Teacher"):
        state = {key.removeprefix(f"{name}."): array for key, array in case.state().items() if key.startswith(name)}
        out = run(network(state), case)
        cases.assert_output(out.features, case.outputs[f"{name}_backbone"], f"{name} backbone")
        cases.assert_output(out.sequence, case.outputs[f"{name}_ctc_neck"], f"{name} neck")
        cases.assert_output(out.logits, case.outputs[f"{name}_ctc"], f"{name} CTC scores")
        # With the reference's own scores in place of ours, its losses of the SAR branch are exact too.
        outputs[name] = out._replace(guide_scores=torch.from_numpy(case.outputs[f"{name}_sar"]))
    losses = rec_losses.mutual_recognition_losses(
        outputs["Student"], outputs["Teacher"], targets(case), rec_losses.sar_loss
    )
    wanted = case.facts["losses"]
    for ours, theirs in {
        "mutual_ctc": "dml_ctc_0",
        "mutual_guide": "dml_sar_0",
        "features": "loss_distance_l2_Student_Teacher_0",
        "student_ctc": "loss_ctc_Student_0",
        "teacher_ctc": "loss_ctc_Teacher_1",
        "student_guide": "loss_sar_Student_0",
        "teacher_guide": "loss_sar_Teacher_1",
    }.items():
        cases.assert_loss(losses[ours], wanted[theirs], theirs)
    cases.assert_loss(sum(losses.values(), torch.zeros(())), wanted["loss"], "sum")


def test_v3_mutual_learning_gradients() -> None:
    """Gradients of both CTC branches, which the SAR branch does not reach."""
    case = cases.load("ocr", "rec_v3_udml")
    pair = {}
    for name in ("Student", "Teacher"):
        state = {key.removeprefix(f"{name}."): array for key, array in case.state().items() if key.startswith(name)}
        pair[name] = network(state)
    losses = rec_losses.mutual_recognition_losses(
        run(pair["Student"], case), run(pair["Teacher"], case), targets(case), rec_losses.sar_loss
    )
    sum(losses.values(), torch.zeros(())).backward()
    prefixes = {"backbone": 0.05, "head.ctc": cases.GRADIENT_TOLERANCE}
    for name, built in pair.items():
        ends = _paddle_names(built)
        for key, norm in case.facts["grad_norms"].items():
            inner = key.removeprefix(f"{name}.")
            tolerance = next((value for prefix, value in prefixes.items() if inner.startswith(prefix)), None)
            if key.startswith(name) and tolerance is not None:
                gradient = ends[inner].grad
                assert gradient is not None
                assert gradient.norm().item() == pytest.approx(norm, rel=tolerance), key


def _paddle_names(built: rec.Recognizer) -> dict[str, nn.Parameter]:
    """Parameters by their Paddle names, seen through the converter with each array filled with its own number."""
    state = cases.load("ocr", "rec_v3").state()
    twin = rec.ppocrv3_mobile_rec(classes=CLASSES, pool=POOL)
    rec.load_paddle(twin, {name: np.full(state[name].shape, i, np.float32) for i, name in enumerate(state)})
    names = list(state)
    return {names[int(marked.max())]: real for real, marked in zip(built.parameters(), twin.parameters(), strict=True)}
