"""A page as hOCR, ALTO and Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from zoo.ocr.order import blocks
from zoo.ocr.page import Line, Page, Word

# XML 1.0 knows no control characters but tab, newline and return, no surrogates and no noncharacters.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKUP = re.compile(r"([\\`*_\[\]<>|~$])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}(?=\s|$)|[-+](?=\s|$)|=+\s*$|-{3,}\s*$)|^(\s*\d+)([.)])(?=\s|$)")


class Box(NamedTuple):
    """Upright bounds in whole pixels."""

    left: int
    top: int
    right: int
    bottom: int


def grouped(page: Page) -> list[list[list[Line]]]:
    """The lines as blocks of rows, in reading order."""
    if not page.lines:
        return []
    found = blocks(np.stack([line.polygon_xy for line in page.lines]))
    return [[[page.lines[i] for i in row] for row in block] for block in found]


def bounds(items: Sequence[Line | Word]) -> Box:
    """The upright box around lines or words."""
    points = np.concatenate([item.polygon_xy for item in items])
    low, high = np.floor(points.min(axis=0)), np.ceil(points.max(axis=0))
    return Box(int(low[0]), int(low[1]), int(high[0]), int(high[1]))


def words_in(line: Line) -> tuple[Word, ...]:
    """The line's own words, or its text cut at spaces, each with its share of the line's length."""
    if line.words:
        return line.words
    found = []
    for match in re.finditer(r"\S+", line.text):
        left, right = match.start() / len(line.text), match.end() / len(line.text)
        top_left, top_right, bottom_right, bottom_left = line.polygon_xy
        top, bottom = top_right - top_left, bottom_right - bottom_left
        ends = (
            top_left + left * top,
            top_left + right * top,
            bottom_left + right * bottom,
            bottom_left + left * bottom,
        )
        found.append(Word(match[0], line.score, np.stack(ends)))
    return tuple(found)


def clean(text: str) -> str:
    """The text as XML may hold it, escaped."""
    return escape(_NOT_XML.sub("", text))


def attribute(text: str) -> str:
    """A quoted XML attribute."""
    return quoteattr(_NOT_XML.sub("", text))


def angle(line: Line) -> float:
    """By how many degrees the line is turned counter-clockwise, as hOCR's textangle counts."""
    x, y = line.polygon_xy[1] - line.polygon_xy[0]
    return round(math.degrees(math.atan2(-float(y), float(x))), 1) % 360


def hocr(pages: Sequence[Page]) -> str:
    """One hOCR 1.2 document of all pages. Source: kba.github.io/hocr-spec/1.2."""
    body = "\n".join(part for index, page in enumerate(pages) for part in _hocr_page(page, index))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml">
<head>
<title></title>
<meta http-equiv="Content-Type" content="text/html;charset=utf-8" />
<meta name="ocr-system" content="ppzoo" />
<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_line ocrx_word" />
</head>
<body>
{body}
</body>
</html>
"""


def _hocr_page(page: Page, index: int) -> Iterator[str]:
    title = f'image "{page.source}"; bbox 0 0 {page.width} {page.height}; ppageno {page.number - 1}'
    yield f'<div class="ocr_page" id="page_{index + 1}" title={attribute(title)}>'
    for number, block in enumerate(grouped(page)):
        lines = [line for row in block for line in row]
        yield f'<div class="ocr_carea" id="block_{index + 1}_{number + 1}" title="{_bbox(bounds(lines))}">'
        for line in lines:
            turned = angle(line)
            extra = f"; textangle {turned:g}" if turned else ""
            yield f'<span class="ocr_line" title="{_bbox(bounds([line]))}{extra}">'
            yield " ".join(
                f'<span class="ocrx_word" title="{_bbox(bounds([word]))}; x_wconf {round(100 * word.score)}">'
                f"{clean(word.text)}</span>"
                for word in words_in(line)
            )
            yield "</span>"
        yield "</div>"
    yield "</div>"


def _bbox(box: Box) -> str:
    return f"bbox {box.left} {box.top} {box.right} {box.bottom}"


def alto(pages: Sequence[Page]) -> str:
    """One ALTO 4 document of all pages. Source: loc.gov/standards/alto, version 4.4."""
    body = "\n".join(part for index, page in enumerate(pages) for part in _alto_page(page, index))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v4#">
<Description>
<MeasurementUnit>pixel</MeasurementUnit>
<sourceImageInformation><fileName>{clean(pages[0].source if pages else "")}</fileName></sourceImageInformation>
</Description>
<Layout>
{body}
</Layout>
</alto>
"""


def _alto_page(page: Page, index: int) -> Iterator[str]:
    size = f'WIDTH="{page.width}" HEIGHT="{page.height}"'
    yield f'<Page ID="page_{index + 1}" PHYSICAL_IMG_NR="{page.number}" {size}>'
    yield f'<PrintSpace HPOS="0" VPOS="0" {size}>'
    for number, block in enumerate(grouped(page)):
        lines = [line for row in block for line in row]
        yield f'<TextBlock ID="block_{index + 1}_{number + 1}" {_place(bounds(lines))}>'
        for line in lines:
            yield f"<TextLine {_place(bounds([line]))}>"
            yield "<SP/>".join(
                f'<String {_place(bounds([word]))} WC="{word.score:.2f}" CONTENT={attribute(word.text)}/>'
                for word in words_in(line)
            )
            yield "</TextLine>"
        yield "</TextBlock>"
    yield "</PrintSpace>"
    yield "</Page>"


def _place(box: Box) -> str:
    size = f'WIDTH="{box.right - box.left}" HEIGHT="{box.bottom - box.top}"'
    return f'HPOS="{box.left}" VPOS="{box.top}" {size}'


def markdown(page: Page) -> str:
    """A paragraph for each block, a line for each row; what would be markup is escaped. "" for a blank page."""
    paragraphs = []
    for block in grouped(page):
        rows = [" ".join(line.text for line in row) for row in block]
        # Two spaces at the end keep the line break.
        paragraphs.append("  \n".join(_escape_markdown(row) for row in rows))
    return "\n\n".join(paragraphs)


def _escape_markdown(text: str) -> str:
    escaped = _MARKUP.sub(r"\\\1", " ".join(text.split()))
    start = _LINE_START.match(escaped)
    if not start:
        return escaped
    if start[4]:  # "1." would begin a list
        return f"{escaped[: start.start(4)]}\\{escaped[start.start(4) :]}"
    return f"{escaped[: start.start(2)]}\\{escaped[start.start(2) :]}"
