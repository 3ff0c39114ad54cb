"""Fonts for tests: Pillow's own is always there, one with Chinese only on some machines."""

from __future__ import annotations

from functools import cache

import pytest

from zoo.ocr import fonts
from zoo.ocr.synth_ink import Face

CHINESE = "宏斑默永和九年，。"


@cache
def chinese_font() -> str:
    """The path of a font with Chinese; the test is skipped where this machine has none."""
    for path in fonts.candidates():
        if path is not None and Face(str(path)).covers(CHINESE):
            return str(path)
    pytest.skip("no font with Chinese here: name one in ZOO_FONT, or pip install noto-cjk-sans-otc")
