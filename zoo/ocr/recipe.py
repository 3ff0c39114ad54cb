"""The recipe of a reading job: what `zoo ocr --config FILE -o key=value` takes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zoo.ocr.models import READERS, reader_name
from zoo.ocr.settings import ReaderSettings


class Recipe(BaseModel):
    """A reader, its settings and how it runs. `settings` left out takes those the model was published with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(None, description=f"one of {', '.join(READERS)}")
    lang: str | None = Field(None, description="ch, en, japan or chinese_cht")
    settings: ReaderSettings | None = None
    engine: Literal["auto", "openvino", "onnxruntime", "torch"] = "auto"
    precision: Literal["f32", "fast"] = "f32"
    device: str = "cpu"
    threads: int | None = Field(None, ge=1)
    workers: int = Field(1, ge=1, description="pictures read at once")
    pages: str | None = Field(None, description="pages of a document, such as 1,3-5,7-")
    dpi: int | None = Field(None, ge=36, le=1200, description="at which a PDF page is drawn")

    @model_validator(mode="after")
    def _combination(self) -> Recipe:
        reader_name(self.model, self.lang)
        return self
