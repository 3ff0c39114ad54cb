"""Backbones against the reference's classifiers, and the rules of their maps."""

import pytest
import torch
from torch import nn

from tests.parity import cases
from zoo.classification import mobilenetv3, resnet_vd
from zoo.layers import divisible


def logits(network: nn.Module, load_paddle: cases.Loader, case: cases.Case) -> torch.Tensor:
    load_paddle(network, case.state())
    with torch.no_grad():
        return network.eval()(case.inputs()["image"])


def test_mobilenetv3_is_the_reference() -> None:
    case = cases.load("classification", "mobilenetv3_small_x0_35")
    network = mobilenetv3.mobilenetv3_small(scale=0.35, classes=100)
    cases.assert_output(logits(network, mobilenetv3.load_paddle, case), case.outputs["logits"], "logits")


def test_resnet50_vd_is_the_reference() -> None:
    case = cases.load("classification", "resnet50_vd")
    network = resnet_vd.resnet_vd(layers=50, classes=100)
    cases.assert_output(logits(network, resnet_vd.load_paddle, case), case.outputs["logits"], "logits")


def test_a_name_left_over_is_an_error() -> None:
    case = cases.load("classification", "mobilenetv3_small_x0_35")
    state = case.state() | {"fc2.weight": case.state()["fc.weight"]}
    with pytest.raises(ValueError, match=r"arrays without a place: fc2\.weight"):
        mobilenetv3.load_paddle(mobilenetv3.mobilenetv3_small(scale=0.35, classes=100), state)
    del state["fc2.weight"], state["blocks.3.mid_se.conv1.bias"]
    with pytest.raises(ValueError, match=r"without an array: backbone\.blocks\.3\.gate\.conv1\.bias"):
        mobilenetv3.load_paddle(mobilenetv3.mobilenetv3_small(scale=0.35, classes=100), state)


@pytest.mark.parametrize("size", ["large", "small"])
def test_detection_maps_have_strides_4_to_32(size: mobilenetv3.Size) -> None:
    backbone = mobilenetv3.detection_backbone(size=size, scale=0.35).eval()
    with torch.no_grad():
        maps = backbone(torch.zeros(1, 3, 64, 96))
    assert [tuple(m.shape) for m in maps] == [
        (1, channels, 64 // stride, 96 // stride)
        for channels, stride in zip(backbone.out_channels, (4, 8, 16, 32), strict=True)
    ]


def test_strides_of_a_text_line_keep_its_columns() -> None:
    strides = [(2, 1) if block.stride == 2 else (1, 1) for block in mobilenetv3.SMALL]
    backbone = mobilenetv3.MobileNetV3(size="small", scale=0.35, strides=strides).eval()
    with torch.no_grad():
        (features,) = backbone(torch.zeros(1, 3, 48, 192))
    # The stem halves both sides, four blocks halve the rows alone: 48 -> 24 -> 2 (12, 6, 3, 2), 192 -> 96.
    assert tuple(features.shape) == (1, 200, 2, 96)


def test_wrong_number_of_strides_is_an_error() -> None:
    with pytest.raises(ValueError, match="strides has 1 entries: MobileNetV3 small has 11 blocks"):
        mobilenetv3.MobileNetV3(size="small", strides=[(2, 1)])


@pytest.mark.parametrize(("layers", "channels"), [(18, (64, 128, 256, 512)), (50, (256, 512, 1024, 2048))])
def test_resnet_vd_maps(layers: resnet_vd.Layers, channels: tuple[int, ...]) -> None:
    backbone = resnet_vd.ResNetVd(layers=layers).eval()
    with torch.no_grad():
        maps = backbone(torch.zeros(1, 3, 64, 32))
    assert [tuple(m.shape) for m in maps] == [
        (1, c, 64 // s, 32 // s) for c, s in zip(channels, (4, 8, 16, 32), strict=True)
    ]


@pytest.mark.parametrize(("wanted", "got"), [(1, 8), (8, 8), (11.9, 16), (12, 16), (5.6, 8), (18, 24), (17, 16)])
def test_divisible(wanted: float, got: int) -> None:
    """By hand: nearest multiple of 8, at least 8, and one more step where it would lose over a tenth (18 -> 16)."""
    assert divisible(wanted) == got
