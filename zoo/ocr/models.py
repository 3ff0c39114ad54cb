"""Which weights make a reader, and `load`. No torch: native networks are imported when one is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """A reader with official weights, fetched on first use, checked by sha256 and kept; or with those of a run.

    name: a key of `READERS`, default "ppocrv4_mobile", or a run folder of tools/train.py.
    lang: "ch", "en", "japan" or "chinese_cht", for the member of that family which reads it.
    settings: in place of those the model was published with. threads: processor threads, default all.
    engine: "openvino", "onnxruntime", "torch" (the native networks), or "auto". precision: "f32", or "fast", which
    lets the CPU choose bf16. device: "cpu"; "gpu" (OpenVINO) and "cuda" (torch, ONNX Runtime) are written but have
    been run on no such machine. workers: how many pictures your own threads will read at once with this reader.
    Raises ValueError for a wrong name or setting, `zoo.weights.WeightsError` where the weights cannot be had.
    """
    if name is not None and name not in READERS and Path(name).is_dir():
        from zoo.ocr import trained

        if lang is not None:
            raise ValueError(f"lang={lang!r}: {name} is a run folder, which reads what it was trained for")
        return trained.load(
            Path(name),
            settings=settings,
            threads=threads,
            engine=engine,
            precision=precision,
            device=device,
            workers=workers,
        )
    name = reader_name(name, lang)
    chosen = settings or READERS[name].settings
    graphs = published_graphs(name, ["det", "rec", *(["cls"] if chosen.use_cls else [])])
    return assemble(
        name,
        graphs,
        chosen,
        threads=threads,
        engine=engine,
        precision=precision,
        device=device,
        workers=workers,
    )


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A network file ready to be compiled. native: gives it as a torch module, None where there is none.

    side: of a graph that takes squares of one size only; 0: any size. charset: of recognition, else empty.
    """

    file: Path
    native: Callable[[], Any] | None
    side: int = 0
    charset: tuple[str, ...] = ()


def published_graphs(name: str, tasks: Sequence[str]) -> dict[str, Graph]:
    """The official networks of a reader for "det", "rec" or "cls", fetched where absent."""
    from zoo import weights

    parts = {task: WEIGHTS[getattr(READERS[name], task)] for task in tasks}
    files = weights.get_all(parts.values())
    return {
        task: Graph(
            file=files[part.name][part.files[0].name],
            native=partial(_native, part.name) if part.converter else None,
            side=part.preprocessing.shape[1] if task == "det" else 0,
            charset=weights.charset(part) if task == "rec" else (),
        )
        for task, part in parts.items()
    }


def _native(name: str) -> nn.Module:
    from zoo.ocr import networks

    return networks.published(name)


def assemble(
    name: str,
    graphs: Mapping[str, Graph],
    settings: ReaderSettings,
    *,
    threads: int | None,
    engine: Engine,
    precision: Precision,
    device: str,
    workers: int,
) -> Reader:
    """The reader of the graphs "det", "rec" and, if it is there, "cls"; the arguments are those of `load`."""
    from zoo import runtime
    from zoo.ocr.pipeline import Reader
    from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser

    count = threads if threads is not None else runtime.available_threads()

    def session(task: str) -> Session:
        return runtime.load(
            graphs[task].file,
            engine=engine,
            threads=count,
            streams=workers if task == "det" else count,
            precision=precision,
            device=device,
            native=graphs[task].native,
        )

    # Compiling a network keeps one processor busy, so they are compiled side by side.
    with ThreadPoolExecutor(len(graphs)) as pool:
        sessions = dict(zip(graphs, pool.map(session, graphs), strict=True))
    return Reader(
        name=name,
        detector=Detector(sessions["det"], settings.det, graphs["det"].side),
        classifier=DirectionClassifier(sessions["cls"], settings.cls) if "cls" in sessions else None,
        recogniser=Recogniser(sessions["rec"], graphs["rec"].charset, settings.rec),
        settings=settings,
    )
