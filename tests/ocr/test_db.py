"""Detection networks: rules of their maps, folding, names, and the official weights against their graphs."""

import re
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pytest
import torch

from zoo import weights
from zoo.layers import fuse
from zoo.ocr import db, necks, pplcnetv3
from zoo.ocr.weights import WEIGHTS
from zoo.weights.convert import arrays_of

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PICTURES = (
    "ocr_icdar2015/test_images/img_10.jpg",
    *(f"ocr_rapidocr_fixtures/images/{name}" for name in ("ch_en_num.jpg", "short.png")),
)


def scrambled(network: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Every batch norm and affine away from its initial values, so that folding has something to fold."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(std=0.3, generator=generator)
        if isinstance(module, pplcnetv3.LearnableAffine):
            module.scale.data.uniform_(0.5, 1.5, generator=generator)
            module.bias.data.normal_(std=0.3, generator=generator)
    return network


@torch.no_grad()
def test_no_picture_gives_no_map() -> None:
    assert db.ppocrv3_mobile_det().eval()(torch.zeros(0, 3, 64, 32)).shrink.shape == (0, 1, 64, 32)


@pytest.mark.parametrize("build", [db.ppocrv3_mobile_det, db.ppocrv4_mobile_det, db.ppocrv5_mobile_det])
@torch.no_grad()
def test_maps_have_the_size_of_the_picture(build) -> None:
    network = build()
    output = network.eval()(torch.zeros(1, 3, 32, 96))
    assert output.shrink.shape == (1, 1, 32, 96)
    assert output.threshold is None
    assert output.binary is None
    output = network.train()(torch.randn(2, 3, 64, 96))
    assert all(m is not None and m.shape == (2, 1, 64, 96) for m in output)
    # The paper's formula, with its own division.
    formula = 1 / (1 + torch.exp(-50 * (output.shrink - output.threshold)))
    assert torch.allclose(output.binary, formula, atol=1e-5)


def test_a_side_that_is_no_multiple_of_32_is_an_error() -> None:
    with pytest.raises(ValueError, match="multiples of 32"):
        db.ppocrv3_mobile_det().eval()(torch.zeros(1, 3, 64, 80))


def test_a_network_for_inference_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="threshold=True"):
        db.ppocrv3_mobile_det(threshold=False).train()(torch.zeros(2, 3, 32, 32))


@pytest.mark.parametrize("fix_nan", [True, False])
@torch.no_grad()
def test_fix_nan(fix_nan: bool) -> None:
    head = db.DBHead(16, fix_nan=fix_nan).train()
    for norm in (head.shrink.norm1, head.shrink.norm2, head.threshold.norm1, head.threshold.norm2):
        norm.eval()
    features = torch.randn(1, 16, 8, 8)
    features[0, 0, 0, 0] = torch.nan
    assert head(features).shrink.isnan().any().item() is not fix_nan


@pytest.mark.parametrize("branches", [1, 4])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (2, 1), (1, 2)])
@pytest.mark.parametrize(("kernel", "groups", "out"), [(3, 16, 16), (5, 16, 16), (1, 1, 16), (1, 1, 32)])
@torch.no_grad()
def test_a_folded_layer_is_the_same_function(
    kernel: int, groups: int, out: int, stride: tuple[int, int], branches: int
) -> None:
    layer = scrambled(pplcnetv3.BranchedLayer(16, out, kernel, stride, groups=groups, branches=branches)).eval()
    features = torch.randn(2, 16, 7, 10)
    plain = fuse(layer)
    assert isinstance(plain, pplcnetv3.PlainLayer)
    assert torch.allclose(plain(features), layer(features), atol=1e-5)


@torch.no_grad()
def test_a_fused_network_is_the_same_function() -> None:
    network = scrambled(db.ppocrv4_mobile_det()).eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fused = fuse(network.train())
    assert network.training
    assert not fused.training
    assert not any(isinstance(m, pplcnetv3.BranchedLayer) for m in fused.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    images = torch.randn(1, 3, 64, 96)
    assert torch.allclose(fused(images).shrink, network.eval()(images).shrink, atol=1e-5)


def paddle_names(block: str, names: str) -> list[str]:
    return [f"{block}.{name}" for name in names.split()]


NORM = "weight bias _mean _variance"
RELATED = [f"conv1x1_{what}_channel" for what in ("reduce", "return")]
for _kernel in (7, 5, 3):
    RELATED += [f"c_layer_{_kernel}x{_kernel}", f"v_layer_{_kernel}x1", f"q_layer_1x{_kernel}"]
RELATION = [f"{layer}.{part}" for layer in RELATED for part in ("weight", "bias")] + paddle_names("bn", NORM)
LITE = ["conv1.weight", *paddle_names("bn1", NORM), "conv2.weight", *paddle_names("bn2", NORM), "conv3.weight"]


@torch.no_grad()
def test_lite_neck_with_relations_has_the_names_of_the_reference() -> None:
    """Names as PaddleOCR's LKPAN(mode="lite", intracl=True) lists them."""
    neck = necks.LKPAN((8, 16, 24, 32), out_channels=32, mode="lite", intracl=True)
    names = [f"neck.ins_conv.{i}.weight" for i in range(4)]
    names += [f"neck.inp_conv.{i}.{name}" for i in range(4) for name in (*LITE, "conv_end.weight")]
    names += [f"neck.pan_head_conv.{i}.weight" for i in range(3)]
    names += [f"neck.pan_lat_conv.{i}.{name}" for i in range(4) for name in LITE]
    names += [f"neck.incl{i}.{name}" for i in (1, 2, 3, 4) for name in RELATION]
    found = dict(zip(names, names, strict=True))
    statistics = ((r"\._mean$", ".running_mean"), (r"\._variance$", ".running_var"))
    for pattern, replacement in (*necks.NECK_NAMES, *statistics):
        found = {name: re.sub(pattern, replacement, own) for name, own in found.items()}
    own = {f"neck.{name}" for name in neck.state_dict() if not name.endswith("num_batches_tracked")}
    assert set(found.values()) == own
    # Paddle counts from the shallowest level, this network's lateral layers from the deepest.
    assert found["neck.ins_conv.0.weight"] == "neck.lateral.3.weight"
    assert found["neck.incl1.c_layer_5x5.weight"] == "neck.relations.0.square.1.weight"
    maps = [torch.randn(1, c, 64 // s, 32 // s) for c, s in zip((8, 16, 24, 32), (4, 8, 16, 32), strict=True)]
    assert neck.eval()(maps).shape == (1, 32, 16, 8)


def test_of_network() -> None:
    arrays = {"Student.a": np.zeros(1), "Student2.a": np.ones(1)}
    assert db.of_network(arrays, "Student2") == {"a": np.ones(1)}
    with pytest.raises(ValueError, match=r"no network 'Teacher': it has Student, Student2"):
        db.of_network(arrays, "Teacher")


def test_only_the_unused_affines_are_left_out() -> None:
    names = [f"backbone.blocks{n}.{i}.dw_conv.act.lab.scale" for n in (2, 3, 6) for i in (0, 1)]
    kept = pplcnetv3.without_unused(dict.fromkeys(names, np.zeros(1)))
    assert sorted(set(names) - set(kept)) == [
        "backbone.blocks3.0.dw_conv.act.lab.scale",
        "backbone.blocks6.0.dw_conv.act.lab.scale",
    ]


def normalised(name: str, shape: tuple[int, int]) -> np.ndarray:
    """The picture shrunk into `shape` and padded with zeros after ImageNet normalisation, (1, 3, H, W)."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the picture is not here: {path}")
    picture = cv2.imread(str(path))
    ratio = min(shape[0] / picture.shape[0], shape[1] / picture.shape[1], 1.0)
    picture = cv2.resize(picture, (int(picture.shape[1] * ratio), int(picture.shape[0] * ratio)))
    blob = np.zeros((1, 3, *shape), np.float32)
    scaled = (picture / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    blob[0, :, : picture.shape[0], : picture.shape[1]] = scaled.transpose(2, 0, 1)
    return blob


def official(name: str) -> dict[str, np.ndarray]:
    try:
        return arrays_of(WEIGHTS[name])
    except weights.WeightsError as error:
        pytest.skip(f"the official weights cannot be had here: {error}")


# (entry, size, tolerance). The multilingual weights amplify rounding: against this network in float64 ONNX Runtime is
# up to 1.1e-4 away (3.2e-4 with its optimisations), OpenVINO 1.8e-4, this network in float32 2e-5. Their graph takes
# 960 x 960 alone.
PUBLISHED = [
    ("ppocrv3_mobile_det", (288, 480), 1e-4),
    ("ppocrv3_mobile_det_en", (288, 480), 1e-4),
    ("ppocrv3_mobile_det_multilingual", (960, 960), 2e-4),
    ("ppocrv4_mobile_det", (288, 480), 1e-4),
    ("ppocrv5_mobile_det", (288, 480), 1e-4),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def session(name: str) -> onnxruntime.InferenceSession:
    """The graph as it was written: optimised, it is rounded otherwise, by up to 1.4e-4 of the v3 maps."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    entry = WEIGHTS[name]
    return onnxruntime.InferenceSession(str(weights.get(entry)[entry.files[0].name]), options)


@pytest.mark.parametrize(("name", "shape", "tolerance"), PUBLISHED)
@torch.no_grad()
def test_official_weights_give_the_maps_of_their_graph(name: str, shape: tuple[int, int], tolerance: float) -> None:
    network = db.load_published(name, official(name))
    graph = session(name)
    for picture in PICTURES[: 1 if shape == (960, 960) else None]:
        blob = normalised(picture, shape)
        expected = graph.run(None, {graph.get_inputs()[0].name: blob})[0]
        got = network(torch.from_numpy(blob)).numpy()
        assert expected.max() > 0.9, "the picture has text"
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() < tolerance
    small = torch.from_numpy(blob[:, :, :160, :224])
    assert (network(small) - network.double()(small.double())).abs().max() < 1e-4


@torch.no_grad()
def test_paddle_format_gives_the_maps_of_the_onnx_file() -> None:
    blob = torch.from_numpy(normalised(PICTURES[0], (160, 288)))
    ours = db.load_published("ppocrv4_mobile_det", official("ppocrv4_mobile_det_paddle"))(blob)
    onnx = db.load_published("ppocrv4_mobile_det", official("ppocrv4_mobile_det"))(blob)
    assert torch.equal(ours, onnx)


def test_a_missing_parameter_is_an_error() -> None:
    arrays = official("ppocrv4_mobile_det")
    last = [name for name in arrays if name.startswith("conv2d_transpose")][-1]
    with pytest.raises(ValueError, match="do not fit"):
        db.load_published("ppocrv4_mobile_det", {name: a for name, a in arrays.items() if name != last})
    with pytest.raises(ValueError, match="do not fit"):
        db.load_published("ppocrv4_mobile_det", arrays | {"conv2d_9999.w_0": arrays[last]})
    with pytest.raises(ValueError, match="no published detection network: give one of ppocrv3_mobile_det"):
        db.load_published("ppocrv2_det", arrays)
