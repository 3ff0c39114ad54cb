"""What one trained or published network says of pictures: regions (det), texts of lines (rec), directions (cls).

python tools/predict.py runs/plates line1.jpg line2.jpg
Whole pages: zoo ocr, or zoo.ocr.load("runs/plates").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer

from zoo import documents, images
from zoo.ocr.predict import Detector, DirectionClassifier, Recogniser
from zoo.ocr.trained import Alone, Part, alone

AT_ONCE = 64  # pictures of lines


def predict(one: Alone, pictures: list[np.ndarray]) -> list[dict[str, Any]]:
    """One answer for each picture, uint8 [H, W, 3] BGR, ready for JSON."""
    predictor = one.predictor
    if isinstance(predictor, Detector):
        found = [predictor(picture) for picture in pictures]
        return [{"quads": boxes.quads_xy.tolist(), "scores": boxes.scores.tolist()} for boxes in found]
    if isinstance(predictor, Recogniser):
        return [{"text": line.text.text, "score": line.text.score} for line in predictor(pictures)]
    assert isinstance(predictor, DirectionClassifier)
    return [{"turned": turned} for turned in predictor(pictures)]


def groups(paths: list[str]) -> Iterator[list[Path]]:
    """The files of paths, folders and globs, some at a time."""
    files = iter(documents.files(paths))
    while group := [Path(str(file)) for file in islice(files, AT_ONCE)]:
        yield group


def main(
    name: str = typer.Argument(..., help="A run folder, a weight entry, or a reader with --task."),
    paths: list[str] = typer.Argument(..., help="Pictures, folders or globs."),
    task: str = typer.Option(None, help="det, rec or cls, where there are several."),
    engine: str = typer.Option("auto", help="auto, openvino, onnxruntime or torch."),
) -> None:
    """Predict; prints one line of JSON for each picture."""
    failed = False
    try:
        one = alone(name, cast(Part | None, task), engine=engine)  # type: ignore[arg-type]
        for group in groups(paths):
            pictures, readable = [], []
            for path in group:
                try:
                    pictures.append(images.decode(path))
                    readable.append(path)
                except (ValueError, OSError) as error:
                    failed = True
                    typer.echo(str(error), err=True)
            for path, answer in zip(readable, predict(one, pictures), strict=True):
                print(json.dumps({"file": str(path), **answer}, ensure_ascii=False))
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(int(failed))


if __name__ == "__main__":
    typer.run(main)
