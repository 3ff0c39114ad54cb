"""PP-OCR text detection by differentiable binarisation: v3 student and teacher, v4 and v5 mobile.

Shapes: pictures (N, 3, H, W), channels BGR, normalised, H and W multiples of 32; maps (N, 1, H, W) of probabilities.
Source: DB (https://arxiv.org/abs/1911.08947), PP-OCRv3 (https://arxiv.org/abs/2206.03001); PaddleOCR
`ppocr/modeling/heads/det_db_head.py`, `configs/det/ch_PP-OCRv3`, `configs/det/ch_PP-OCRv4`.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from zoo.assign import Renames, assign_by_name, assign_in_order
from zoo.classification import mobilenetv3, resnet_vd
from zoo.layers import fuse
from zoo.ocr.necks import LKPAN, NECK_NAMES, RSEFPN, Mode
from zoo.ocr.pplcnetv3 import PPLCNETV3_NAMES, PPLCNetV3Detection, without_unused

Kernels = tuple[int, int, int]
"""Of the head's convolution and its two transposed convolutions."""
_NORM_OFFSET = 1e-4


class DetectionOutput(NamedTuple):
    """Maps of probabilities, each (N, 1, H, W).

    shrink: where the shrunk text is; threshold: what `shrink` is compared with at each place; binary: their soft
    comparison. The last two are None in eval mode.
    """

    shrink: Tensor
    threshold: Tensor | None
    binary: Tensor | None


class MapHead(nn.Module):
    """Convolution and two transposed convolutions: features at stride 4 to a map of probabilities at full size."""

    def __init__(self, in_channels: int, kernels: Kernels, *, fix_nan: bool) -> None:
        super().__init__()
        width = in_channels // 4
        self.fix_nan = fix_nan
        self.conv1 = nn.Conv2d(in_channels, width, kernels[0], padding=kernels[0] // 2, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.ConvTranspose2d(width, width, kernels[1], 2)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.ConvTranspose2d(width, 1, kernels[2], 2)
        for norm in (self.norm1, self.norm2):
            nn.init.constant_(norm.bias, _NORM_OFFSET)
        for conv in (self.conv2, self.conv3):
            nn.init.kaiming_uniform_(conv.weight, nonlinearity="relu")
            assert conv.bias is not None
            nn.init.uniform_(conv.bias, -(width**-0.5), width**-0.5)

    def forward(self, features: Tensor) -> Tensor:
        features = self._guarded(torch.relu(self.norm1(self.conv1(features))))
        features = self._guarded(torch.relu(self.norm2(self.conv2(features))))
        return torch.sigmoid(self.conv3(features))

    def _guarded(self, features: Tensor) -> Tensor:
        if not (self.fix_nan and self.training):
            return features
        return torch.where(features.isnan(), torch.zeros_like(features), features)


class DBHead(nn.Module):
    """The shrink map, and while training the threshold map and 1 / (1 + exp(-steepness * (shrink - threshold))).

    `fix_nan` replaces NaN by 0 between the layers while training, as PP-OCRv5's configurations do. `threshold=False`
    leaves the threshold branch out: a network for inference alone.
    """

    def __init__(
        self,
        in_channels: int,
        *,
        kernels: Kernels = (3, 2, 2),
        steepness: float = 50.0,
        fix_nan: bool = False,
        threshold: bool = True,
    ) -> None:
        super().__init__()
        self.steepness = steepness
        self.shrink = MapHead(in_channels, kernels, fix_nan=fix_nan)
        self.threshold = MapHead(in_channels, kernels, fix_nan=fix_nan) if threshold else None

    def forward(self, features: Tensor) -> DetectionOutput:
        shrink = self.shrink(features)
        if not self.training:
            return DetectionOutput(shrink, None, None)
        if self.threshold is None:
            raise ValueError("this network has no threshold branch: build it with threshold=True to train it")
        threshold = self.threshold(features)
        return DetectionOutput(shrink, threshold, torch.sigmoid(self.steepness * (shrink - threshold)))


class TextDetector(nn.Module):
    """Backbone, neck, head."""

    def __init__(self, backbone: nn.Module, neck: RSEFPN | LKPAN, head: DBHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.neck = neck
        self.head = head

    def forward(self, images: Tensor) -> DetectionOutput:
        return self.head(self.neck(self.backbone(images)))


class PublishedDetector(nn.Module):
    """The published inference graph: pictures (N, 3, H, W) to the shrink map (N, 1, H, W)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images).shrink


def ppocrv3_mobile_det(
    *,
    size: mobilenetv3.Size = "large",
    scale: float = 0.5,
    gates: bool = False,
    neck_channels: int = 96,
    shortcut: bool = True,
    intracl: bool = False,
    kernels: Kernels = (3, 2, 2),
    steepness: float = 50.0,
    threshold: bool = True,
) -> TextDetector:
    """PP-OCRv3 detection: MobileNetV3, RSE-FPN, DB."""
    backbone = mobilenetv3.detection_backbone(size=size, scale=scale, gates=gates)
    neck = RSEFPN(backbone.out_channels, out_channels=neck_channels, shortcut=shortcut, intracl=intracl)
    head = DBHead(neck.out_channels, kernels=kernels, steepness=steepness, threshold=threshold)
    return TextDetector(backbone, neck, head)


def ppocrv3_teacher_det(
    *,
    layers: resnet_vd.Layers = 50,
    neck_channels: int = 256,
    mode: Mode = "large",
    intracl: bool = False,
    kernels: Kernels = (7, 2, 2),
    steepness: float = 50.0,
    threshold: bool = True,
) -> TextDetector:
    """The teacher of PP-OCRv3 detection: ResNet-vd, LK-PAN, DB."""
    backbone = resnet_vd.ResNetVd(layers=layers)
    neck = LKPAN(backbone.out_channels, out_channels=neck_channels, mode=mode, intracl=intracl)
    head = DBHead(neck.out_channels, kernels=kernels, steepness=steepness, threshold=threshold)
    return TextDetector(backbone, neck, head)


def ppocrv4_mobile_det(
    *,
    scale: float = 0.75,
    branches: int = 4,
    neck_channels: int = 96,
    shortcut: bool = True,
    intracl: bool = False,
    kernels: Kernels = (3, 2, 2),
    steepness: float = 50.0,
    fix_nan: bool = False,
    threshold: bool = True,
) -> TextDetector:
    """PP-OCRv4 mobile detection: PP-LCNetV3, RSE-FPN, DB; `layers.fuse` gives its form for inference."""
    backbone = PPLCNetV3Detection(scale=scale, branches=branches)
    neck = RSEFPN(backbone.out_channels, out_channels=neck_channels, shortcut=shortcut, intracl=intracl)
    head = DBHead(neck.out_channels, kernels=kernels, steepness=steepness, fix_nan=fix_nan, threshold=threshold)
    return TextDetector(backbone, neck, head)


def ppocrv5_mobile_det(*, scale: float = 0.75, neck_channels: int = 96, threshold: bool = True) -> TextDetector:
    """PP-OCRv5 mobile detection: the network of v4 mobile, trained with `fix_nan`."""
    return ppocrv4_mobile_det(scale=scale, neck_channels=neck_channels, fix_nan=True, threshold=threshold)


_HEAD_NAMES: Renames = (
    (r"^head\.binarize\.", "head.shrink."),
    (r"^head\.thresh\.", "head.threshold."),
    (r"^(head\..*)\.conv_bn([12])\.", r"\1.norm\2."),
)


def _backbone_names(backbone: nn.Module) -> Renames:
    if isinstance(backbone, mobilenetv3.MobileNetV3):
        return mobilenetv3.detection_names(backbone)
    if isinstance(backbone, resnet_vd.ResNetVd):
        return resnet_vd.DETECTION_NAMES
    assert isinstance(backbone, PPLCNetV3Detection), type(backbone)
    return PPLCNETV3_NAMES


def load_paddle(network: TextDetector, arrays: Mapping[str, np.ndarray]) -> None:
    """Fills `network` in place from a PaddleOCR training checkpoint (`backbone.conv1.conv.weight` and the like).

    Raises ValueError that lists every name left over on either side. In a checkpoint of several networks ("Student.")
    pick one with `of_network` first.
    """
    if isinstance(network.backbone, PPLCNetV3Detection):
        arrays = without_unused(arrays)
    assign_by_name(network, arrays, (*_backbone_names(network.backbone), *NECK_NAMES, *_HEAD_NAMES))


def of_network(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The part of a distillation checkpoint that belongs to the network `name`, such as "Student", without its prefix.

    Raises ValueError that names the networks there are.
    """
    part = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    if not part:
        found = sorted({key.split(".")[0] for key in arrays})
        raise ValueError(f"the checkpoint has no network {name!r}: it has {', '.join(found)}")
    return part


# Published inference graphs, by the names of their weight entries.
_PUBLISHED: dict[str, Callable[..., TextDetector]] = {
    "ppocrv3_mobile_det": ppocrv3_mobile_det,
    "ppocrv3_mobile_det_en": ppocrv3_mobile_det,
    "ppocrv3_mobile_det_multilingual": ppocrv3_mobile_det,
    "ppocrv4_mobile_det": ppocrv4_mobile_det,
    "ppocrv5_mobile_det": ppocrv5_mobile_det,
}
_PARAMETER = re.compile(r"\.[wb]_\d+$")


def load_published(model_name: str, arrays: Mapping[str, np.ndarray]) -> PublishedDetector:
    """The official network `model_name` for inference, from the arrays of its graph in the order of their use.

    Arrays that are no parameters (sizes, scale factors, constants of hard-swish) are left out. Raises ValueError for
    another model's name, or where a parameter is left over on either side.
    """
    if model_name not in _PUBLISHED:
        raise ValueError(f"{model_name!r} is no published detection network: give one of {', '.join(_PUBLISHED)}")
    parameters = {}
    for name, array in arrays.items():
        if _PARAMETER.search(name):
            parameters[name] = array
        elif array.ndim == 4 and array.dtype.kind == "f":
            # A kernel cast to another type, or a bias shaped to (1, C, 1, 1): named after the operation that did it.
            parameters[f"{name}.w_0"] = array
    network = fuse(_PUBLISHED[model_name](threshold=False))
    assign_in_order(network, parameters)
    return PublishedDetector(network).eval()
