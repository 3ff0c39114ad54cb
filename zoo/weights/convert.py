"""Any published file to safetensors and a JSON page about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from zoo.weights.cache import get, sha256, write_atomically
from zoo.weights.entry import Weights
from zoo.weights.onnx import onnx_metadata, read_onnx
from zoo.weights.paddle import read_pdiparams, read_pdparams, read_safetensors

PADDLE = (".pdmodel", ".pdiparams")  # program and numbers, which belong together


def read(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name, by the file's suffix; a .pdmodel is read with the .pdiparams beside it, and the other way round.

    Raises ValueError naming the file, and for a suffix that is not read.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    if path.suffix == ".onnx":
        return read_onnx(path)
    if path.suffix in (".pdparams", ".pdopt"):
        return read_pdparams(path)
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    if path.suffix in PADDLE:
        model, params = _parts(path)
        for needed in (params, model):
            if not needed.is_file():
                raise ValueError(f"{path}: needs {needed.name} beside it")
        return read_pdiparams(params, model)
    raise ValueError(f"{path}: give an .onnx, .pdparams, .pdopt, .pdiparams, .pdmodel or .safetensors file")


def arrays_of(entry: Weights) -> dict[str, np.ndarray]:
    """The arrays of a published network, fetched where absent, in the order in which its graph uses them."""
    return read(get(entry)[entry.files[0].name])


def convert(path: Path, out: Path, about: Weights | None = None) -> tuple[Path, Path]:
    """Writes OUT.safetensors and OUT.json; names are those of the source. Gives both paths."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in read(path).items()}
    stem = out.with_suffix("") if out.suffix in (".safetensors", ".json") else out
    tensors, page = stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")
    write_atomically(tensors, save(arrays))
    write_atomically(page, json.dumps(_page(path, arrays, about), ensure_ascii=False, indent=1).encode())
    return tensors, page


def _parts(path: Path) -> list[Path]:
    """The file, or the two of Paddle's binary format."""
    return [path.with_suffix(suffix) for suffix in PADDLE] if path.suffix in PADDLE else [path]


def _page(path: Path, arrays: dict[str, np.ndarray], about: Weights | None) -> dict[str, Any]:
    page: dict[str, Any] = {
        "source": path.name,
        "sha256": {part.name: sha256(part) for part in _parts(path)},
        # safetensors sorts by name and alignment; this is the order in which the graph uses them.
        "order": list(arrays),
        "tensors": {name: {"shape": list(a.shape), "dtype": str(a.dtype)} for name, a in arrays.items()},
        "metadata": onnx_metadata(path) if path.suffix == ".onnx" else {},
    }
    if about:
        page |= {"name": about.name, "licence": about.licence, "reference": about.reference}
    return page
