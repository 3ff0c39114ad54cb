"""From a checkpoint of training to a network file for reading: folded, exported to ONNX, compared with its source."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from zoo import runtime
from zoo.checkpoint import read_weights
from zoo.layers import fuse
from zoo.ocr import cls, db, networks, rec
from zoo.ocr.trained import PartPage, read_page
from zoo.weights.cache import sha256

TOLERANCE = 1e-4  # of probabilities, beyond what float32 itself is away from float64
_ROUNDING = 4  # how many times as far from float64 as the trained network the exported one may be
_STEPS = 1024  # the most multiples of 32 pixels that a side of a page may have
# Sizes (batch, height, width) at which the exported network is compared; the first is what it is traced with.
_SIZES = {
    "det": ((2, 64, 96), (1, 32, 32), (1, 320, 224)),
    "rec": ((2, 48, 320), (1, 48, 64), (1, 48, 704)),
    "cls": ((2, 48, 192), (1, 48, 192), (5, 48, 192)),
}


def build(network: str, *, classes: int | None = None, guide: bool = False, threshold: bool = True) -> nn.Module:
    """A network of `networks.NETWORKS`, newly initialised. classes, guide: of recognition; threshold: of detection."""
    if network not in networks.NETWORKS:
        raise ValueError(f"network={network!r}: give one of {', '.join(networks.NETWORKS)}")
    make: Callable[..., nn.Module] = networks.NETWORKS[network]
    if network.endswith("_rec"):
        assert classes is not None
        return make(classes=classes, guide=guide)
    return make(threshold=threshold) if network.endswith("_det") else make()


def student_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The first network's part of a checkpoint of two that were trained side by side; others as they are."""
    part = {name.removeprefix("student."): value for name, value in state.items() if name.startswith("student.")}
    return part or dict(state)


def network_of(page: PartPage, checkpoint: Path) -> nn.Module:
    """What a published graph of that task maps, with the weights of a checkpoint: folded, in eval mode.

    Raises ValueError where the checkpoint lacks a tensor of the network.
    """
    network = build(page.network, classes=len(page.charset) + 1, threshold=False)
    state = student_of(read_weights(checkpoint))
    missing, _ = network.load_state_dict({k: v for k, v in state.items() if k in network.state_dict()}, strict=False)
    if missing:
        raise ValueError(f"{checkpoint}: lacks {', '.join(missing[:5])} of {page.network}")
    folded = fuse(network)
    if page.task == "det":
        return db.PublishedDetector(folded).eval()
    if page.task == "rec":
        return rec.PublishedRecognizer(cast(rec.Recognizer, folded)).eval()
    return cls.PublishedDirection(cast(cls.DirectionNetwork, folded)).eval()


def export(part: Path, checkpoint: Path, folder: Path) -> None:
    """Writes network.onnx and bundle.json of a part's checkpoint into `folder`, which appears only when both are right.

    Raises ValueError where the exported network's numbers are not those of the trained one.
    """
    page = read_page(part)
    network = network_of(page, checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making_") as made:
        file = Path(made) / "network.onnx"
        write_onnx(network, page.task, file)
        error = compare(network, page.task, file)
        facts = {
            "domain": "ocr",
            "task": page.task,
            "network": page.network,
            "reader": page.reader,
            "charset": list(page.charset),
            "settings": page.settings,
            "precision": "f32",
            "checkpoint": {"file": str(checkpoint.relative_to(part)), "sha256": sha256(checkpoint)},
            "network_sha256": sha256(file),
            "error": error,
            "metrics": metrics_of(checkpoint),
        }
        (Path(made) / "bundle.json").write_text(json.dumps(facts, ensure_ascii=False, indent=1), encoding="utf-8")
        if folder.exists():  # half a bundle of another kind
            shutil.rmtree(folder)
        Path(made).rename(folder)
        Path(made).mkdir()  # for the end of the temporary folder's life


def metrics_of(checkpoint: Path) -> dict[str, float]:
    """The last evaluation that the checkpoint's state.json tells of, {} where there was none."""
    state = json.loads((checkpoint.parent / "state.json").read_text(encoding="utf-8"))
    return dict(state["metrics"]) if state.get("metrics") else {}


def write_onnx(network: nn.Module, task: str, file: Path) -> None:
    """The network as ONNX; free batch, and free width (rec) or sides in steps of 32 pixels (det)."""
    example = _pictures(*_SIZES[task][0])
    shapes: dict[int, Any] = {0: Dim.DYNAMIC}
    if task == "rec":
        shapes[3] = Dim.DYNAMIC
    if task == "det":
        shapes |= {2: 32 * Dim("rows", min=1, max=_STEPS), 3: 32 * Dim("columns", min=1, max=_STEPS)}
    torch.onnx.export(
        network,
        (example,),
        str(file),
        dynamo=True,
        dynamic_shapes=(shapes,),
        input_names=["x"],
        output_names=["probabilities"],
        external_data=False,
        verbose=False,
    )


@torch.no_grad()
def compare(network: nn.Module, task: str, file: Path) -> float:
    """The largest difference between the file's numbers and the network's, over several sizes.

    Raises ValueError where it is over TOLERANCE by more than float32 explains, measured against float64.
    """
    session = runtime.load(file, threads=1)
    worst = 0.0
    for size in _SIZES[task]:
        pictures = _pictures(*size)
        wanted = network(pictures)
        got = torch.from_numpy(session(pictures.numpy()))
        if got.shape != wanted.shape:
            raise ValueError(f"{file.name}: gives {tuple(got.shape)} for {size}, the network {tuple(wanted.shape)}")
        error = float((got - wanted).abs().max())
        if error > TOLERANCE:
            exact = network.double()(pictures.double())
            network.float()
            own, its = (float((one.double() - exact).abs().max()) for one in (wanted, got))
            if its > TOLERANCE + _ROUNDING * own:
                raise ValueError(
                    f"{file.name}: is {error:.2g} away from the trained network at {size} (float64: {its:.2g}, the "
                    f"trained one {own:.2g}); it was not kept"
                )
        worst = max(worst, error)
    return worst


def _pictures(batch: int, height: int, width: int) -> Tensor:
    """Stripes and noise of a fixed seed, float32 (batch, 3, height, width) in -1..1."""
    random = np.random.default_rng(0)
    stripes = np.sin(np.arange(width) / 4)[None, None, None] * np.cos(np.arange(height) / 9)[None, None, :, None]
    values = 0.7 * stripes + 0.3 * random.uniform(-1, 1, (batch, 3, height, width))
    return torch.from_numpy(values.astype(np.float32))
