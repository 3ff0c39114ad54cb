"""The official recognition and direction weights in the native networks: the same numbers as the published graphs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import nn

from zoo import weights
from zoo.ocr import cls, rec
from zoo.ocr.weights import WEIGHTS
from zoo.weights.onnx import read_onnx
from zoo.weights.paddle import read_pdiparams

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CROPS = 12  # word crops of ICDAR 2015, besides the whole lines
TOLERANCE = 1e-4
RECOGNITION = (
    "ppocrv3_mobile_rec",
    "ppocrv3_mobile_rec_en",
    "ppocrv3_mobile_rec_japan",
    "ppocrv3_mobile_rec_chinese_cht",
    "ppocrv4_mobile_rec",
    "ppocrv5_mobile_rec",
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@lru_cache(maxsize=1)
def lines() -> list[np.ndarray]:
    """Pictures of text lines and words, BGR uint8, of every width."""
    folder = DATA / "ocr_rapidocr_fixtures" / "images"
    crops = DATA / "ocr_icdar2015" / "word_crops_test.zip"
    if not folder.exists() or not crops.exists():
        pytest.skip(f"pictures of text lines are not here: {folder}, {crops}")
    found = [cv2.imread(str(folder / name)) for name in ("text_rec.jpg", "en_rec.jpg", "el_rec.jpg", "text_cls.jpg")]
    with zipfile.ZipFile(crops) as archive:
        names = sorted(name for name in archive.namelist() if name.lower().endswith((".png", ".jpg")))
        for name in names[:: max(1, len(names) // CROPS)][:CROPS]:
            found.append(cv2.imdecode(np.frombuffer(archive.read(name), np.uint8), cv2.IMREAD_COLOR))
    readable = [picture for picture in found if picture is not None]
    assert len(readable) == CROPS + 4
    return readable


def prepared(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    resized = cv2.resize(picture, (width, height)).astype(np.float32)
    return ((resized / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None]


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def official(name: str) -> list[Path]:
    """The entry's files, in its order."""
    try:
        files = weights.get(WEIGHTS[name], progress=False)
    except weights.WeightsError as error:
        pytest.skip(f"the official weights cannot be had here: {error}")
    return [files[file.name] for file in WEIGHTS[name].files]


def differences(network: nn.Module, path: Path, inputs: list[np.ndarray]) -> list[float]:
    graph = session(path)
    found = []
    for image in inputs:
        wanted = graph.run(None, {graph.get_inputs()[0].name: image})[0]
        with torch.no_grad():
            got = network(torch.from_numpy(image)).numpy()
        assert got.shape == wanted.shape
        assert np.array_equal(got.argmax(-1), wanted.argmax(-1))
        found.append(float(np.abs(got - wanted).max()))
    return found


@pytest.mark.parametrize("name", RECOGNITION)
def test_recognition_equals_the_graph(name: str) -> None:
    path = official(name)[0]
    inputs = [prepared(line, 48, max(16, round(48 * line.shape[1] / line.shape[0]))) for line in lines()]
    assert len({image.shape[3] for image in inputs}) > 5, "several widths"
    assert max(differences(rec.load_published(name, read_onnx(path)), path, inputs)) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "height", "width"), [("ppocr_mobile_v2_cls", 48, 192), ("pplcnet_x1_0_textline_ori", 80, 160)]
)
def test_direction_equals_the_graph(name: str, height: int, width: int) -> None:
    path = official(name)[0]
    turned = [np.ascontiguousarray(line[::-1, ::-1]) for line in lines()]
    inputs = [prepared(line, height, width) for line in (*lines(), *turned)]
    assert max(differences(cls.load_published(name, read_onnx(path)), path, inputs)) < TOLERANCE


def test_paddle_format_gives_the_same_numbers() -> None:
    """The v4 weights as Paddle's own files, against the graph that was made from them."""
    model, params = official("ppocrv4_mobile_rec_paddle")[:2]
    network = rec.load_published("ppocrv4_mobile_rec", read_pdiparams(params, model))
    inputs = [prepared(lines()[0], 48, 320)]
    assert max(differences(network, official("ppocrv4_mobile_rec")[0], inputs)) < TOLERANCE
