"""Which weights make a reader, and `load`. No torch: native networks are imported when one is built."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.ocr.settings import DetSettings, ReaderSettings
from zoo.ocr.weights import WEIGHTS

if TYPE_CHECKING:
    from torch import nn

    from zoo.ocr.pipeline import Reader
    from zoo.runtime import Engine, Precision, Session
    from zoo.weights import Weights


@dataclass(frozen=True, kw_only=True)
class ReaderEntry:
    """The weights of a reader, by their names in `WEIGHTS`, and the settings it was published with."""

    det: str
    rec: str
    cls: str
    language: str
    settings: ReaderSettings = field(default_factory=ReaderSettings)


# PaddleOCR 3.x (pipeline OCR.yaml) reads v5 and later at 736 pixels of the shorter side, up to 4000 of the longer.
_LATER = ReaderSettings(det=DetSettings(limit_side=736, limit_type="min"))

READERS: dict[str, ReaderEntry] = {
    "ppocrv3_mobile": ReaderEntry(
        det="ppocrv3_mobile_det", rec="ppocrv3_mobile_rec", cls="ppocr_mobile_v2_cls", language="ch"
    ),
    "ppocrv3_mobile_en": ReaderEntry(
        det="ppocrv3_mobile_det_en", rec="ppocrv3_mobile_rec_en", cls="ppocr_mobile_v2_cls", language="en"
    ),
    "ppocrv3_mobile_japan": ReaderEntry(
        det="ppocrv3_mobile_det_multilingual",
        rec="ppocrv3_mobile_rec_japan",
        cls="ppocr_mobile_v2_cls",
        language="japan",
    ),
    "ppocrv3_mobile_chinese_cht": ReaderEntry(
        det="ppocrv3_mobile_det",
        rec="ppocrv3_mobile_rec_chinese_cht",
        cls="ppocr_mobile_v2_cls",
        language="chinese_cht",
    ),
    "ppocrv4_mobile": ReaderEntry(
        det="ppocrv4_mobile_det", rec="ppocrv4_mobile_rec", cls="ppocr_mobile_v2_cls", language="ch"
    ),
    "ppocrv5_mobile": ReaderEntry(
        det="ppocrv5_mobile_det", rec="ppocrv5_mobile_rec", cls="ppocr_mobile_v2_cls", language="ch", settings=_LATER
    ),
    "ppocrv6_small": ReaderEntry(
        det="ppocrv6_small_det", rec="ppocrv6_small_rec", cls="ppocr_mobile_v2_cls", language="ch", settings=_LATER
    ),
}
DEFAULT = "ppocrv4_mobile"

# One recommended reader for each language that a user may name.
LANGUAGES: dict[str, str] = {
    "ch": "ppocrv4_mobile",
    "en": "ppocrv3_mobile_en",
    "japan": "ppocrv3_mobile_japan",
    "chinese_cht": "ppocrv3_mobile_chinese_cht",
}


def network(name: str) -> nn.Module:
    """The native PyTorch network of that name, freshly initialised."""
    from zoo.ocr import networks

    return networks.NETWORKS[name]()


# Each gives the network for training; the official weights are in `zoo.ocr.networks.published`.
MODELS: dict[str, Callable[[], nn.Module]] = {
    name: partial(network, name)
    for name in (
        "ppocrv3_mobile_det",
        "ppocrv3_teacher_det",
        "ppocrv4_mobile_det",
        "ppocrv5_mobile_det",
        "ppocrv3_mobile_rec",
        "ppocrv4_mobile_rec",
        "ppocrv5_mobile_rec",
        "ppocr_mobile_v2_cls",
        "pplcnet_x1_0_textline_ori",
    )
}


def reader_name(model: str | None, language: str | None) -> str:
    """The reader for a model name, a language, or both; ValueError where there is none."""
    import difflib

    if language is not None and language not in LANGUAGES:
        raise ValueError(f"lang={language!r}: give one of {', '.join(LANGUAGES)}")
    name = model or (LANGUAGES[language] if language else DEFAULT)
    if language and model and READERS.get(model) and READERS[model].language != language:
        others = [n for n in READERS if n.startswith(model.split("_")[0]) and READERS[n].language == language]
        name = others[0] if others else ""
        if not others:
            raise ValueError(
                f"model={model!r} has no {language!r}; lang={language!r} alone takes {LANGUAGES[language]}"
            )
    if name not in READERS:
        close = difflib.get_close_matches(name, READERS, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"give one of {', '.join(READERS)}"
        raise ValueError(f"model={name!r}: no such reader; {hint}")
    return name


def load(
    name: str | None = None,
    *,
    lang: str | None = None,
    settings: ReaderSettings | None = None,
    threads: int | None = None,
    engine: Engine = "auto",
    precision: Precision = "f32",
    device: str = "cpu",
    workers: int = 1,
) -> Reader:
    """A reader with official weights, fetched on first use, checked by sha256 and kept.

    name: a key of `READERS`, default "ppocrv4_mobile".
    lang: "ch", "en", "japan" or "chinese_cht", for the member of that family which reads it.
    settings: in place of those the model was published with. threads: processor threads, default all.
    engine: "openvino", "onnxruntime", "torch" (the native networks), or "auto". precision: "f32", or "fast", which
    lets the CPU choose bf16. device: "cpu"; "gpu" (OpenVINO) and "cuda" (torch, ONNX Runtime) are written but have
    been run on no such machine. workers: how many pictures your own threads will read at once with this reader.
    Raises ValueError for a wrong name or setting, `zoo.weights.WeightsError` where the weights cannot be had.
    """
    from zoo import weights
    from zoo.ocr.pipeline import Reader
    from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
    from zoo.runtime import available_threads

    name = reader_name(name, lang)
    entry = READERS[name]
    chosen = settings or entry.settings
    parts = [WEIGHTS[entry.det], WEIGHTS[entry.rec], *([WEIGHTS[entry.cls]] if chosen.use_cls else [])]
    files = weights.get_all(parts)
    count = threads if threads is not None else available_threads()

    def session(part: Weights, streams: int) -> Session:
        return _session(part, files[part.name], count, streams, engine, precision, device)

    # Compiling a network keeps one processor busy, so they are compiled side by side.
    with ThreadPoolExecutor(len(parts)) as pool:
        det, rec, *cls = pool.map(session, parts, [workers, count, count])
    return Reader(
        name=name,
        detector=Detector(det, chosen.det, parts[0].preprocessing.shape[1]),
        classifier=DirectionClassifier(cls[0], chosen.cls) if cls else None,
        recogniser=Recogniser(rec, weights.charset(parts[1]), chosen.rec),
        settings=chosen,
    )


def _session(
    part: Weights, files: dict[str, Path], threads: int, streams: int, engine: Engine, precision: Precision, device: str
) -> Session:
    from zoo import runtime

    native: Callable[[], Any] | None = None
    if part.converter:

        def native() -> Any:
            from zoo.ocr import networks

            return networks.published(part.name)

    return runtime.load(
        files[part.files[0].name],
        engine=engine,
        threads=threads,
        streams=streams,
        precision=precision,
        device=device,
        native=native,
    )
