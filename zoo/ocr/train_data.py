"""Opens the labels that a recipe names, for training and evaluation. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from zoo.ocr.evaluation import Samples
from zoo.ocr.labels import open_lines, open_pages
from zoo.ocr.samples import BadSample, LineSample, PageSample
from zoo.ocr.train_recipe import Data, Source

Item = TypeVar("Item")


def opened(
    data: Data, which: Literal["train", "evaluate"], part: str, open_one: Callable[[Source], Samples[Any]]
) -> list[Samples[Any]]:
    """The sources of one part of a recipe. Raises ValueError that names the key to set where one is missing."""
    sources = data.sources(which)
    if which == "train" and not sources:
        raise ValueError(f"{part}.data.train: is empty; give labels, such as -o {part}.data.train=[labels.txt]")
    found = []
    for number, source in enumerate(sources):
        if not source.path.exists():
            key = f"{part}.data.{which}"
            raise ValueError(f"{key}.{number}: {source.path}: no such file or folder; set it with -o {key}=[PATH]")
        labels = open_one(source)
        if not len(labels):
            raise ValueError(f"{part}.data.{which}.{number}: {source.path}: holds no labels")
        found.append(Cached(labels) if data.cache else labels)
    return found


def pages(source: Source) -> Samples[PageSample]:
    """Labelled pages."""
    return open_pages(source.path, root=source.root, format=source.format)


def lines(source: Source) -> Samples[LineSample]:
    """Labelled lines."""
    return open_lines(source.path, root=source.root, format=source.format, pattern=source.pattern)


class Joined(Generic[Item]):
    """Several sources as one; indices count through them one after another."""

    def __init__(self, sources: list[Samples[Item]]) -> None:
        self.sources = sources
        self.sizes = [len(source) for source in sources]

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> Item:
        for source, size in zip(self.sources, self.sizes, strict=True):
            if index < size:
                return source[index]
            index -= size
        raise IndexError(index)


class Cached(Generic[Item]):
    """A small set decoded once and kept in memory; a bad sample is kept as its error."""

    def __init__(self, samples: Samples[Item]) -> None:
        self.items = [_or_error(samples, index) for index in range(len(samples))]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        item = self.items[index]
        if isinstance(item, BadSample):
            raise item
        return item


def _or_error(samples: Samples[Item], index: int) -> Item | BadSample:
    try:
        return samples[index]
    except BadSample as error:
        return error
