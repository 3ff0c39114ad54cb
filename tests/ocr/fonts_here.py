"""Fonts for tests: Pillow's own is always there, one with Chinese only on some machines."""

from __future__ import annotations

import pytest

from zoo.ocr.synth_ink import faces

CHINESE = "宏斑默永和九年，。"


def chinese_font() -> str:
    """A font with Chinese, as the settings take it; the test is skipped where this machine has none."""
    for face in faces(()):
        if face.path is not None and face.covers(CHINESE):
            return f"{face.path}#{face.number}"
    pytest.skip("no font with Chinese here: name one in ZOO_FONT, or pip install noto-cjk-sans-otc")
