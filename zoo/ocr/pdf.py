"""Searchable PDF: the picture, or the original document as it is, with the text invisible over it, in any script."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo import images
from zoo.documents import pdfium_lock
from zoo.ocr import bidi, invisible_font
from zoo.ocr.page import Line, Page
from zoo.ocr.render import spaced_words

DPI = 200  # that a picture is taken to have: it says how large its page is
LARGEST = 14400  # points that a side of a page may have (ISO 32000, annex C); larger pictures get more dots an inch
BASELINE = 0.2  # of a line's height, from its lower edge
JPEG_SIDE = 65500  # pixels that a side of a JPEG may have; of larger pictures the sheet holds a smaller copy
FLAT = 1e-4  # square points: a character of less has no place
FINE = 16  # device units a pixel when places are turned into the page's own, whose interface takes whole numbers


def searchable_pdf(pages: Sequence[Page], original: Path | None = None) -> bytes:
    """A PDF with invisible text.

    original: the PDF that the pages were read from; it stays as it is, and pages that are not given stay without
    text. Without it each page is its picture as a JPEG, at 200 pixels an inch. Raises ValueError for a page that knows
    no picture, PictureError for an original that cannot be opened.
    """
    import pypdfium2

    with pdfium_lock:
        document = _opened(original) if original else pypdfium2.PdfDocument.new()
        try:
            font = _Font(document, pages)
            for page in pages:
                sheet = _original_sheet(document, page) if original else _picture_sheet(document, page)
                _write(sheet, page, font)
                sheet.close()
            result = io.BytesIO()
            document.save(result)
            return result.getvalue()
        finally:
            document.close()


def _opened(original: Path) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(original.read_bytes())
    except (pypdfium2.PdfiumError, OSError) as error:
        raise images.PictureError(f"{original}: cannot be opened as a PDF: {error}") from None


def _original_sheet(document: Any, page: Page) -> Any:
    if not 1 <= page.number <= len(document):
        raise ValueError(f"{page!r}: the original has {len(document)} pages, and none of that number")
    return document[page.number - 1]


def _picture_sheet(document: Any, page: Page) -> Any:
    """A new sheet filled by the page's picture."""
    import pypdfium2

    scale = min(72 / DPI, LARGEST / max(page.width, page.height))
    width, height = page.width * scale, page.height * scale
    sheet = document.new_page(width, height)
    picture = pypdfium2.PdfImage.new(document)
    picture.load_jpeg(io.BytesIO(_jpeg(page.pixels())), inline=True)
    picture.set_matrix(pypdfium2.PdfMatrix().scale(width, height))
    sheet.insert_obj(picture)
    sheet.gen_content()
    return sheet


def _jpeg(pixels: np.ndarray) -> bytes:
    height, width = pixels.shape[:2]
    ratio = min(1.0, JPEG_SIDE / max(height, width))
    return images.encode(images.resize(pixels, (max(1, round(height * ratio)), max(1, round(width * ratio)))))


class _Font:
    """The empty font in a document, with a code for each character of the pages."""

    def __init__(self, document: Any, pages: Sequence[Page]) -> None:
        import pypdfium2.raw as pdfium

        lines = [line for page in pages for line in page.lines]
        texts = [*(line.text for line in lines), *(word.text for line in lines for word in line.words)]
        characters = sorted({character for text in [*texts, " "] for character in bidi.visual(text)} - _UNPRINTED)
        self.codes = {character: code for code, character in enumerate(characters[:65000], 1)}
        self.document = document
        data = invisible_font.font()
        buffer = (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
        glyphs = (0, *(1 for _ in self.codes))
        mapping = b"".join(glyph.to_bytes(2, "big") for glyph in glyphs)
        places = (ctypes.c_ubyte * len(mapping)).from_buffer_copy(mapping)
        to_unicode = ctypes.create_string_buffer(self._to_unicode().encode("ascii"))
        self.raw = pdfium.FPDFText_LoadCidType2Font(document.raw, buffer, len(data), to_unicode, places, len(mapping))
        assert self.raw, "pdfium refuses the font of invisible_font.py"

    def _to_unicode(self) -> str:
        """The CMap from codes to characters, in groups of 100 as the format asks. Source: Adobe note 5411."""
        entries = [f"<{code:04X}> <{c.encode('utf-16-be').hex().upper()}>" for c, code in self.codes.items()]
        groups = [entries[i : i + 100] for i in range(0, len(entries), 100)]
        body = "\n".join(f"{len(group)} beginbfchar\n" + "\n".join(group) + "\nendbfchar" for group in groups)
        return f"""/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
{body}
endcmap
CMapName currentdict /CMap defineresource pop
end
end
"""


# Control characters, of which readers make different things, and surrogates, which are no characters.
_UNPRINTED = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))}


def _write(sheet: Any, page: Page, font: _Font) -> None:
    """Puts the page's text onto a sheet, whatever its rotation and crop box."""
    import pypdfium2.raw as pdfium

    for line in page.lines:
        for text, polygon_xy in _pieces(line):
            _write_piece(sheet, page, text, polygon_xy, font)
    pdfium.FPDFPage_GenerateContent(sheet.raw)


def _pieces(line: Line) -> Iterator[tuple[str, np.ndarray]]:
    """Texts, as they stand from left to right, and their quads: the words and the spaces between them, or all at once.

    A page holds right-to-left text in the order of the eye; readers of PDF turn it round again.
    """
    if not line.words or bidi.has_right_to_left(line.text):
        yield bidi.visual(line.text), line.polygon_xy
        return
    before = None
    for word, spaced in spaced_words(line):
        if spaced and before is not None:  # else readers would have to guess from the gap
            yield " ", np.stack([before[1], word.polygon_xy[0], word.polygon_xy[3], before[2]])
        yield word.text, word.polygon_xy
        before = word.polygon_xy


def _write_piece(sheet: Any, page: Page, text: str, polygon_xy: np.ndarray, font: _Font) -> None:
    import pypdfium2.raw as pdfium

    codes = [font.codes[character] for character in text if character in font.codes]
    if not codes:
        return
    # Corners in the sheet's own coordinates: one em along the text, one line height up.
    top_left, _, bottom_right, bottom_left = (_on_sheet(sheet, page, point) for point in polygon_xy)
    along = (bottom_right - bottom_left) / len(codes)
    up = top_left - bottom_left
    if abs(along[0] * up[1] - along[1] * up[0]) < FLAT:
        return  # such as the space between words that touch
    origin = bottom_left + BASELINE * up
    piece = pdfium.FPDFPageObj_CreateTextObj(font.document.raw, font.raw, 1.0)
    array = (ctypes.c_uint32 * len(codes))(*codes)
    assert pdfium.FPDFText_SetCharcodes(piece, array, len(codes))
    pdfium.FPDFTextObj_SetTextRenderMode(piece, pdfium.FPDF_TEXTRENDERMODE_INVISIBLE)
    matrix = pdfium.FS_MATRIX(*(float(v) for v in (*along, *up, *origin)))
    pdfium.FPDFPageObj_SetMatrix(piece, matrix)
    pdfium.FPDFPage_InsertObject(sheet.raw, piece)


def _on_sheet(sheet: Any, page: Page, point_xy: np.ndarray) -> np.ndarray:
    """A pixel of the page's picture in points of the sheet."""
    import pypdfium2.raw as pdfium

    x, y = ctypes.c_double(), ctypes.c_double()
    device = (round(float(point_xy[0]) * FINE), round(float(point_xy[1]) * FINE))
    pdfium.FPDF_DeviceToPage(sheet.raw, 0, 0, page.width * FINE, page.height * FINE, 0, *device, x, y)
    return np.array([x.value, y.value])
