"""How good a predictor is on labelled data: one copy for training's evaluations and for exported networks. No torch.

Each function looks at the samples that `indices` names (a process's share), leaves bad ones out with a warning, and
hands what went wrong to a report.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, Protocol, TypeVar

import numpy as np

from zoo.ocr.metrics import Counts, TextCounts, count_text, match_regions
from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
from zoo.ocr.report import WorstLine, WorstLines, WorstPages
from zoo.ocr.samples import BadSample, LineSample, PageSample

Sample = TypeVar("Sample", covariant=True)
# given: a label says "0" or "180". turned: every line is upright, and is looked at as it is and on its head.
Labels = Literal["given", "turned"]
DIRECTIONS = ("0", "180")
AT_ONCE = 64  # lines held in memory, and handed to the predictor, at once


class Samples(Protocol[Sample]):
    """Labelled pages or lines by index; `[i]` raises BadSample for one that cannot be used."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


def usable(samples: Samples[Sample], indices: Iterable[int]) -> Iterator[Sample]:
    """The good ones of the samples asked for, one by one; a warning for each bad one."""
    for index in indices:
        try:
            sample = samples[index]
        except BadSample as error:
            warnings.warn(f"not evaluated: {error}", stacklevel=2)
            continue
        yield sample


def score_pages(detector: Detector, samples: Samples[PageSample], indices: Iterable[int], worst: WorstPages) -> Counts:
    """Regions found and missed."""
    total = Counts()
    for sample in usable(samples, indices):
        quads = list(detector(sample.image).quads_xy)
        matches = match_regions(sample.polygons_xy, list(sample.ignored), quads)
        total += matches.counts
        worst.add(sample, quads, matches)
    return total


def page_rates(total: Counts) -> dict[str, float]:
    """hmean, precision, recall."""
    return {"hmean": total.hmean, "precision": total.precision, "recall": total.recall}


def score_lines(
    recogniser: Recogniser, samples: Samples[LineSample], indices: Iterable[int], worst: WorstLines
) -> list[TextCounts]:
    """One tally for each of the lines read, in their order; `metrics.add_up` adds them up."""
    tallies = []
    for lines in _groups(usable(samples, indices)):
        read = [line.text for line in recogniser([sample.image for sample in lines])]
        for sample, text in zip(lines, read, strict=True):
            one = count_text(sample.text, text.text)
            tallies.append(one)
            worst.add(WorstLine(one.distance, sample.name, sample.text, text.text, text.score, sample.image))
    return tallies


def direction_of(sample: LineSample) -> int:
    """The class that a label gives. Raises BadSample for another text."""
    if sample.text not in DIRECTIONS:
        raise BadSample(f"{sample.name}: is labelled {sample.text!r}; give 0 or 180, or labels=turned")
    return DIRECTIONS.index(sample.text)


def turned(sample: LineSample) -> LineSample:
    """The line on its head."""
    return replace(sample, image=np.ascontiguousarray(sample.image[::-1, ::-1]))


def score_directions(
    classifier: DirectionClassifier,
    samples: Samples[LineSample],
    indices: Iterable[int],
    worst: WorstLines,
    labels: Labels,
) -> list[bool]:
    """For each line whether the predictor leaves, or turns, it rightly.

    The predictor leaves a short line, and one of which it is not sure, as it is.
    """
    right = []
    for lines in _groups(usable(samples, indices)):
        cases = [(line, direction_of(line)) for line in lines] if labels == "given" else _both_ways(lines)
        for (line, wanted), got in zip(cases, classifier([line.image for line, _ in cases]), strict=True):
            right.append(wanted == got)
            wrong = float(wanted != got)
            worst.add(WorstLine(wrong, line.name, DIRECTIONS[wanted], DIRECTIONS[got], 0.0, line.image))
    return right


def direction_rates(right: Sequence[bool]) -> dict[str, float]:
    """accuracy: the share of the lines; 0 where there is none."""
    return {"accuracy": sum(right) / len(right) if right else 0.0}


def _both_ways(lines: Sequence[LineSample]) -> list[tuple[LineSample, int]]:
    return [case for line in lines for case in ((line, 0), (turned(line), 1))]


def _groups(lines: Iterator[LineSample]) -> Iterator[list[LineSample]]:
    while group := list(islice(lines, AT_ONCE)):
        yield group
