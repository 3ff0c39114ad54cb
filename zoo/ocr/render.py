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
_MARKUP = re.compile(r"([\\`*_\[\]<>|~$]|&(?=#?\w+;))")
# What begins a heading or a list, or underlines the row before it as one.
_LINE_START = re.compile(r"#{1,6}(?:\s|$)|[-+](?:\s|$)|(?:=+|-+)$")
_LIST_NUMBER = re.compile(r"\d{1,9}(?=[.)](?:\s|$))")


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


def bounds(items: Sequence[Line | Word], page: Page) -> Box:
    """The upright box around lines or words, as far as it lies on the page: hOCR knows no negative places."""
    points = np.clip(np.concatenate([item.polygon_xy for item in items]), 0, (page.width, page.height))
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


def spaced_words(line: Line) -> Iterator[tuple[Word, bool]]:
    """The words of a line, and whether white space stands before each; Chinese characters have none between them."""
    at = 0
    for number, word in enumerate(words_in(line)):
        found = line.text.find(word.text, at)
        if found < 0:  # words of another text than the line's: taken for words that spaces part
            yield word, number > 0
            continue
        yield word, number > 0 and any(character.isspace() for character in line.text[at:found])
        at = found + len(word.text)


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
    # The name stands in quotes and is a path as on Unix, whatever the system.
    name = page.source.replace("\\", "/").replace('"', "%22")
    title = f'image "{name}"; bbox 0 0 {page.width} {page.height}; ppageno {page.number - 1}'
    yield f'<div class="ocr_page" id="page_{index + 1}" title={attribute(title)}>'
    for number, block in enumerate(grouped(page)):
        lines = [line for row in block for line in row]
        yield f'<div class="ocr_carea" id="block_{index + 1}_{number + 1}" title="{_bbox(bounds(lines, page))}">'
        for line in lines:
            turned = angle(line)
            extra = f"; textangle {turned:g}" if turned else ""
            yield f'<span class="ocr_line" title="{_bbox(bounds([line], page))}{extra}">'
            yield "".join(
                f'{" " * spaced}<span class="ocrx_word" title="{_bbox(bounds([word], page))}; '
                f'x_wconf {round(100 * _share(word))}">{clean(word.text)}</span>'
                for word, spaced in spaced_words(line)
            )
            yield "</span>"
        yield "</div>"
    yield "</div>"


def _share(word: Word) -> float:
    """The score as both formats bound it."""
    return min(max(float(word.score), 0.0), 1.0)


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
        yield f'<TextBlock ID="block_{index + 1}_{number + 1}" {_place(bounds(lines, page))}>'
        for line in lines:
            yield f"<TextLine {_place(bounds([line], page))}>"
            # The schema wants at least one string in a line.
            strings = [*spaced_words(line)] or [(Word("", line.score, line.polygon_xy), False)]
            yield "".join(
                f'{"<SP/>" * spaced}<String {_place(bounds([word], page))} WC="{_share(word):.2f}" '
                f"CONTENT={attribute(word.text)}/>"
                for word, spaced in strings
            )
            yield "</TextLine>"
        yield "</TextBlock>"
    yield "</PrintSpace>"
    yield "</Page>"


def _place(box: Box) -> str:
    size = f'WIDTH="{box.right - box.left}" HEIGHT="{box.bottom - box.top}"'
    return f'HPOS="{box.left}" VPOS="{box.top}" {size}'


def markdown(page: Page) -> str:
    """A paragraph for each block, a line for each row; what would be markup is escaped. "" for a blank page.

    Source: CommonMark 0.31, and the tables, strikethrough and formulas of GitHub's dialect.
    """
    paragraphs = []
    for block in grouped(page):
        rows = [_escape_markdown(" ".join(line.text for line in row)) for row in block]
        # Two spaces at the end keep the line break.
        paragraphs.append("  \n".join(row for row in rows if row))
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _escape_markdown(text: str) -> str:
    escaped = _MARKUP.sub(r"\\\1", " ".join(_NOT_XML.sub("", text).split()))
    number = _LIST_NUMBER.match(escaped)
    if number:  # "1." would begin a list
        return f"{number[0]}\\{escaped[number.end() :]}"
    return f"\\{escaped}" if _LINE_START.match(escaped) else escaped
