"""Published weights: fetched from the sources an entry names, proved by sha256, kept in a cache, read without torch."""

from zoo.weights.cache import charset, get, get_all, home, verify, where
from zoo.weights.entry import (
    File,
    FileSource,
    HubSource,
    Preprocessing,
    Source,
    UrlSource,
    Weights,
    WeightsError,
    WheelSource,
)

__all__ = [
    "File",
    "FileSource",
    "HubSource",
    "Preprocessing",
    "Source",
    "UrlSource",
    "Weights",
    "WeightsError",
    "WheelSource",
    "charset",
    "get",
    "get_all",
    "home",
    "verify",
    "where",
]
