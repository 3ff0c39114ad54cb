"""Synthetic text: one line, and folders of lines and pages made by any number of processes, always the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from zoo import images
from zoo.ocr.samples import LineSample, PageSample
from zoo.ocr.synth_ground import ground, ink_on
from zoo.ocr.synth_ink import Drawn, corners, draw_across, face_for, faces, moved, put
from zoo.ocr.synth_layout import NO_FONT
from zoo.ocr.synth_page import SynthPage, synth_page
from zoo.ocr.synth_settings import SynthSettings
from zoo.ocr.synth_text import TRIES, Texts

__all__ = ["Made", "SynthPage", "SynthSettings", "synth_line", "synth_page", "write"]

LINES = 0  # the number of this kind of sample in the seed; pages have 1
SHARD = {"lines": 200, "pages": 10}  # samples that one process makes at a time, and that are kept or made anew together
QUALITY = 95  # of the JPEG files
SETTINGS_FILE = "synth.json"
LINE_LABELS, PAGE_LABELS, WORD_LABELS = "rec_gt.txt", "Label.txt", "Words.txt"


def synth_line(index: int, settings: SynthSettings) -> LineSample:
    """The line of that number, `settings.height` pixels high. Equal settings give equal lines in any process and order.

    Raises ValueError for a corpus, a font, a charset or a folder of backgrounds that cannot be used.
    """
    random = np.random.default_rng(np.random.SeedSequence([settings.seed, LINES, index]))
    drawn = _drawn(settings, random)
    left, top, right, bottom = drawn.box
    matrix, width, height = _framed(right - left, bottom - top, settings.warp, random)
    image = ground(height, width, settings.backgrounds, random)
    colour = ink_on(image, settings.contrast, random)
    while colour is None:  # a picture too lively for any ink: it is paled until one shows
        image = np.rint(image * 0.6 + image.mean(axis=(0, 1)) * 0.4).astype(np.uint8)
        colour = ink_on(image, settings.contrast, random)
    put(image, drawn.alpha, matrix @ np.array([[1, 0, -left], [0, 1, -top], [0, 0, 1]]), colour)
    image = images.resize(image, (settings.height, max(1, round(width * settings.height / height))))
    sample = LineSample(image, drawn.text, f"synthetic line {index} (seed {settings.seed})")
    if random.random() < settings.degrade:
        from zoo.ocr.degrade import Degrade, degrade_line

        sample = degrade_line(sample, Degrade(), random)
    return sample


def _drawn(settings: SynthSettings, random: np.random.Generator) -> Drawn:
    texts, known = Texts(settings), faces(settings.fonts)
    text = ""
    for _ in range(TRIES):
        text = texts.piece(random)
        face = face_for(text, known, random)
        if face is not None:
            size = int(random.integers(28, 65))
            return draw_across(text, face, size, bold=int(size >= 36 and random.random() < 0.1))
    raise ValueError(NO_FONT.format(text=text, count=len(known)))


def _framed(width: float, height: float, warp: float, random: np.random.Generator) -> tuple[np.ndarray, int, int]:
    """A map for ink of that size, and the width and height of a picture around it, as a detector would cut it."""
    matrix = np.eye(3)
    if random.random() < warp:
        angle = np.deg2rad(random.uniform(-2, 2)) * min(1.0, 12 * height / width)  # a long line is tilted less
        matrix = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        matrix = matrix @ np.array([[1, random.uniform(-0.2, 0.2), 0], [0, 1, 0], [0, 0, 1]])
    outline = moved(corners((0, 0, width, height)), matrix)
    before, after = random.uniform(0.04, 0.25, 2) * height, random.uniform(0.06, 0.4, 2) * height
    low = outline.min(axis=0) - np.array([after[0], before[0]])
    high = outline.max(axis=0) + np.array([after[1], before[1]])
    shift = np.array([[1, 0, -low[0]], [0, 1, -low[1]], [0, 0, 1]])
    size = np.maximum(np.ceil(high - low).astype(int), 1)
    return shift @ matrix, int(size[0]), int(size[1])


# --- folders ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """What a folder holds. kept: samples that were there already."""

    lines: int
    pages: int
    kept: int


class _Shard(NamedTuple):
    """Samples `first` to `last` (without it) of a kind, and the folder that they fill."""

    kind: Literal["lines", "pages"]
    first: int
    last: int
    folder: Path


def write(
    out: Path, settings: SynthSettings, *, lines: int, pages: int, workers: int = 1, progress: bool = False
) -> Made:
    """Fills a folder with lines (rec_gt.txt) and pages (Label.txt; Words.txt for the words of the same pages).

    The label files are PaddleOCR's, with paths relative to `out`. The samples are the same whatever `workers` is. What
    an earlier run with equal settings finished is kept; a folder of other settings is refused.
    Raises ValueError for counts, settings or a folder that cannot be used.
    """
    if lines < 0 or pages < 0 or lines + pages == 0:
        raise ValueError(f"lines={lines}, pages={pages}: give how many to make, at least one")
    if workers < 1:
        raise ValueError(f"workers={workers}: give 1 or more")
    for made, count in ((synth_line, lines), (synth_page, pages)):
        if count:
            made(0, settings)  # a bad font or corpus is said at once, before anything is written
    try:
        _claim(out, settings)
        shards = [*_shards(out, "lines", lines), *_shards(out, "pages", pages)]
        missing = [shard for shard in shards if not _is_whole(shard)]
        with _reported(sum(s.last - s.first for s in missing), progress) as advance:
            for shard in _filled(missing, settings, workers):
                advance(shard.last - shard.first)
        _join(out, shards)
    except OSError as error:
        raise ValueError(
            f"{error.filename or out}: cannot be written ({error.strerror}); give another folder"
        ) from error
    return Made(lines, pages, sum(s.last - s.first for s in shards) - sum(s.last - s.first for s in missing))


def _claim(out: Path, settings: SynthSettings) -> None:
    """Writes the settings into the folder, or compares them with those it was begun with."""
    now = {"layout": 1, **asdict(settings)}
    now = json.loads(json.dumps(now, default=str))
    if settings.corpus is not None:
        now["corpus_bytes"] = settings.corpus.stat().st_size
    out.mkdir(parents=True, exist_ok=True)
    file = out / SETTINGS_FILE
    if file.exists():
        before: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        different = [
            f"{k}: {before.get(k)!r} then, {now.get(k)!r} now" for k in {**before, **now} if before.get(k) != now.get(k)
        ]
        if different:
            raise ValueError(
                f"{out}: was begun with other settings ({'; '.join(different)}); give those or a new folder"
            )
    elif any((out / name).exists() for name in (*SHARD, LINE_LABELS, PAGE_LABELS)):
        raise ValueError(f"{out}: holds labelled data that is not synthetic; give a new folder")
    else:
        _replace(file, json.dumps(now, indent=2, ensure_ascii=False) + "\n")


def _shards(out: Path, kind: Literal["lines", "pages"], count: int) -> list[_Shard]:
    size = SHARD[kind]
    return [
        _Shard(kind, first, min(first + size, count), out / kind / f"{first // size:05}")
        for first in range(0, count, size)
    ]


def _is_whole(shard: _Shard) -> bool:
    """Whether the folder is there with as many samples as it is to have; it gets its name only when it is finished."""
    file = shard.folder / (LINE_LABELS if shard.kind == "lines" else PAGE_LABELS)
    return file.exists() and file.read_bytes().count(b"\n") == shard.last - shard.first


def _filled(shards: list[_Shard], settings: SynthSettings, workers: int) -> Iterator[_Shard]:
    """Fills the shards, in other processes where there is more than one worker."""
    if workers == 1 or len(shards) < 2:
        for shard in shards:
            yield fill(shard, settings)
        return
    # Spawned, not forked: OpenCV's threads do not survive a fork.
    with ProcessPoolExecutor(min(workers, len(shards)), mp_context=get_context("spawn"), initializer=_calm) as pool:
        try:
            yield from pool.map(partial(fill, settings=settings), shards)
        finally:
            pool.shutdown(cancel_futures=True)


def _calm() -> None:
    """One thread of OpenCV in each process."""
    import cv2

    cv2.setNumThreads(1)


def fill(shard: _Shard, settings: SynthSettings) -> _Shard:
    """Makes the samples of a shard in a folder beside it, which then takes its place."""
    part = shard.folder.with_name(shard.folder.name + ".part")
    for folder in (part, shard.folder):
        if folder.exists():
            shutil.rmtree(folder)
    part.mkdir(parents=True)
    if shard.kind == "lines":
        _fill_lines(shard, settings, part)
    else:
        _fill_pages(shard, settings, part)
    part.rename(shard.folder)
    return shard


def _fill_lines(shard: _Shard, settings: SynthSettings, part: Path) -> None:
    labels = []
    for index in range(shard.first, shard.last):
        sample = synth_line(index, settings)
        name = f"{index:08}.jpg"
        (part / name).write_bytes(images.encode(sample.image, ".jpg", QUALITY))
        labels.append(f"{shard.kind}/{shard.folder.name}/{name}\t{sample.text}\n")
    (part / LINE_LABELS).write_bytes("".join(labels).encode())


def _fill_pages(shard: _Shard, settings: SynthSettings, part: Path) -> None:
    labels, words = [], []
    for index in range(shard.first, shard.last):
        page = synth_page(index, settings)
        name = f"{index:08}.jpg"
        (part / name).write_bytes(images.encode(page.lines.image, ".jpg", QUALITY))
        path = f"{shard.kind}/{shard.folder.name}/{name}"
        labels.append(f"{path}\t{regions_json(page.lines)}\n")
        words.append(f"{path}\t{regions_json(page.words)}\n")
    (part / PAGE_LABELS).write_bytes("".join(labels).encode())
    (part / WORD_LABELS).write_bytes("".join(words).encode())


def regions_json(sample: PageSample) -> str:
    """The regions of a page as PaddleOCR's label files have them; points to a tenth of a pixel, ignored ones as ###."""
    regions = [
        {"transcription": "###" if ignored else text, "points": np.round(polygon.astype(float), 1).tolist()}
        for polygon, text, ignored in zip(sample.polygons_xy, sample.texts, sample.ignored, strict=True)
    ]
    return json.dumps(regions, ensure_ascii=False)


def _join(out: Path, shards: list[_Shard]) -> None:
    """The label files of the whole from those of the shards."""
    for kind, name in (("lines", LINE_LABELS), ("pages", PAGE_LABELS), ("pages", WORD_LABELS)):
        own = [shard for shard in shards if shard.kind == kind]
        if own:
            _replace(out / name, ((shard.folder / name).read_text(encoding="utf-8") for shard in own))


def _replace(file: Path, text: str | Iterable[str]) -> None:
    part = file.with_name(file.name + ".part")
    with part.open("w", encoding="utf-8", newline="\n") as target:
        target.writelines([text] if isinstance(text, str) else text)
    part.replace(file)


@contextmanager
def _reported(total: int, shown: bool) -> Iterator[Any]:
    """A function that counts samples as done; with a bar on standard error if it is to be shown."""
    if not shown:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("Making", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
