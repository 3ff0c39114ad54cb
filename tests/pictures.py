"""Pictures made for tests, and what is asked of those that come back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

FIXTURES = Path(__file__).resolve().parents[2] / "shared" / "data" / "ocr_rapidocr_fixtures" / "images"
needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the shared OCR pictures are not here")
LOSSY = 12  # grey levels that JPEG may be away from what went in, on smooth colours


def smooth(height: int = 30, width: int = 40) -> np.ndarray:
    """RGB of soft gradients, different in each corner, so that a turn or a swap of channels shows."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [rows * 200 / max(height - 1, 1), columns * 200 / max(width - 1, 1), 255 - rows * 100 / max(height - 1, 1)]
    return np.stack(planes, axis=-1).astype(np.uint8)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def bgr(rgb: np.ndarray) -> np.ndarray:
    return rgb[..., ::-1]


def near(got: np.ndarray, wanted: np.ndarray, most: int = LOSSY) -> bool:
    return got.shape == wanted.shape and int(np.abs(got.astype(int) - wanted).max()) <= most


def is_picture(pixels: np.ndarray) -> bool:
    return pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.flags.c_contiguous


def corners(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def paged(pages: list[Image.Image], kind: str, **options: Any) -> bytes:
    return saved(pages[0], kind, save_all=True, append_images=pages[1:], **options)


def pdf(*pages: str, width: float = 200, height: float = 100, trailer: str = "") -> bytes:
    """A PDF written by hand: each page is the entries of its dictionary, and shows a black box at its top left."""
    content = b"0 0 0 rg 0 %d 20 10 re f" % (height - 10)
    bodies = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{i + 4} 0 R" for i in range(len(pages)))
    bodies.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    bodies.append(b"<< /Length %d >>\nstream\n" % len(content) + content + b"\nendstream")
    box = f"/MediaBox [0 0 {width} {height}]"
    bodies += [f"<< /Type /Page /Parent 2 0 R /Contents 3 0 R {box} {entries} >>".encode() for entries in pages]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(data))
        data += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1) + table
    end = f"trailer\n<< /Size {len(places) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{len(data)}\n%%EOF\n".encode()
    return data + start + end
