"""Any published file to safetensors and a JSON page about it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from zoo.ocr.weights import WEIGHTS
from zoo.weights import cache, convert
from zoo.weights.paddle import read_safetensors

Official = Callable[..., dict[str, dict[str, Path]]]

ARRAYS = {
    "z.first": np.arange(6, dtype="f4").reshape(2, 3),
    "a.second": np.array(3, "i8"),
    "empty": np.zeros((0, 2), "f2"),
    "bool": np.array([True, False]),
}


def test_no_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(save({}))
    assert read_safetensors(tmp_path / "a.safetensors") == {}
    tensors, page = convert.convert(tmp_path / "a.safetensors", tmp_path / "out")
    assert load_file(tensors) == {}
    assert json.loads(page.read_text())["order"] == []


def test_safetensors_come_back(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(save(ARRAYS))
    found = read_safetensors(tmp_path / "a.safetensors")
    assert set(found) == set(ARRAYS)
    assert all(
        np.array_equal(found[name], array) and found[name].dtype == array.dtype for name, array in ARRAYS.items()
    )


@pytest.mark.parametrize("left", [0, 4, 8, 50, -1])
def test_safetensors_cut_short(tmp_path: Path, left: int) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(save(ARRAYS)[:left])
    with pytest.raises(ValueError, match=r"a\.safetensors: not a whole safetensors file"):
        convert.read(path)


@pytest.mark.parametrize("out", ["new/out", "new/out.safetensors", "new/out.json", "new/v1.5"])
def test_names_order_and_numbers_are_those_of_the_source(tmp_path: Path, out: str) -> None:
    source = tmp_path / "a.pdparams"
    source.write_bytes(pickle.dumps({**ARRAYS, "turned": ARRAYS["z.first"].T}, 4))
    tensors, page = convert.convert(source, tmp_path / out)
    stem = out.removesuffix(".safetensors").removesuffix(".json")
    assert (tensors, page) == (tmp_path / f"{stem}.safetensors", tmp_path / f"{stem}.json")
    found = load_file(tensors)
    assert np.array_equal(found["turned"], [[0, 3], [1, 4], [2, 5]])
    assert all(np.array_equal(found[name], array) for name, array in ARRAYS.items())
    about = json.loads(page.read_text(encoding="utf-8"))
    assert about["order"] == [*ARRAYS, "turned"]
    assert about["tensors"]["a.second"] == {"shape": [], "dtype": "int64"}
    assert about["source"] == "a.pdparams"
    assert about["sha256"] == {"a.pdparams": cache.sha256(source)}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted([tensors.name, page.name])


@pytest.mark.parametrize("name", ["a.bin", "a.pth", "a"])
def test_other_suffixes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"give an \.onnx, \.pdparams"):
        convert.read(tmp_path / name)


@pytest.mark.parametrize("name", ["ppocrv3_mobile_rec", "ppocr_mobile_v2_cls_paddle"])
def test_official_weights(name: str, official: Official, tmp_path: Path) -> None:
    entry = WEIGHTS[name]
    path = official(name)[name][entry.files[0].name]
    tensors, page = convert.convert(path, tmp_path / "out", entry)
    about, found = json.loads(page.read_text(encoding="utf-8")), load_file(tensors)
    wanted = convert.arrays_of(entry)
    assert about["order"] == list(wanted)
    assert about["licence"] == entry.licence
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())
    listed = {file.name: file.sha256 for file in entry.files}
    assert about["sha256"].items() <= listed.items()
    assert ("character" in about["metadata"]) == entry.charset.startswith("metadata:")
