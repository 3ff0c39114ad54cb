"""Recognition and direction networks: independent references, properties, names of PaddleOCR checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from zoo.layers import fuse
from zoo.ocr import cls, rec, rec_losses
from zoo.ocr.guide import GuideTargets
from zoo.ocr.nrtr import NrtrGuide
from zoo.ocr.sar import SarGuide

PARITY = Path(__file__).resolve().parents[3] / "shared" / "parity" / "ocr"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def randomise(network: nn.Module, seed: int = 0) -> None:
    """Other values than the initial ones, so that no batch norm is the identity."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=generator) * 0.2
            tensor.data = noise + 0.9 if name.endswith(("norm.weight", "running_var")) else noise - 0.1


# --- attention branches ---


def labels_of(lines: list[list[int]], width: int) -> GuideTargets:
    """NRTR labels: start 2, characters, end 3, padding 0."""
    padded = torch.zeros(len(lines), width, dtype=torch.long)
    for row, line in zip(padded, lines, strict=True):
        row[: len(line) + 2] = torch.tensor([2, *line, 3])
    return GuideTargets(padded, torch.tensor([len(line) for line in lines]), torch.ones(len(lines)))


def torch_layer(block: nn.Module, width: int, heads: int, inner: int) -> nn.TransformerDecoderLayer:
    """torch's own post-norm decoder layer with the weights of one of ours."""
    layer = nn.TransformerDecoderLayer(width, heads, inner, dropout=0.0, batch_first=True)
    own = dict(block.state_dict())
    layer.load_state_dict(
        {
            "self_attn.in_proj_weight": own["self_attention.qkv.weight"],
            "self_attn.in_proj_bias": own["self_attention.qkv.bias"],
            "self_attn.out_proj.weight": own["self_attention.out.weight"],
            "self_attn.out_proj.bias": own["self_attention.out.bias"],
            "multihead_attn.in_proj_weight": torch.cat(
                (own["cross_attention.q.weight"], own["cross_attention.kv.weight"])
            ),
            "multihead_attn.in_proj_bias": torch.cat((own["cross_attention.q.bias"], own["cross_attention.kv.bias"])),
            "multihead_attn.out_proj.weight": own["cross_attention.out.weight"],
            "multihead_attn.out_proj.bias": own["cross_attention.out.bias"],
            "linear1.weight": own["fc1.weight"],
            "linear1.bias": own["fc1.bias"],
            "linear2.weight": own["fc2.weight"],
            "linear2.bias": own["fc2.bias"],
            **{name: own[name] for name in own if name.startswith("norm")},
        }
    )
    return layer.eval()


def test_nrtr_equals_torch_decoder_layers() -> None:
    torch.manual_seed(0)
    guide = NrtrGuide(6, classes=10, width=64, depth=2).eval()
    features, targets = torch.randn(2, 6, 1, 5), labels_of([[4, 5, 6], [7]], 8)
    tokens = guide.embedding(targets.labels[:, :4]) * 8.0  # sqrt(64)
    for position in range(4):
        for channel in range(0, 64, 2):
            angle = position / 10000 ** (channel / 64)
            tokens[:, position, channel] += math.sin(angle)
            tokens[:, position, channel + 1] += math.cos(angle)
    memory = features.squeeze(2).transpose(1, 2) @ guide.project.weight.t()
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    for block in guide.blocks:
        tokens = torch_layer(block, 64, 2, 256)(tokens, memory, tgt_mask=mask)
    scores = guide(features, targets)
    assert scores.shape == (2, 4, 11)
    assert torch.allclose(scores, tokens @ guide.prediction.weight.t(), atol=1e-5)


def test_nrtr_token_sees_only_those_before_it() -> None:
    torch.manual_seed(0)
    guide = NrtrGuide(6, classes=10, width=32, depth=2).eval()
    features = torch.randn(1, 6, 1, 5)
    one, other = guide(features, labels_of([[4, 5, 6]], 8)), guide(features, labels_of([[4, 5, 9]], 8))
    assert torch.equal(one[:, :3], other[:, :3])
    assert not torch.allclose(one[:, 3], other[:, 3])


def test_nrtr_width_must_divide() -> None:
    with pytest.raises(ValueError, match="width 16"):
        NrtrGuide(6, classes=10, width=16)


def sar_guide() -> tuple[SarGuide, Tensor, GuideTargets]:
    torch.manual_seed(0)
    guide = SarGuide(6, classes=9, width=8, attention_width=8).eval()
    labels = torch.tensor([[7, 1, 7, 8, 8], [7, 2, 3, 7, 8]])
    return guide, torch.randn(2, 6, 1, 8), GuideTargets(labels, torch.tensor([1, 2]), torch.tensor([0.6, 1.0]))


def test_sar_does_not_see_padded_columns() -> None:
    """0.6 of 8 columns are 4.8: five are seen. What is beside them changes nothing for that line."""
    guide, features, targets = sar_guide()
    scores = guide(features, targets)
    assert scores.shape == (2, 5, 8)
    changed = features.clone()
    changed[0, :, :, 6:] = 9.0  # column 5 reaches column 4 through the 3 x 3 key convolution
    assert torch.allclose(guide(changed, targets)[0], scores[0], atol=1e-6)
    assert not torch.allclose(guide(changed, targets._replace(valid_ratios=torch.ones(2)))[0], scores[0], atol=1e-3)


def test_sar_step_sees_only_labels_up_to_it() -> None:
    guide, features, targets = sar_guide()
    changed = targets.labels.clone()
    changed[:, 3] = 0
    one, other = guide(features, targets), guide(features, targets._replace(labels=changed))
    assert torch.allclose(one[:, :3], other[:, :3], atol=1e-6)
    assert not torch.allclose(one[:, 3], other[:, 3], atol=1e-6)


# --- whole networks ---


@pytest.mark.parametrize("build", [rec.ppocrv3_mobile_rec, rec.ppocrv4_mobile_rec])
@pytest.mark.parametrize(("batch", "width", "columns"), [(0, 32, 4), (1, 8, 1), (2, 67, 8)])
def test_shapes(build: Callable[..., rec.Recognizer], batch: int, width: int, columns: int) -> None:
    """One column for each 8 pixels (odd widths: after rounding each halving up, the last pool down)."""
    network = build(classes=7, guide=False).eval()
    out = network(torch.zeros(batch, 3, 48, width))
    assert out.logits.shape == (batch, columns, 7)
    assert out.guide_scores is None


def test_v4_training_columns_do_not_depend_on_the_width() -> None:
    network = rec.ppocrv4_mobile_rec(classes=7, guide_width=32, guide_depth=1).train()
    out = network(torch.rand(2, 3, 48, 160), labels_of([[4, 5], [6]], 6))
    assert out.logits.shape == (2, 40, 7)
    assert out.guide_scores is not None and out.guide_scores.shape == (2, 3, 11)
    (rec_losses.nrtr_loss(out.guide_scores, labels_of([[4, 5], [6]], 6).labels) + out.logits.mean()).backward()
    assert all(p.grad is not None for p in network.parameters())


def test_wrong_height_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="48 high"):
        rec.ppocrv3_mobile_rec(classes=7, guide=False).eval()(torch.zeros(1, 3, 96, 64))


def test_targets_without_a_branch_are_refused() -> None:
    with pytest.raises(ValueError, match="no attention branch"):
        rec.ppocrv3_mobile_rec(classes=7, guide=False)(torch.zeros(1, 3, 48, 64), labels_of([[4]], 4))


def test_fused_v4_equals_the_trained_one() -> None:
    network = rec.ppocrv4_mobile_rec(classes=7, guide=False).eval()
    randomise(network)
    images = torch.rand(1, 3, 48, 64)
    with torch.no_grad():
        wanted, got = network(images), fuse(network)(images)
    assert torch.allclose(got.features, wanted.features, rtol=1e-4, atol=1e-4 * float(wanted.features.abs().max()))


# --- names of PaddleOCR checkpoints ---

NORM = ("weight", "bias", "_mean", "_variance")
# Channels of PP-LCNetV3 at scale 0.75 to those at 0.95: multiples of 16 nearest to 16, 32, ... 512 times the scale.
WIDER = {48: 64, 96: 128, 192: 240, 384: 480}
GATES = {48: 60, 96: 120, 192: 240, 384: 480}  # channel gates narrow by 4


def lcnetv3_shapes() -> dict[str, tuple[int, ...]]:
    """Backbone names and shapes of a v4 recognition checkpoint, from those of the v4 detection case."""
    path = PARITY / "det_v4_mobile.json"
    if not path.exists():
        pytest.skip(f"reference case is not here: {path}")
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape, _ in json.loads(path.read_text(encoding="utf-8"))["params"]:
        # Recognition halves rows at blocks6.2 (so no identity) and nothing at blocks3.0 (so one); it has no taps.
        if name.startswith("backbone.") and "layer_list" not in name and "blocks6.2.dw_conv.identity" not in name:
            table = GATES if ".se." in name else WIDER
            shapes[name] = tuple(table.get(n, n) if axis < 2 else n for axis, n in enumerate(shape))
    return shapes | {f"backbone.blocks3.0.dw_conv.identity.{part}": (32,) for part in NORM}


def neck_shapes(channels: int, dims: int, classes: int) -> dict[str, tuple[int, ...]]:
    """SVTR neck with 1 x 3 kernels and CTC classifier, as `ppocr/modeling/necks/rnn.py` names them."""
    shapes: dict[str, tuple[int, ...]] = {}
    convs = {
        "conv1": (channels // 8, channels, 1, 3),
        "conv2": (120, channels // 8, 1, 1),
        "conv3": (channels, 120, 1, 1),
        "conv4": (channels // 8, 2 * channels, 1, 3),
        "conv1x1": (dims, channels // 8, 1, 1),
    }
    for name, shape in convs.items():
        shapes[f"{name}.conv.weight"] = shape
        shapes |= {f"{name}.norm.{part}": shape[:1] for part in NORM}
    for block in range(2):
        for name, size in {
            "mixer.qkv": (120, 360),
            "mixer.proj": (120, 120),
            "mlp.fc1": (120, 240),
            "mlp.fc2": (240, 120),
        }.items():
            shapes[f"svtr_block.{block}.{name}.weight"] = size
            shapes[f"svtr_block.{block}.{name}.bias"] = size[1:]
        shapes |= {f"svtr_block.{block}.norm{n}.{part}": (120,) for n in (1, 2) for part in NORM[:2]}
    shapes |= {f"norm.{part}": (120,) for part in NORM[:2]}
    shapes = {f"head.ctc_encoder.encoder.{name}": shape for name, shape in shapes.items()}
    return shapes | {"head.ctc_head.fc.weight": (dims, classes), "head.ctc_head.fc.bias": (classes,)}


def nrtr_shapes(channels: int, width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """NRTR branch as `ppocr/modeling/heads/rec_nrtr_head.py` names it; `classes` counts its unused one."""
    shapes: dict[str, tuple[int, ...]] = {
        "head.before_gtc.1.fc.weight": (channels, width),
        "head.gtc_head.embedding.embedding.weight": (classes, width),
        "head.gtc_head.positional_encoding.pe": (5000, 1, width),
        "head.gtc_head.tgt_word_prj.weight": (width, classes),
    }
    linear = {
        "self_attn.qkv": (width, 3 * width),
        "self_attn.out_proj": (width, width),
        "cross_attn.q": (width, width),
        "cross_attn.kv": (width, 2 * width),
        "cross_attn.out_proj": (width, width),
        "mlp.fc1": (width, 4 * width),
        "mlp.fc2": (4 * width, width),
    }
    for block in range(4):
        for name, size in linear.items():
            shapes[f"head.gtc_head.decoder.{block}.{name}.weight"] = size
            shapes[f"head.gtc_head.decoder.{block}.{name}.bias"] = size[1:]
        shapes |= {f"head.gtc_head.decoder.{block}.norm{n}.{part}": (width,) for n in (1, 2, 3) for part in NORM[:2]}
    return shapes


def v4_checkpoint(classes: int) -> dict[str, np.ndarray]:
    shapes = lcnetv3_shapes() | neck_shapes(480, 120, classes) | nrtr_shapes(480, 384, classes + 4)
    return {name: np.full(shape, index, np.float32) for index, (name, shape) in enumerate(shapes.items())}


def test_v4_checkpoint_is_consumed_whole() -> None:
    network = rec.ppocrv4_mobile_rec(classes=11)
    arrays = v4_checkpoint(11)
    rec.load_paddle(network, arrays)
    names = list(arrays)
    guide = network.guide
    assert isinstance(guide, NrtrGuide)
    block = guide.blocks[2]
    assert names[int(block.cross_attention.kv.weight[0, 0])] == "head.gtc_head.decoder.2.cross_attn.kv.weight"  # type: ignore[union-attr, index]
    assert names[int(guide.positions[7, 0, 0])] == "head.gtc_head.positional_encoding.pe"
    assert names[int(network.neck.conv5.conv.weight[0, 0, 0, 0])] == "head.ctc_encoder.encoder.conv1x1.conv.weight"
    assert not guide.embedding.weight[0].any(), "Paddle looks the padding token up as zeros"


def test_every_name_left_over_is_said() -> None:
    network = rec.ppocrv4_mobile_rec(classes=11)
    arrays = v4_checkpoint(11)
    arrays["head.extra.weight"] = np.zeros(3, np.float32)
    arrays["head.ctc_head.fc.bias"] = np.zeros(12, np.float32)
    del arrays["head.ctc_encoder.encoder.norm.bias"]
    with pytest.raises(ValueError) as error:
        rec.load_paddle(network, arrays)
    for part in ("neck.norm.bias", "head.extra.weight", "head.ctc_head.fc.bias (12,) for classifier.bias (11,)"):
        assert part in str(error.value)


def test_direction_checkpoint_names() -> None:
    """Names of `ppocr/modeling/backbones/rec_mobilenet_v3.py` and `heads/cls_head.py`."""
    network = cls.ppocr_mobile_v2_cls()
    with pytest.raises(ValueError) as error:
        cls.load_paddle(
            network,
            {
                "backbone.conv1.conv.weight": np.zeros((8, 3, 3, 3), np.float32),
                "backbone.blocks.0.expand_conv.bn._variance": np.zeros(8, np.float32),
                "backbone.blocks.0.mid_se.conv1.weight": np.zeros((2, 8, 1, 1), np.float32),
                "backbone.conv2.bn._mean": np.zeros(200, np.float32),
                "head.fc.weight": np.zeros((200, 2), np.float32),
            },
        )
    assert "arrays without a place: none; wrong shape: none" in str(error.value)


def test_direction_network_keeps_columns() -> None:
    network = cls.ppocr_mobile_v2_cls().eval()
    assert network.backbone(torch.zeros(1, 3, 48, 192))[-1].shape == (1, 200, 2, 96)
    assert network(torch.zeros(0, 3, 48, 192)).shape == (0, 2)
    ori = cls.pplcnet_textline_ori(scale=0.25).eval()
    assert ori.features(torch.zeros(1, 3, 80, 160))[-1].shape == (1, 128, 3, 80)


@pytest.mark.parametrize("load", [rec.load_published, cls.load_published])
def test_unknown_published_names(load: Callable[..., nn.Module]) -> None:
    with pytest.raises(ValueError, match="nosuch"):
        load("nosuch", {"linear_0.b_0": np.zeros(5, np.float32)})


def test_graph_arrays_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"conv2d_0\.w_0 \(8, 3, 5, 5\) came where backbone\.stem\.conv\.weight"):
        rec.load_published(
            "ppocrv3_x", {"conv2d_0.w_0": np.zeros((8, 3, 5, 5), np.float32), "linear_0.b_0": np.zeros(5, np.float32)}
        )
    with pytest.raises(ValueError, match="no parameters"):
        rec.load_published("ppocrv3_x", {"Constant_0": np.zeros((), np.float32)})
