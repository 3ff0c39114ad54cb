"""Fixtures for all tests: the labelled data beside the repository, and the official weights."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of labelled data, which is not part of the project; without it the test is skipped."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: the labelled data are not part of the project")
    return folder


@pytest.fixture(scope="session")
def official():
    """A function that gives the files of weight entries by name; where they cannot be had the test is skipped."""
    from zoo import weights
    from zoo.ocr.weights import WEIGHTS

    def files(*names: str) -> dict[str, dict[str, Path]]:
        try:
            return weights.get_all([WEIGHTS[name] for name in names])
        except weights.WeightsError as error:
            pytest.skip(f"no official weights here: {str(error).splitlines()[0]}")

    return files
