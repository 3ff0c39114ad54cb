"""The recipe of a training: `tools/train.py -c configs/ocr/ppocrv4.yml -o key=value` takes it.

A part (det, rec, cls) that the recipe has is trained, one that it leaves out is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zoo.ocr.augment_line import LineAugment
from zoo.ocr.augment_page import PageAugment
from zoo.ocr.models import READERS, reader_name
from zoo.ocr.settings import ClsSettings, DetSettings, RecSettings
from zoo.ocr.weights import WEIGHTS
from zoo.train_settings import Train

OFFICIAL, SCRATCH = "official", "scratch"
_START = "official (the weights of `model`), scratch, a weight entry, a run folder, or a .pdparams or .safetensors file"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Frozen):
    """Labels: a file or folder. root: what their picture paths begin at, default the labels' own folder."""

    path: Path
    root: Path | None = None
    format: str = "auto"
    pattern: str | None = Field(None, description="how a text is read from a file name")
    ratio: float | None = Field(None, gt=0, description="samples an epoch takes for each one there is; default 1")


class Data(_Frozen):
    """What is learned and what judges it; each a list of paths, or of sources with their own root, format and ratio.

    cache: decoded pictures are kept in memory, for small sets.
    """

    train: tuple[Source, ...] = ()
    evaluate: tuple[Source, ...] = ()
    root: Path | None = None
    format: str = "auto"
    cache: bool = False

    @field_validator("train", "evaluate", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        values = [value] if isinstance(value, str | Path | dict) else value
        return [{"path": one} if isinstance(one, str | Path) else one for one in values]

    def sources(self, which: Literal["train", "evaluate"]) -> tuple[Source, ...]:
        """The sources with what they leave out taken from the whole."""
        given: tuple[Source, ...] = getattr(self, which)
        return tuple(
            source.model_copy(
                update={
                    "root": source.root or self.root,
                    "format": self.format if source.format == "auto" else source.format,
                }
            )
            for source in given
        )


class DetLoss(_Frozen):
    """Weights of the shrink and threshold terms (the binary one has 1), and negatives for each positive pixel."""

    shrink: float = Field(5.0, ge=0)
    threshold: float = Field(10.0, ge=0)
    negatives: float = Field(3.0, gt=0)


class DetPart(_Frozen):
    """Training of detection.

    network: in place of that of `model`, such as ppocrv3_teacher_det. method: single; dml, two that teach one another;
    cml, two under a frozen teacher as well. dynamic_shrink: the shrink ratio grows from 0.4 to 0.6 (PP-OCRv4).
    """

    train: Train
    data: Data = Data()
    batch: int = Field(8, ge=1, description="pictures on each process")
    workers: int = Field(2, ge=0)
    network: str | None = None
    start: str = Field(OFFICIAL, description=_START)
    method: Literal["single", "dml", "cml"] = "single"
    teacher: str | None = Field(None, description="of cml: a run folder or a file")
    teacher_network: str = "ppocrv3_teacher_det"
    augment: PageAugment = PageAugment()
    loss: DetLoss = DetLoss()
    dynamic_shrink: bool = False
    settings: DetSettings | None = Field(None, description="of the predictor; default as `model` was published")

    @model_validator(mode="after")
    def _combination(self) -> DetPart:
        if any(side % 32 for side in self.augment.crop):
            raise ValueError(f"augment.crop={self.augment.crop}: give multiples of 32")
        if self.method == "cml" and not self.teacher:
            raise ValueError(
                "method=cml needs a teacher, and no weights of one are published: train one "
                "(-o det.network=ppocrv3_teacher_det -o det.method=dml) and give its run folder as det.teacher"
            )
        if self.method != "cml" and self.teacher:
            raise ValueError(f"teacher={self.teacher!r} is of no use with method={self.method}; give method=cml")
        if self.dynamic_shrink and self.train.epochs is None:
            raise ValueError("dynamic_shrink=true needs train.epochs: the ratio grows over the whole training")
        return self


class RecPart(_Frozen):
    """Training of recognition.

    guide: with the attention branch, which alone trains the backbone; false trains it through the CTC branch, faster
    and better on little or simple data. method: single; udml, two peers; distil, under a frozen `teacher`.
    charset: a dictionary file; charset_mode says whether it replaces the characters of `start` or adds to them.
    scales: (width, height) pixels; with several each batch has one of them; a run's predictor pads a line no further.
    widths: fixed fits every line into the scale; own makes batches of similar lines no wider than they need, and reads
    every picture once beforehand.
    """

    train: Train
    data: Data = Data()
    batch: int = Field(64, ge=1, description="lines on each process, at the first scale")
    workers: int = Field(2, ge=0)
    start: str = Field(OFFICIAL, description=_START)
    method: Literal["single", "udml", "distil"] = "single"
    teacher: str | None = Field(None, description="of distil: a weight entry or a run folder")
    guide: bool = True
    charset: Path | None = None
    charset_mode: Literal["replace", "extend"] = "replace"
    charset_space: bool = Field(True, description="the space follows the characters of the file")
    longest: int = Field(25, ge=3, description="characters of the longest line")
    skip_unknown: bool = Field(False, description="leave characters out that the charset lacks, as PaddleOCR does")
    scales: tuple[tuple[int, int], ...] = ((320, 48),)
    widths: Literal["fixed", "own"] = "fixed"
    augment: LineAugment = LineAugment()
    settings: RecSettings | None = Field(None, description="of the predictor; default as `model` was published")

    @model_validator(mode="after")
    def _combination(self) -> RecPart:
        if (self.method == "distil") != bool(self.teacher):
            raise ValueError(f"method={self.method} with teacher={self.teacher!r}: distil needs a teacher, others none")
        if not self.scales or any(side % 8 or side < 8 for scale in self.scales for side in scale):
            raise ValueError(f"scales={self.scales}: give (width, height) pairs of multiples of 8")
        if self.charset_mode == "extend" and self.charset is None:
            raise ValueError("charset_mode=extend needs charset, the file with the characters to add")
        if self.charset_mode == "extend" and self.start == SCRATCH:
            raise ValueError("charset_mode=extend with start=scratch: there is no charset to add to")
        return self


class ClsPart(_Frozen):
    """Training of the direction classifier. labels: given (each says 0 or 180), or turned (made of upright lines)."""

    train: Train
    data: Data = Data()
    batch: int = Field(128, ge=1)
    workers: int = Field(2, ge=0)
    start: str = Field(OFFICIAL, description=_START)
    labels: Literal["given", "turned"] = "turned"
    augment: LineAugment = LineAugment(concat=0.0)
    settings: ClsSettings | None = Field(None, description="of the predictor; default as `model` was published")


class TrainRecipe(_Frozen):
    """A training of one to three networks of a reader."""

    model: str = Field("ppocrv4_mobile", description="the published reader to begin from")
    det: DetPart | None = None
    rec: RecPart | None = None
    cls: ClsPart | None = None

    @model_validator(mode="after")
    def _combination(self) -> TrainRecipe:
        entry = READERS[reader_name(self.model, None)]
        if self.det is None and self.rec is None and self.cls is None:
            raise ValueError("trains nothing: give at least one of det, rec, cls")
        for part in ("det", "rec", "cls"):
            weight = WEIGHTS[getattr(entry, part)]
            if getattr(self, part) is not None and not weight.converter:
                raise ValueError(f"model={self.model!r}: its {part} has no native network to train; give another model")
        return self

    def only(self, part: str) -> TrainRecipe:
        """The recipe of one part. Raises ValueError where it has none."""
        if part not in ("det", "rec", "cls") or getattr(self, part) is None:
            there = [name for name in ("det", "rec", "cls") if getattr(self, name) is not None]
            raise ValueError(f"--only {part}: the recipe trains {', '.join(there)}")
        others = {name: None for name in ("det", "rec", "cls") if name != part}
        return self.model_copy(update=others)
