"""Small files that promise huge pictures or unpack to gigabytes: refused at once, with hardly any memory taken."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zlib

import pytest
from PIL import Image

from zoo import images
from zoo.images import PictureError


def saved(kind: str) -> bytearray:
    file = io.BytesIO()
    Image.new("L", (16, 16)).save(file, kind)
    return bytearray(file.getvalue())


def promising(kind: str) -> bytes:
    """A picture of 16 x 16 whose header says 30000 x 30000. Places: the standards of the formats."""
    data = saved(kind)
    if kind == "JPEG":  # height and width, 5 bytes after the start of the frame header
        at = data.index(b"\xff\xc0") + 5
        data[at : at + 4] = struct.pack(">HH", 30000, 30000)
    elif kind == "BMP":
        data[18:26] = struct.pack("<ii", 30000, 30000)
    elif kind == "GIF":
        data[6:10] = struct.pack("<HH", 30000, 30000)
    elif kind == "PNG":
        data[16:24] = struct.pack(">II", 30000, 30000)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    else:  # TIFF: the values of the tags 256 and 257
        for tag in (256, 257):
            at = data.index(struct.pack("<H", tag), 8) + 2
            wide = struct.unpack_from("<H", data, at)[0] == 4
            data[at + 6 : at + 10] = struct.pack("<I" if wide else "<HH", *([30000] if wide else [30000, 0]))
    return bytes(data)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF"])
def test_a_header_that_promises_too_much(kind: str) -> None:
    refused_at_once(promising(kind), "has 30000 x 30000 = 900 million pixels; at most 200 million are read")


@pytest.mark.parametrize("chunk", [b"zTXt", b"iCCP"])
def test_text_that_unpacks_to_a_hundred_megabytes(chunk: bytes) -> None:
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1_000_000)) for _ in range(100)) + packer.flush()
    body = chunk + b"a\0\0" + packed
    data = saved("PNG")
    data[33:33] = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    refused_at_once(bytes(data), "damaged")


def refused_at_once(data: bytes, says: str) -> None:
    tracemalloc.start()
    begun = time.perf_counter()
    with pytest.raises(PictureError, match=rf"^bomb: .*{says}"):
        images.decode(data, "bomb")
    taken = time.perf_counter() - begun
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 1 and peak < 20e6
