"""From a recipe to what `zoo.training.fit` takes: networks with their starting weights, loaders, evaluation data."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from zoo import weights
from zoo.checkpoint import read_weights
from zoo.ocr import db, networks, rec
from zoo.ocr.bundle_export import build, student_of
from zoo.ocr.charset import read_dictionary
from zoo.ocr.cls_task import ClsTask, MakeDirections
from zoo.ocr.det_losses import DBLossSettings
from zoo.ocr.det_task import DetTask, MakePages, Students, plan_pages
from zoo.ocr.loader import Loader
from zoo.ocr.models import READERS
from zoo.ocr.nrtr import NrtrGuide
from zoo.ocr.pplcnetv3 import PPLCNetV3Recognition
from zoo.ocr.predict import LINE_HEIGHT
from zoo.ocr.rec_targets import Encoder, Guide
from zoo.ocr.rec_task import MakeLines, Peers, RecTask, plan_lines, shapes_of
from zoo.ocr.settings import RecSettings
from zoo.ocr.train_data import Joined, lines, opened, pages
from zoo.ocr.train_recipe import OFFICIAL, SCRATCH, ClsPart, Data, DetPart, RecPart, TrainRecipe
from zoo.ocr.trained import Part, PartPage, part_of, read_page, weights_of
from zoo.ocr.warm_start import Start, measure, take_over
from zoo.ocr.weights import WEIGHTS
from zoo.training import Task
from zoo.weights import convert

MEASURED = 16  # pictures, or a batch if that is more, on which the batch norms of unfolded layers are measured
_COLUMNS = 40  # of a PP-LCNetV3 recogniser while training
CLS_SIZE = (48, 192)  # height, width


@dataclass(frozen=True)
class Prepared:
    """A task, the page that its run folder gets, and what its networks began with."""

    task: Task
    page: PartPage
    starts: tuple[Start, ...]


def tasks(recipe: TrainRecipe, *, report: Path | None = None, resume: bool = False) -> dict[str, Task]:
    """The task of each part that the recipe trains, by "det", "rec" and "cls".

    report: folder of the run; the worst cases of each evaluation go to report/PART/worst. resume: the weights are about
    to be those of a checkpoint, so that no others are put in.
    """
    return {part: made.task for part, made in prepare(recipe, report=report, resume=resume).items()}


def prepare(recipe: TrainRecipe, *, report: Path | None = None, resume: bool = False) -> dict[Part, Prepared]:
    """As `tasks`, with the pages and the starts. Raises ValueError that names the key to set."""
    folder: Callable[[str], Path | None] = lambda part: report / part / "worst" if report else None  # noqa: E731
    made: dict[Part, Prepared] = {}
    if recipe.det is not None:
        made["det"] = _det(recipe.model, recipe.det, folder("det"), resume)
    if recipe.rec is not None:
        made["rec"] = _rec(recipe.model, recipe.rec, folder("rec"), resume)
    if recipe.cls is not None:
        made["cls"] = _cls(recipe.model, recipe.cls, folder("cls"), resume)
    return made


# Data.


def _ratios(data: Data) -> list[float | None]:
    return [source.ratio for source in data.train]


# Weights.


@dataclass(frozen=True)
class _Given:
    """Weights to begin with; charset: of recognition, None where the file does not say."""

    name: str
    state: dict[str, Tensor]
    charset: tuple[str, ...] | None = None


def _given(source: str, task: Part, network: nn.Module) -> _Given:
    """What a name, a run folder or a file gives for a network of the shape of `network`. ValueError for others."""
    if source in WEIGHTS:
        entry = WEIGHTS[source]
        if entry.task != task:
            raise ValueError(f"{task}.start={source}: is weights for {entry.task}")
        published = cast(nn.Module, networks.published(source).network)
        return _Given(source, published.state_dict(), weights.charset(entry) if task == "rec" else None)
    path = Path(source)
    if path.is_dir():
        part = part_of(path, task)
        return _Given(source, student_of(read_weights(weights_of(part))), read_page(part).charset or None)
    if path.suffix == ".safetensors" and path.is_file():
        return _Given(source, student_of(read_weights(path)))
    if path.suffix == ".pdparams" and path.is_file():
        return _Given(source, _paddle(path, network))
    raise ValueError(
        f"{task}.start={source}: is no weight entry, run folder, .safetensors or .pdparams file; "
        f"weight entries are {', '.join(name for name, entry in WEIGHTS.items() if entry.task == task)}"
    )


def _paddle(path: Path, network: nn.Module) -> dict[str, Tensor]:
    """The state of a PaddleOCR training checkpoint; of one of several networks the part "Student."."""
    arrays = convert.read(path)
    if any(name.startswith("Student.") for name in arrays):
        arrays = db.of_network(arrays, "Student")
    twin = copy.deepcopy(network)
    load: Callable[..., None] = db.load_paddle if isinstance(twin, db.TextDetector) else rec.load_paddle
    load(twin, arrays)
    return twin.state_dict()


def _begin(network: nn.Module, given: _Given, charset: Sequence[str] | None = None) -> Start:
    charsets = (given.charset, charset) if given.charset is not None and charset is not None else None
    return take_over(network, given.state, given.name, charsets=charsets)


def _settle(begun: Sequence[nn.Module], start: Start, pictures: Callable[[], Iterator[Tensor]]) -> None:
    """Says what is new in each network, and measures the batch norms of layers that came folded."""
    warnings.warn(str(start), stacklevel=3)
    for network in begun:
        measure(network, pictures())


def _pictures(task: Any) -> Callable[[], Iterator[Tensor]]:
    """The first augmented pictures of the training, some MEASURED of them."""

    def taken() -> Iterator[Tensor]:
        left = MEASURED
        for batch in task.batches(0):
            yield batch.images
            left -= len(batch.images)
            if left <= 0:
                return

    return taken


# Detection.


def _det(model: str, part: DetPart, report: Path | None, resume: bool) -> Prepared:
    entry = READERS[model]
    name = part.network or WEIGHTS[entry.det].converter
    settings = part.settings or entry.settings.det
    train = Joined(opened(part.data, "train", "det", pages))
    torch.manual_seed(part.train.seed)
    students = [build(name) for _ in range(1 if part.method == "single" else 2)]
    network: nn.Module = students[0] if part.method == "single" else Students(*students)
    epochs = part.train.epochs if part.dynamic_shrink else None
    make = MakePages(samples=train, augment=part.augment, settings=settings, seed=part.train.seed, epochs=epochs)
    plan = plan_pages(train.sizes, _ratios(part.data), batch=part.batch, crop=part.augment.crop, seed=part.train.seed)
    task = DetTask(
        model=network,
        loader=Loader(plan, make, part.workers, torch.cuda.is_available()),
        evaluation=Joined(opened(part.data, "evaluate", "det", pages)),
        settings=settings,
        weights=DBLossSettings(shrink=part.loss.shrink, threshold=part.loss.threshold, negatives=part.loss.negatives),
        teacher=_det_teacher(part) if part.teacher else None,
        report=report,
    )
    starts: tuple[Start, ...] = ()
    if part.start != SCRATCH and not resume:
        given = _given(_det_start(part, entry.det, name), "det", students[0])
        starts = tuple(_begin(student, given) for student in students)
        _settle(students, starts[0], _pictures(task))
    page = PartPage(task="det", reader=model, network=name, settings=asdict(settings))
    return Prepared(task, page, starts)


def _det_start(part: DetPart, official: str, network: str) -> str:
    if part.start == OFFICIAL and network != WEIGHTS[official].converter:
        raise ValueError(
            f"det.start=official: no weights of {network} are published; give det.start=scratch, a run or a file"
        )
    return official if part.start == OFFICIAL else part.start


def _det_teacher(part: DetPart) -> nn.Module:
    assert part.teacher is not None
    teacher = build(part.teacher_network, threshold=False)
    path = Path(part.teacher)
    if path.is_dir() and read_page(part_of(path, "det")).network != part.teacher_network:
        trained = read_page(part_of(path, "det")).network
        raise ValueError(f"det.teacher={path}: is {trained}; give det.teacher_network={trained}")
    start = _begin(teacher, _given(part.teacher, "det", build(part.teacher_network)))
    if start.fresh:
        raise ValueError(f"det.teacher={part.teacher}: lacks {', '.join(start.fresh)}, so it is no whole teacher")
    return teacher


# Recognition.


def _rec(model: str, part: RecPart, report: Path | None, resume: bool) -> Prepared:
    entry = READERS[model]
    name = WEIGHTS[entry.rec].converter
    settings = part.settings or _rec_settings(part, entry.settings.rec)
    train = Joined(opened(part.data, "train", "rec", lines))  # before weights are fetched
    given = _rec_given(part, entry.rec, name)
    charset = _charset(part, given)
    torch.manual_seed(part.train.seed)
    students = [_recogniser(name, charset, part.guide) for _ in range(2 if part.method == "udml" else 1)]
    kind: Guide | None = None
    if part.guide:
        kind = "nrtr" if isinstance(students[0].guide, NrtrGuide) else "sar"
    network: nn.Module = Peers(*students) if part.method == "udml" else students[0]
    columns = _COLUMNS if isinstance(students[0].backbone, PPLCNetV3Recognition) else None
    if columns is None and any(height > 48 for _, height in part.scales):
        raise ValueError(f"rec.scales={part.scales}: {name} reads lines of at most 48 pixels")
    encoder = Encoder(charset, kind, part.longest, part.skip_unknown)
    task = RecTask(
        model=network,
        loader=_rec_loader(part, train, encoder, columns),
        evaluation=Joined(opened(part.data, "evaluate", "rec", lines)),
        settings=settings,
        charset=charset,
        guide=kind,
        teacher=_rec_teacher(part, charset) if part.teacher else None,
        report=report,
    )
    starts: tuple[Start, ...] = ()
    if given is not None and not resume:
        starts = tuple(_begin(student, given, charset) for student in students)
        _settle(students, starts[0], _pictures(task))
    page = PartPage(task="rec", reader=model, network=name, charset=charset, settings=asdict(settings))
    return Prepared(task, page, starts)


def _rec_settings(part: RecPart, published: RecSettings) -> RecSettings:
    """The published predictor, which pads a line no further than training did: the network reads the padding too."""
    if part.widths == "own":
        return published
    widest = max(-(-width * LINE_HEIGHT // height) for width, height in part.scales)
    return replace(published, min_width=min(published.min_width, widest))


def _rec_loader(part: RecPart, train: Joined[Any], encoder: Encoder, columns: int | None) -> Loader[Any]:
    make = MakeLines(samples=train, augment=part.augment, encoder=encoder, seed=part.train.seed, columns=columns)
    plan = plan_lines(
        train.sizes,
        _ratios(part.data),
        batch=part.batch,
        scales=part.scales,
        seed=part.train.seed,
        shapes=shapes_of(train) if part.widths == "own" else None,
    )
    return Loader(plan, make, part.workers, torch.cuda.is_available())


def _rec_given(part: RecPart, official: str, network: str) -> _Given | None:
    """The weights to begin with; also where a run goes on, for the charset that they bring."""
    if part.start == SCRATCH:
        return None
    # Its charset is not known yet, and a .pdparams file fits one charset only.
    blank = (
        build(network, classes=rec.V3_CLASSES, guide=part.guide) if part.start.endswith(".pdparams") else nn.Module()
    )
    return _given(official if part.start == OFFICIAL else part.start, "rec", blank)


def _charset(part: RecPart, given: _Given | None) -> tuple[str, ...]:
    own = None if given is None else given.charset
    if part.charset is None:
        if own is None:
            raise ValueError(f"rec.charset: start={part.start} brings no charset; give a dictionary file")
        return own
    dictionary = read_dictionary(part.charset)
    for note in dictionary.notes:
        warnings.warn(note, stacklevel=4)
    if part.charset_mode == "replace":
        return dictionary.charset(space=part.charset_space)
    if own is None:
        raise ValueError(f"rec.charset_mode=extend: start={part.start} brings no charset to add to; use replace")
    # The space stays last: the reader restores spaces by it.
    spaces = len(own) - len("".join(own).rstrip(" "))
    known = set(own)
    return (*own[: len(own) - spaces], *(c for c in dictionary.characters if c not in known), *own[len(own) - spaces :])


def _recogniser(name: str, charset: Sequence[str], guide: bool) -> rec.Recognizer:
    network = cast(rec.Recognizer, build(name, classes=len(charset) + 1, guide=guide))
    # Without an attention branch nothing else would train the backbone.
    network.neck.detach_input = guide
    return network


def _rec_teacher(part: RecPart, charset: tuple[str, ...]) -> nn.Module:
    assert part.teacher is not None
    path = Path(part.teacher)
    name = read_page(part_of(path, "rec")).network if path.is_dir() else part.teacher
    if part.teacher in WEIGHTS:
        name = WEIGHTS[part.teacher].converter
    given = _given(part.teacher, "rec", nn.Module())
    if given.charset is not None and given.charset != charset:
        raise ValueError(
            f"rec.teacher={part.teacher}: has another charset ({len(given.charset)} characters, the student "
            f"{len(charset)}); teach it the student's first, or leave rec.charset out"
        )
    teacher = _recogniser(name, charset, guide=any(key.startswith("guide.") for key in given.state))
    take_over(teacher, given.state, given.name)
    return teacher


# Direction.


def _cls(model: str, part: ClsPart, report: Path | None, resume: bool) -> Prepared:
    entry = READERS[model]
    name = WEIGHTS[entry.cls].converter
    settings = part.settings or entry.settings.cls
    train = Joined(opened(part.data, "train", "cls", lines))
    torch.manual_seed(part.train.seed)
    network = build(name)
    plan = plan_lines(train.sizes, _ratios(part.data), batch=part.batch, scales=[CLS_SIZE[::-1]], seed=part.train.seed)
    make = MakeDirections(samples=train, augment=part.augment, seed=part.train.seed, labels=part.labels)
    task = ClsTask(
        model=network,
        loader=Loader(plan, make, part.workers, torch.cuda.is_available()),
        evaluation=Joined(opened(part.data, "evaluate", "cls", lines)),
        settings=settings,
        labels=part.labels,
        report=report,
    )
    starts: tuple[Start, ...] = ()
    if part.start != SCRATCH and not resume:
        starts = (_begin(network, _given(entry.cls if part.start == OFFICIAL else part.start, "cls", network)),)
        _settle([network], starts[0], _pictures(task))
    page = PartPage(task="cls", reader=model, network=name, settings=asdict(settings))
    return Prepared(task, page, starts)
