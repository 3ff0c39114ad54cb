"""The native networks by name, fresh or with official weights. Imports torch."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from zoo.ocr import cls, db, rec
from zoo.ocr.weights import WEIGHTS
from zoo.weights import convert

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ppocrv3_mobile_det": db.ppocrv3_mobile_det,
    "ppocrv3_teacher_det": db.ppocrv3_teacher_det,
    "ppocrv4_mobile_det": db.ppocrv4_mobile_det,
    "ppocrv5_mobile_det": db.ppocrv5_mobile_det,
    "ppocrv3_mobile_rec": rec.ppocrv3_mobile_rec,
    "ppocrv4_mobile_rec": rec.ppocrv4_mobile_rec,
    "ppocrv5_mobile_rec": rec.ppocrv5_mobile_rec,
    "ppocr_mobile_v2_cls": cls.ppocr_mobile_v2_cls,
    "pplcnet_x1_0_textline_ori": cls.pplcnet_textline_ori,
}
_LOADERS = {"det": db.load_published, "rec": rec.load_published, "cls": cls.load_published}


def published(name: str) -> nn.Module:
    """The native network of an entry of `WEIGHTS` with its official weights, fused, in eval mode.

    It maps what the published graph maps: a normalised picture to the probability map, a line to its character
    probabilities, a line to its direction's. Raises ValueError for an entry without a native network.
    """
    entry = WEIGHTS[name]
    if not entry.converter:
        raise ValueError(f"{name}: has no native network; the published graph is the model (engine='openvino')")
    return _LOADERS[entry.task](entry.converter, convert.arrays_of(entry))
