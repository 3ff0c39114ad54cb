"""PP-OCR text-line recognition: v3 (SVTR-LCNet) and v4 / v5 mobile (PP-LCNetV3), with their attention branches.

Shapes: pictures (N, 3, 48, W), T = W / 8 columns, K CTC classes (0 blank, then the charset, then space).
Source: PP-OCRv3 (https://arxiv.org/abs/2206.03001); PaddleOCR `configs/rec/PP-OCRv3`, `configs/rec/PP-OCRv4`,
`ppocr/modeling/heads/rec_multi_head.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor, nn

from zoo.assign import Renames, assign_by_name, assign_in_order, graph_parameters
from zoo.layers import fuse
from zoo.ocr.guide import GuideTargets
from zoo.ocr.nrtr import NrtrGuide
from zoo.ocr.pplcnetv3 import PPLCNETV3_NAMES, PPLCNetV3Recognition
from zoo.ocr.sar import SarGuide
from zoo.ocr.svtr import SvtrNeck
from zoo.ocr.svtr_lcnet import MobileNetV1Enhance

# CTC classes of the published Chinese networks: blank, charset, space.
V3_CLASSES = 6625
V5_CLASSES = 18385
# SAR adds start and padding to the CTC classes; NRTR has padding, unknown, start and end in place of the blank.
SAR_EXTRA_CLASSES = 2
NRTR_EXTRA_CLASSES = 3


class RecognitionOutput(NamedTuple):
    """What a recognition network gives.

    logits: (N, T, K) CTC scores before softmax; sequence: (N, T, dims) what the CTC classifier reads;
    features: (N, C, 1, T) of the backbone; guide_scores: (N, L, classes) of the attention branch, None without targets.
    """

    logits: Tensor
    sequence: Tensor
    features: Tensor
    guide_scores: Tensor | None


class Recognizer(nn.Module):
    """Backbone, SVTR neck, CTC classifier, and while training an attention branch (`guide`) on the same features."""

    def __init__(
        self,
        backbone: MobileNetV1Enhance | PPLCNetV3Recognition,
        neck: SvtrNeck,
        *,
        dims: int,
        classes: int,
        guide: SarGuide | NrtrGuide | None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.neck = neck
        self.classifier = nn.Linear(dims, classes)
        nn.init.uniform_(self.classifier.weight, -(dims**-0.5), dims**-0.5)
        nn.init.uniform_(self.classifier.bias, -(dims**-0.5), dims**-0.5)
        self.guide = guide

    def forward(self, images: Tensor, targets: GuideTargets | None = None) -> RecognitionOutput:
        """Scores of (N, 3, 48, W) pictures, channels BGR in -1..1; `targets` are for the attention branch."""
        features = self.backbone(images)
        sequence = self.neck(features)
        guide_scores = None
        if targets is not None:
            if self.guide is None:
                raise ValueError("this network has no attention branch: build it with guide=True or give no targets")
            guide_scores = self.guide(features, targets)
        return RecognitionOutput(self.classifier(sequence), sequence, features, guide_scores)


class PublishedRecognizer(nn.Module):
    """The published inference graph: pictures (N, 3, 48, W) to CTC probabilities (N, T, K)."""

    def __init__(self, network: Recognizer) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images).logits.softmax(dim=-1)


def ppocrv3_mobile_rec(
    *,
    classes: int = V3_CLASSES,
    guide: bool = True,
    scale: float = 0.5,
    pool: tuple[int, int] = (2, 2),
    dims: int = 64,
    hidden: int = 120,
    depth: int = 2,
    guide_width: int = 512,
) -> Recognizer:
    """PP-OCRv3 recognition of `classes` CTC classes (blank and space included), with its SAR branch when `guide`."""
    backbone = MobileNetV1Enhance(scale=scale, pool=pool)
    channels = backbone.out_channels
    neck = SvtrNeck(channels, dims=dims, hidden=hidden, depth=depth, kernel=(3, 3))
    branch = SarGuide(channels, classes=classes + SAR_EXTRA_CLASSES, width=guide_width) if guide else None
    return Recognizer(backbone, neck, dims=dims, classes=classes, guide=branch)


def ppocrv4_mobile_rec(
    *,
    classes: int = V3_CLASSES,
    guide: bool = True,
    scale: float = 0.95,
    dims: int = 120,
    hidden: int = 120,
    depth: int = 2,
    guide_width: int = 384,
    guide_depth: int = 4,
) -> Recognizer:
    """PP-OCRv4 mobile recognition of `classes` CTC classes, with its NRTR branch when `guide`."""
    backbone = PPLCNetV3Recognition(scale=scale)
    channels = backbone.out_channels
    neck = SvtrNeck(channels, dims=dims, hidden=hidden, depth=depth, kernel=(1, 3))
    branch: NrtrGuide | None = None
    if guide:
        branch = NrtrGuide(channels, classes=classes + NRTR_EXTRA_CLASSES, width=guide_width, depth=guide_depth)
    return Recognizer(backbone, neck, dims=dims, classes=classes, guide=branch)


def ppocrv5_mobile_rec(*, classes: int = V5_CLASSES, guide: bool = True) -> Recognizer:
    """PP-OCRv5 mobile recognition: the v4 network with a larger charset."""
    return ppocrv4_mobile_rec(classes=classes, guide=guide)


_NECK_NAMES: Renames = (
    (r"^head\.ctc_encoder\.encoder\.", "neck."),
    (r"^neck\.svtr_block\.", "neck.blocks."),
    (r"^(neck\.blocks\.\d+)\.mlp\.", r"\1."),
    (r"^neck\.conv1x1\.", "neck.conv5."),
    (r"^head\.ctc_head\.fc\.", "classifier."),
)
_V3_NAMES: Renames = (
    (r"^backbone\.conv1\.", "backbone.stem."),
    (r"^backbone\.block_list\.", "backbone.blocks."),
    (r"\._depthwise_conv\.", ".depthwise."),
    (r"\._pointwise_conv\.", ".pointwise."),
    (r"\._se\.", ".gate."),
    (r"\._conv\.", ".conv."),
    (r"\._batch_norm\.", ".norm."),
)
_SAR_NAMES: Renames = (
    (r"^head\.sar_head\.", "guide."),
    # Paddle lists each LSTM tensor under two names: weight_ih_l0 and 0.cell.weight_ih.
    (r"\.(rnn_..coder)\.(\d)\.cell\.(\w+)$", r".\1.\3_l\2"),
    (r"\.encoder\.rnn_encoder\.(\w+)_l0$", r".encoder.first.\1_l0"),
    (r"\.encoder\.rnn_encoder\.(\w+)_l1$", r".encoder.second.\1_l0"),
    (r"\.rnn_decoder\.", ".lstm."),
    (r"\.decoder\.conv1x1_1\.", ".decoder.query."),
    (r"\.decoder\.conv3x3_1\.", ".decoder.key."),
    (r"\.decoder\.conv1x1_2\.", ".decoder.energy."),
)
_NRTR_NAMES: Renames = (
    (r"^head\.before_gtc\.1\.fc\.", "guide.project."),
    (r"^head\.gtc_head\.", "guide."),
    (r"^guide\.embedding\.embedding\.", "guide.embedding."),
    (r"^guide\.positional_encoding\.pe$", "guide.positions"),
    (r"^guide\.decoder\.", "guide.blocks."),
    (r"\.self_attn\.", ".self_attention."),
    (r"\.cross_attn\.", ".cross_attention."),
    (r"\.out_proj\.", ".out."),
    (r"^(guide\.blocks\.\d+)\.mlp\.", r"\1."),
    (r"^guide\.tgt_word_prj\.", "guide.prediction."),
)


def load_paddle(network: Recognizer, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from a PaddleOCR training checkpoint (`backbone.conv1._conv.weight` and the like).

    Raises ValueError that lists every name left over on either side.
    """
    backbone = _V3_NAMES if isinstance(network.backbone, MobileNetV1Enhance) else PPLCNETV3_NAMES
    guide = _NRTR_NAMES if isinstance(network.guide, NrtrGuide) else _SAR_NAMES
    assign_by_name(network, arrays, (*backbone, *_NECK_NAMES, *guide))


def load_published(model_name: str, arrays: Mapping[str, np.ndarray]) -> PublishedRecognizer:
    """The network of a published inference graph, in eval mode, without training branches.

    model_name: begins with "ppocrv3", "ppocrv4" or "ppocrv5"; arrays: the graph's arrays in the order of their use.
    The charset's size is taken from the arrays. Raises ValueError for another name or when anything is left over.
    """
    parameters = graph_parameters(arrays)
    if not parameters:
        raise ValueError(f"{model_name}: the file holds no parameters")
    classes = next(reversed(parameters.values())).size
    if model_name.startswith("ppocrv3"):
        network = ppocrv3_mobile_rec(classes=classes, guide=False)
    elif model_name.startswith(("ppocrv4", "ppocrv5")):
        folded = fuse(ppocrv4_mobile_rec(classes=classes, guide=False))  # as the published graphs are
        assert isinstance(folded, Recognizer)
        network = folded
    else:
        raise ValueError(f"{model_name!r} is no native recognition network: give a name of ppocrv3, ppocrv4 or ppocrv5")
    assign_in_order(network, parameters)
    return PublishedRecognizer(network).eval()
