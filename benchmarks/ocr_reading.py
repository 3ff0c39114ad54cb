"""What two deviations from PaddleOCR's recognition are worth: restored spaces, and the margin beside a line.

    python benchmarks/ocr_reading.py [--model ppocrv4_mobile] [--data ../shared/data] [--lines 700]

Line crops with their text: receipts (SROIE, cut by their label boxes) and words (ICDAR2015). Each row turns one thing
on or off. Exact: share of lines read exactly, spaces and case included. CER: edits over labelled characters.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from zoo import images, ocr
from zoo.ocr.predict import Recogniser

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
VARIANTS = {
    "as PaddleOCR, one line a batch": ocr.RecSettings(margin=1.0, space_thresh=1.0),
    "with margin": ocr.RecSettings(space_thresh=1.0),
    "with spaces": ocr.RecSettings(margin=1.0),
    "default: both": ocr.RecSettings(),
}
Labelled = tuple[np.ndarray, str]


def receipts(data: Path) -> Iterator[Labelled]:
    """Line crops of the SROIE receipts by the bounds of their label boxes."""
    for labels in sorted((data / "ocr_sroie" / "box").glob("*.csv")):
        image = images.decode(next((data / "ocr_sroie" / "img").glob(f"{labels.stem}.*")))
        for row in labels.read_text(encoding="utf-8", errors="replace").splitlines():
            fields = row.split(",", 8)
            if len(fields) < 9:
                continue
            corners = np.array(fields[:8], int).reshape(4, 2).clip(0)
            (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
            crop = image[top:bottom, left:right]
            if crop.size:
                yield crop, fields[8].strip()


def words(data: Path) -> Iterator[Labelled]:
    """The ICDAR2015 test words."""
    table = (data / "ocr_icdar2015" / "word_crops_test.tsv").read_text(encoding="utf-8")
    with zipfile.ZipFile(data / "ocr_icdar2015" / "word_crops_test.zip") as archive:
        members = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
        for row in table.splitlines():
            name, text = row.split("\t")
            yield images.decode(archive.read(members[name.rsplit("/", 1)[-1]]), name), text


def scores(recogniser: Recogniser, lines: list[Labelled]) -> tuple[float, float]:
    """Exact share and character error rate."""
    found = [line.text.text for line in recogniser([crop for crop, _ in lines])]
    wanted = [text for _, text in lines]
    exact = sum(a == b for a, b in zip(found, wanted, strict=True)) / len(lines)
    edits = sum(Levenshtein.distance(a, b) for a, b in zip(found, wanted, strict=True))
    return exact, edits / sum(map(len, wanted))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ppocrv4_mobile", choices=sorted(ocr.READERS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--lines", type=int, help="at most so many of each set, spread evenly")
    arguments = parser.parse_args()
    reader = ocr.load(arguments.model)
    print(f"| {arguments.model} | lines | exact | CER |\n|---|--:|--:|--:|")
    for name, source in (("receipts", receipts), ("words", words)):
        lines = list(source(arguments.data))
        step = max(1, len(lines) // arguments.lines) if arguments.lines else 1
        lines = lines[::step]
        for variant, settings in VARIANTS.items():
            recogniser = Recogniser(reader.recogniser.session, reader.recogniser.charset, settings)
            exact, rate = scores(recogniser, lines)
            print(f"| {name}, {variant} | {len(lines)} | {exact:.4f} | {rate:.4f} |", flush=True)


if __name__ == "__main__":
    main()
