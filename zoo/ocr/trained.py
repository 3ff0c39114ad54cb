"""A run folder as a reader: its networks are exported once, checked, kept beside their checkpoint. No torch after that.

A run of several parts has a folder for each (det, rec, cls); what it did not train comes from the model it began with.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from zoo import checkpoint, runtime
from zoo.ocr.models import READERS, Graph, assemble, published_graphs, reader_name
from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
from zoo.ocr.settings import ClsSettings, DetSettings, ReaderSettings, RecSettings
from zoo.ocr.weights import WEIGHTS
from zoo.weights.cache import sha256, write_atomically

if TYPE_CHECKING:
    from zoo.ocr.pipeline import Reader
    from zoo.runtime import Engine, Precision

Part = Literal["det", "rec", "cls"]
PARTS: tuple[Part, ...] = ("det", "rec", "cls")
PAGE = "network.json"
BUNDLES = "bundles"
SETTINGS = {"det": DetSettings, "rec": RecSettings, "cls": ClsSettings}


@dataclass(frozen=True, kw_only=True)
class PartPage:
    """What a part of a run trains, as the file network.json in its folder says.

    reader: the published reader that it began from. network: a key of `MODELS`. charset: of recognition, else empty.
    settings: of the predictor, by their names.
    """

    task: Part
    reader: str
    network: str
    charset: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


def write_page(folder: Path, page: PartPage) -> None:
    """Puts the page into a part's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / PAGE, json.dumps(asdict(page), ensure_ascii=False, indent=1).encode())


def read_page(folder: Path) -> PartPage:
    """The page of a part's folder. Raises ValueError where there is none, or it is of another kind."""
    try:
        values = json.loads((folder / PAGE).read_text(encoding="utf-8"))
        return PartPage(**{**values, "charset": tuple(values["charset"])})
    except FileNotFoundError:
        raise ValueError(f"{folder}: has no {PAGE}, so it is no folder of a training of OCR") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / PAGE}: is damaged or of another version: {error}") from None


def parts_of(run: Path) -> dict[Part, Path]:
    """The trained parts of a run and their folders: those in it, or the folder itself where it is one part."""
    if (run / PAGE).is_file():
        return {read_page(run).task: run}
    return {part: run / part for part in PARTS if (run / part / PAGE).is_file()}


def is_run(name: str | Path) -> bool:
    """Whether this is a run folder rather than a name of published weights."""
    path = Path(name)
    return path.is_dir() and bool(parts_of(path))


def part_of(run: Path, task: Part) -> Path:
    """The folder of one part. Raises ValueError that names the parts there are."""
    found = parts_of(run)
    if task not in found:
        raise ValueError(f"{run}: has trained {', '.join(found) or 'nothing'}, not {task}")
    return found[task]


def weights_of(part: Path) -> Path:
    """The file of the best weights of a part: the averaged ones where the training kept an average."""
    found = checkpoint.best(part)
    if found is None:
        raise ValueError(f"{part}: holds no finished checkpoint yet")
    average = found / "ema.safetensors"
    return average if average.is_file() else found / "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """An exported network. folder holds network.onnx and bundle.json. checkpoint: the weights it was made from."""

    folder: Path
    checkpoint: Path
    page: PartPage
    error: float
    metrics: dict[str, float]

    @property
    def network(self) -> Path:
        """The ONNX file."""
        return self.folder / "network.onnx"


def bundle(part: Path) -> Bundle:
    """The exported best network of a part; made now if these weights have none yet, which needs torch.

    Raises ValueError where there is no checkpoint, where torch is needed and absent, or where the exported network
    does not give the numbers of the trained one.
    """
    weights = weights_of(part)
    folder = part / BUNDLES / sha256(weights)[:16]
    if not (folder / "bundle.json").is_file():
        if not all(find_spec(name) for name in ("torch", "onnx", "onnxscript")):
            raise ValueError(
                f"{part}: its best network is not exported yet, which needs torch, onnx and onnxscript: "
                "pip install 'ppzoo[export]', or load it once where it was trained"
            )
        from zoo.ocr.bundle_export import export

        export(part, weights, folder)
    facts = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    return Bundle(
        folder=folder, checkpoint=weights, page=read_page(part), error=facts["error"], metrics=facts["metrics"]
    )


def _graph(part: Path) -> Graph:
    made = bundle(part)

    def native() -> Any:
        from zoo.ocr.bundle_export import network_of

        return network_of(made.page, made.checkpoint)

    return Graph(file=made.network, native=native, charset=made.page.charset)


def settings_of(run: Path) -> tuple[str, ReaderSettings]:
    """The reader that a run began from, and the settings its parts were evaluated with."""
    pages = {part: read_page(folder) for part, folder in parts_of(run).items()}
    if not pages:
        raise ValueError(f"{run}: has no trained part; give a folder that tools/train.py made")
    names = {page.reader for page in pages.values()}
    if len(names) > 1:
        raise ValueError(f"{run}: its parts began from different readers, {', '.join(sorted(names))}: load one part")
    name = names.pop()
    settings = READERS[reader_name(name, None)].settings
    # JSON has no tuples.
    own = {
        part: SETTINGS[part](**{key: tuple(v) if isinstance(v, list) else v for key, v in page.settings.items()})
        for part, page in pages.items()
        if page.settings
    }
    return name, replace(settings, **own)


@dataclass(frozen=True, kw_only=True)
class Alone:
    """One network's predictor. source: the run or the weight entry; reader: the published reader it belongs to."""

    task: Part
    source: str
    reader: str
    predictor: Detector | Recogniser | DirectionClassifier


def alone(name: str, task: Part | None = None, *, engine: Engine = "auto", threads: int | None = None) -> Alone:
    """The predictor of a run's part, of a weight entry, or of one task of a published reader.

    task: may be left out where there is but one. Raises ValueError that says what there is.
    """
    reader, wanted = _reader_and_task(name, task)
    graph = _graph(part_of(Path(name), wanted)) if is_run(name) else published_graphs(reader, [wanted])[wanted]
    settings = settings_of(Path(name))[1] if is_run(name) else READERS[reader].settings
    session = runtime.load(
        graph.file, engine=engine, threads=threads, streams=runtime.available_threads(), native=graph.native
    )
    predictor: Detector | Recogniser | DirectionClassifier
    if wanted == "det":
        predictor = Detector(session, settings.det, graph.side)
    elif wanted == "rec":
        predictor = Recogniser(session, graph.charset, settings.rec)
    else:
        predictor = DirectionClassifier(session, settings.cls)
    return Alone(task=wanted, source=name, reader=reader, predictor=predictor)


def _reader_and_task(name: str, task: Part | None) -> tuple[str, Part]:
    """The published reader behind a name, and the one of its tasks that is meant."""
    if is_run(name):
        there = tuple(parts_of(Path(name)))
        reader = settings_of(Path(name))[0]
    elif name in WEIGHTS:
        there = (cast(Part, WEIGHTS[name].task),)
        owners = [reader for reader, entry in READERS.items() if getattr(entry, there[0]) == name]
        if not owners:
            raise ValueError(f"{name}: belongs to no reader, so its settings are not known")
        reader = owners[0]
    else:
        there, reader = PARTS, reader_name(name, None)
    if task is not None and task not in there:
        raise ValueError(f"{name}: has {', '.join(there)}, not {task}")
    if task is None and len(there) > 1:
        raise ValueError(f"{name}: has {', '.join(there)}; say which one with --task")
    return reader, task or there[0]


def load(
    run: Path,
    *,
    settings: ReaderSettings | None = None,
    threads: int | None = None,
    engine: Engine = "auto",
    precision: Precision = "f32",
    device: str = "cpu",
    workers: int = 1,
) -> Reader:
    """A reader with the best networks of a run, and the official ones in place of what it did not train."""
    name, evaluated = settings_of(run)
    chosen = settings or evaluated
    found = parts_of(run)
    wanted = [part for part in PARTS if part != "cls" or chosen.use_cls]
    graphs: dict[str, Graph] = {part: _graph(found[part]) for part in wanted if part in found}
    graphs |= published_graphs(name, [part for part in wanted if part not in found])
    return assemble(
        str(run),
        graphs,
        chosen,
        threads=threads,
        engine=engine,
        precision=precision,
        device=device,
        workers=workers,
    )
