"""Reading text: PP-OCR detection, direction and recognition. Importing this imports no torch and no engine.

>>> from zoo import ocr
>>> sorted(ocr.READERS)[:2]
['ppocrv3_mobile', 'ppocrv3_mobile_chinese_cht']
"""

from __future__ import annotations

from typing import Any

from zoo.ocr.models import MODELS, READERS, load
from zoo.ocr.page import Line, Page, Word
from zoo.ocr.settings import ClsSettings, DetSettings, ReaderSettings, RecSettings

__all__ = [
    "MODELS",
    "READERS",
    "ClsSettings",
    "DetSettings",
    "Line",
    "Page",
    "Reader",
    "ReaderSettings",
    "RecSettings",
    "Word",
    "load",
]


def __getattr__(name: str) -> Any:
    if name == "Reader":  # its module imports numpy code that a mere import of the package need not wait for
        from zoo.ocr.pipeline import Reader

        return Reader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
