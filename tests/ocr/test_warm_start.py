"""Published and earlier weights in networks for training: the same function, and what is new is said."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from zoo import images
from zoo.layers import fuse
from zoo.ocr import db, networks, rec, warm_start
from zoo.ocr.bundle_export import build
from zoo.ocr.pplcnetv3 import BranchedLayer
from zoo.ocr.settings import DetSettings
from zoo.ocr.weights import WEIGHTS


def scrambled(network: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight and statistic away from where it began, so that no branch is silent."""
    random = torch.Generator().manual_seed(seed)
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point() and tensor.ndim <= 1:
            low = 0.5 if name.endswith(("var", "weight", "scale")) else -0.5
            tensor.copy_(low + torch.rand(tensor.shape, generator=random))
    return network


def branched() -> BranchedLayer:
    return BranchedLayer(16, 16, 3, (1, 1), groups=16, branches=4)


@torch.no_grad()
def test_an_unfolded_layer_is_the_folded_one() -> None:
    plain = fuse(scrambled(branched()))
    layer = branched()
    warm_start.unfold(layer, plain.state_dict())
    features = torch.randn(2, 16, 7, 5)
    assert torch.allclose(layer.eval()(features), plain(features), atol=1e-5)


def test_every_branch_of_an_unfolded_layer_can_learn() -> None:
    layer = branched()
    warm_start.unfold(layer, fuse(scrambled(branched())).state_dict())
    layer.train()(torch.randn(2, 16, 7, 5)).square().sum().backward()
    scales = {name: p.grad for name, p in layer.named_parameters() if name.endswith(("norm.weight", "identity.weight"))}
    assert len(scales) == 6, "identity, 1x1, four of 3x3"
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in scales.values())


@torch.no_grad()
def test_measuring_keeps_the_function_and_makes_train_mode_like_it() -> None:
    torch.manual_seed(0)
    plain = fuse(scrambled(branched())).state_dict()
    layer = branched()
    warm_start.unfold(layer, plain)
    pictures = [torch.randn(4, 16, 9, 9) * 2 + 1 for _ in range(3)]
    everything = torch.cat(pictures)
    before = layer.eval()(everything)
    unmeasured = (layer.train()(everything) - before).abs().mean()
    warm_start.unfold(layer, plain)  # train mode moved the statistics
    assert warm_start.measure(layer, pictures) == 6
    assert torch.allclose(layer.eval()(everything), before, atol=1e-4)
    first = layer.branches[0]
    features = first.conv(everything)
    assert torch.allclose(first.norm.running_mean, features.mean(dim=(0, 2, 3)), atol=1e-4)
    assert torch.allclose(first.norm.running_var, features.var(dim=(0, 2, 3), correction=0), rtol=1e-4)
    assert (layer.train()(everything) - before).abs().mean() < unmeasured / 20


def test_nothing_to_measure_takes_no_picture() -> None:
    def none():
        raise AssertionError("no batch is wanted")
        yield

    assert warm_start.measure(db.ppocrv3_mobile_det(), none()) == 0


@pytest.mark.parametrize("trained", ["ppocrv4_mobile_det", "ppocrv3_mobile_rec"])
@torch.no_grad()
def test_training_form_goes_over_whole(trained: str) -> None:
    old = scrambled(build(trained, classes=7, guide=True))
    new = build(trained, classes=7, guide=True)
    start = warm_start.take_over(new, old.state_dict(), "old")
    assert (start.fresh, start.dropped, start.charset) == ((), (), None)
    assert all(torch.equal(value, old.state_dict()[name]) for name, value in new.state_dict().items())


def test_what_is_new_and_what_is_dropped_is_said() -> None:
    with_guide, without = (rec.ppocrv3_mobile_rec(classes=7, guide=guide, guide_width=8) for guide in (True, False))
    start = warm_start.take_over(with_guide, without.state_dict(), "plain")
    assert (start.fresh, start.dropped) == (("guide",), ())
    assert "new, not in it: guide" in str(start)
    start = warm_start.take_over(without, with_guide.state_dict(), "guided")
    assert (start.fresh, start.dropped) == ((), ("guide",))
    detector = db.ppocrv3_mobile_det(threshold=False)
    assert warm_start.take_over(db.ppocrv3_mobile_det(), detector.state_dict(), "x").fresh == ("head.threshold",)


def picture(data: Path) -> np.ndarray:
    folder = data / "ocr_icdar2015" / "test_images"
    found = cv2.imread(str(sorted(folder.iterdir())[0])) if folder.is_dir() else None
    if found is None:
        pytest.skip(f"no picture in {folder}")
    return found


def prepared(photo: np.ndarray, task: str) -> Tensor:
    settings = DetSettings()
    if task == "det":
        part = images.resize(photo[: photo.shape[0] // 2], (192, 352))
        return torch.from_numpy(images.normalise(part, settings.mean, settings.std, scale=1 / 255))
    return torch.from_numpy(images.normalise(images.resize(photo, (48, 320)), (0.5,) * 3, (0.5,) * 3, scale=1 / 255))


SLOW = pytest.mark.slow
PUBLISHED = [
    ("ppocrv3_mobile_det", ("head.threshold",)),
    ("ppocrv4_mobile_det", ("head.threshold",)),
    pytest.param("ppocrv5_mobile_det", ("head.threshold",), marks=SLOW),
    ("ppocrv3_mobile_rec", ("guide",)),
    ("ppocrv4_mobile_rec", ("guide",)),
    pytest.param("ppocrv5_mobile_rec", ("guide",), marks=SLOW),
    ("ppocr_mobile_v2_cls", ()),
]


@pytest.mark.parametrize(("name", "fresh"), PUBLISHED)
@torch.no_grad()
def test_official_weights_in_the_training_form(name: str, fresh: tuple[str, ...], official, data: Path) -> None:
    """In eval mode the same probabilities as the published graph's own network, on a real picture, to 1e-4."""
    official(name)
    published = networks.published(name)
    task = WEIGHTS[name].task
    own = published.network
    network = build(WEIGHTS[name].converter, classes=own.classifier.out_features if task == "rec" else None, guide=True)
    start = warm_start.take_over(network, own.state_dict(), name)
    assert (start.fresh, start.dropped) == (fresh, ())
    assert not warm_start.is_folded(network)
    pictures = prepared(picture(data), task)
    wanted = published(pictures)
    assert wanted.max() > 0.3, "there is something to see"
    for measured in (False, True):
        if measured:
            warm_start.measure(network, [pictures])
        output = network.eval()(pictures)
        got = output.shrink if task == "det" else (output.logits if task == "rec" else output).softmax(dim=-1)
        assert float((got - wanted).abs().max()) < 1e-4
