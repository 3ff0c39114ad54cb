"""A TrueType font whose every glyph is one em square: what invisible text over a scanned page is set in.

Squares and not blanks, since readers of PDF pass over text without extent; the text is drawn in no colour anyway.

Made here byte by byte, so that no font file of anybody's is shipped. Source: the OpenType specification 1.9, one
section for each table.
"""

from __future__ import annotations

import struct

EM = 1000  # units; every glyph is one em wide
ASCENT = 800


def font() -> bytes:
    """The font file: glyph 0 for what is absent, glyph 1 for every character."""
    # One contour of four points, as 16-bit steps: up, right, down.
    low, high = ASCENT - EM, ASCENT
    glyph = struct.pack(">5hHH4B8hH", 1, 0, low, EM, high, 3, 0, *(1,) * 4, 0, 0, EM, 0, low, EM, 0, -EM, 0)
    tables = {
        b"OS/2": struct.pack(
            ">HhHHH10h10s4I4sHHHhhhHHII",
            *(4, EM, 400, 5, 0, *(0,) * 10, bytes(10), 0, 0, 0, 0, b"none", 0x40, 0, 0xFFFF),
            *(ASCENT, ASCENT - EM, 0, ASCENT, EM - ASCENT, 0, 0),
        )
        + struct.pack(">hhHHH", 0, 0, 0, 0, 0),
        b"cmap": _cmap(),
        b"glyf": glyph,
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh",
            *(0x10000, 0x10000, 0, 0x5F0F3CF5, 3, EM, 0, 0),  # versions, checksum, magic number, flags, em, times
            *(0, ASCENT - EM, EM, ASCENT, 0, 8, 2, 0, 0),  # bounds of all glyphs, style, smallest size, formats
        ),
        b"hhea": struct.pack(">IhhhH11hH", 0x10000, ASCENT, ASCENT - EM, 0, EM, *(0,) * 11, 2),
        b"hmtx": struct.pack(">HhHh", EM, 0, EM, 0),
        b"loca": struct.pack(">HHH", 0, 0, len(glyph) // 2),
        b"maxp": struct.pack(">IH13H", 0x10000, 2, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        b"name": struct.pack(">HHH", 0, 0, 6),
        b"post": struct.pack(">IIhhIIIII", 0x30000, 0, 0, 0, 1, 0, 0, 0, 0),
    }
    return _assembled(tables)


def _cmap() -> bytes:
    """Format 12: all of Unicode to glyph 1 would need a group each; one character is enough, PDF maps the rest."""
    return struct.pack(">HHHHI", 0, 1, 3, 10, 12) + struct.pack(">HHIIIIII", 12, 0, 28, 0, 1, 0x20, 0x20, 1)


def _assembled(tables: dict[bytes, bytes]) -> bytes:
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    header = struct.pack(">IHHHH", 0x10000, count, 16 * power, power.bit_length() - 1, 16 * (count - power))
    offset = 12 + 16 * count
    directory, body = b"", b""
    for tag, data in sorted(tables.items()):
        padded = data + bytes(-len(data) % 4)
        checksum = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        directory += struct.pack(">4sIII", tag, checksum, offset + len(body), len(data))
        body += padded
    return header + directory + body
