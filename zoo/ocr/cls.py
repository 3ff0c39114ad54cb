"""Direction of a text line, 0 or 180 degrees: PP-OCR mobile v2 (MobileNetV3) and PP-OCRv5's (PP-LCNet).

Shapes: pictures (N, 3, H, W) in, logits (N, 2) out; 48 x 192 for the former, 80 x 160 for the latter.
Source: PaddleOCR `configs/cls/cls_mv3.yml`, `ppocr/modeling/backbones/rec_mobilenet_v3.py`,
`ppocr/modeling/heads/cls_head.py`; PaddleX `PP-LCNet_x1_0_textline_ori`.
"""

import re
from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.assign import Renames, assign_by_name, assign_in_order
from zoo.classification.mobilenetv3 import BLOCK_NAMES, SMALL, MobileNetV3
from zoo.classification.pplcnet import PPLCNet
from zoo.layers import Stride

_TEXT_LINE: Stride = (2, 1)  # rows are halved, columns kept


class DirectionNetwork(nn.Module):
    """MobileNetV3 small that keeps the columns of a text line, pooling, and logits (N, classes)."""

    def __init__(self, *, scale: float = 0.35, classes: int = 2) -> None:
        super().__init__()
        strides = [_TEXT_LINE if block.stride == 2 else (1, 1) for block in SMALL]
        self.backbone = MobileNetV3(size="small", scale=scale, strides=strides)
        channels = self.backbone.out_channels[-1]
        self.classifier = nn.Linear(channels, classes)
        nn.init.uniform_(self.classifier.weight, -(channels**-0.5), channels**-0.5)
        nn.init.uniform_(self.classifier.bias, -(channels**-0.5), channels**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        features = F.max_pool2d(self.backbone(images)[-1], 2)
        return self.classifier(features.mean(dim=(2, 3)))


class PublishedDirection(nn.Module):
    """The published inference graph: pictures to probabilities (N, 2) of 0 and 180 degrees."""

    def __init__(self, network: DirectionNetwork | PPLCNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images).softmax(dim=1)


def ppocr_mobile_v2_cls() -> DirectionNetwork:
    """The direction classifier of PP-OCR mobile v2, used with v3 and v4 too."""
    return DirectionNetwork()


def pplcnet_textline_ori(*, scale: float = 1.0) -> PPLCNet:
    """PaddleX PP-LCNet_x{scale}_textline_ori: x0_25 and x1_0 have published weights."""
    return PPLCNet(scale=scale, classes=2, strides=((2, 2), *(_TEXT_LINE,) * 4))


_NAMES: Renames = (
    (r"^backbone\.conv1\.", "backbone.stem."),
    (r"^backbone\.conv2\.", "backbone.last."),
    *BLOCK_NAMES,
    (r"^(backbone\..*)\.bn\.", r"\1.norm."),
    (r"^head\.fc\.", "classifier."),
)


def load_paddle(network: DirectionNetwork, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from a PaddleOCR training checkpoint; ValueError lists every name left over."""
    assign_by_name(network, arrays, _NAMES)


def load_published(model_name: str, arrays: Mapping[str, np.ndarray]) -> PublishedDirection:
    """The network of a published inference graph, in eval mode.

    model_name: "ppocr_mobile_v2_cls" or "pplcnet_x<scale>_textline_ori", for example "pplcnet_x1_0_textline_ori";
    arrays: the graph's arrays in the order of their use. Raises ValueError for another name or when anything is left.
    """
    text_line = re.fullmatch(r"pplcnet_x(\d+)_(\d+)_textline_ori", model_name)
    network: DirectionNetwork | PPLCNet
    if text_line:
        network = pplcnet_textline_ori(scale=float(f"{text_line[1]}.{text_line[2]}"))
    elif model_name == "ppocr_mobile_v2_cls":
        network = ppocr_mobile_v2_cls()
    else:
        raise ValueError(
            f"{model_name!r} is no native direction classifier: give ppocr_mobile_v2_cls or pplcnet_x1_0_textline_ori"
        )
    assign_in_order(network, arrays)
    return PublishedDirection(network).eval()
