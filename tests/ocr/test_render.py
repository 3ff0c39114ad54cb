"""hOCR, ALTO and Markdown."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ocr.pages import any_text, page, quad
from zoo.ocr import Line, Page, Word
from zoo.ocr.render import alto, hocr, markdown, spaced_words

XHTML, ALTO = "{http://www.w3.org/1999/xhtml}", "{http://www.loc.gov/standards/alto/ns-v4#}"


@settings(deadline=None)
@given(st.lists(any_text, max_size=4))
def test_renderings_of_any_text_are_xml(texts: list[str]) -> None:
    root = ET.fromstring(hocr([page(*texts)]))
    lines = [node for node in root.iter(f"{XHTML}span") if node.get("class") == "ocr_line"]
    assert len(lines) == len(texts)
    assert len(list(ET.fromstring(alto([page(*texts)])).iter(f"{ALTO}TextLine"))) == len(texts)


def test_hocr_says_where_and_what() -> None:
    root = ET.fromstring(hocr([page("Hello big world"), page("second", number=2)]))
    sheets = [node for node in root.iter(f"{XHTML}div") if node.get("class") == "ocr_page"]
    assert sheets[0].get("title") == 'image "a & b.png"; bbox 0 0 1000 800; ppageno 0'
    assert "ppageno 1" in (sheets[1].get("title") or "")
    words = [node for node in root.iter(f"{XHTML}span") if node.get("class") == "ocrx_word"]
    assert [node.text for node in words] == ["Hello", "big", "world", "second"]
    # "big" is characters 6 to 9 of 15 on a line from 100 to 700.
    assert words[1].get("title") == "bbox 340 50 460 90; x_wconf 90"


def test_alto_says_where_and_what() -> None:
    strings = list(ET.fromstring(alto([page("Hello big world")])).iter(f"{ALTO}String"))
    assert [node.get("CONTENT") for node in strings] == ["Hello", "big", "world"]
    assert (strings[1].get("HPOS"), strings[1].get("VPOS"), strings[1].get("WIDTH")) == ("340", "50", "120")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, text.", "plain, text."),
        ("# no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("- no list", r"\- no list"),
        ("*a* _b_ [c](d) <e> `f` |", r"\*a\* \_b\_ \[c\](d) \<e\> \`f\` \|"),
        ("3.14 - 2", "3.14 - 2"),
    ],
)
def test_markdown_escapes_markup(text: str, expected: str) -> None:
    assert markdown(page(text)) == expected


# A Chinese line with a box for each character, as `return_words` gives it, and an English word after a space.
MIXED = Line(
    quad(100, 50, 600),
    "春江 sea 7",
    0.9,
    0,
    tuple(Word(text, 0.8, quad(left, 50, 90)) for text, left in (("春", 100), ("江", 200), ("sea", 350), ("7", 500))),
)


def test_no_spaces_appear_between_chinese_characters() -> None:
    assert [spaced for _, spaced in spaced_words(MIXED)] == [False, False, True, True]
    made = Page((MIXED,), 1000, 800, "x")
    line = next(node for node in ET.fromstring(made.to_hocr()).iter(f"{XHTML}span") if node.get("class") == "ocr_line")
    assert "".join(line.itertext()).strip() == "春江 sea 7"
    text_line = next(ET.fromstring(made.to_alto()).iter(f"{ALTO}TextLine"))
    tags = [node.tag.removeprefix(ALTO) for node in text_line]
    assert tags == ["String", "String", "SP", "String", "SP", "String"]


def test_words_of_another_text_are_parted_by_spaces() -> None:
    words = (Word("one", 1, quad(0, 0, 50)), Word("two", 1, quad(60, 0, 50)))
    assert [spaced for _, spaced in spaced_words(Line(quad(0, 0, 110), "eins zwei", 1, 0, words))] == [False, True]


def test_boxes_end_at_the_edges_of_the_page() -> None:
    """hOCR 1.2 knows unsigned places only."""
    made = Page((Line(quad(-30, -5, 1500), "wide", 1.2, 0),), 1000, 800, "x")
    titles = [node.get("title") for node in ET.fromstring(made.to_hocr()).iter(f"{XHTML}span")]
    assert titles == ["bbox 0 0 1000 35", "bbox 0 0 1000 35; x_wconf 100"]
    string = next(ET.fromstring(made.to_alto()).iter(f"{ALTO}String"))
    assert (string.get("HPOS"), string.get("WIDTH"), string.get("WC")) == ("0", "1000", "1.00")


def test_a_file_name_with_quotes_stays_one_property() -> None:
    root = ET.fromstring(Page((), 10, 10, 'C:\\scans\\a"b; c.png').to_hocr())
    title = next(node for node in root.iter(f"{XHTML}div")).get("title") or ""
    assert re.fullmatch(r'image "([^"]*)"; bbox 0 0 10 10; ppageno 0', title)
    assert "C:/scans/a%22b; c.png" in title


def test_hocr_is_nested_as_its_capabilities_say() -> None:
    root = ET.fromstring(page("one two", "three").to_hocr())
    parents = {child: parent for parent in root.iter() for child in parent}
    inside = {"ocr_carea": "ocr_page", "ocr_line": "ocr_carea", "ocrx_word": "ocr_line"}
    found = [node for node in root.iter() if node.get("class") in inside]
    assert len(found) == 1 + 2 + 3
    for node in found:
        assert parents[node].get("class") == inside[node.get("class") or ""]
    capable = next(node for node in root.iter(f"{XHTML}meta") if node.get("name") == "ocr-capabilities")
    assert {"ocr_page", *inside} == set((capable.get("content") or "").split())


def test_a_turned_line_says_its_angle() -> None:
    """Text that climbs from bottom to top is turned by 90 degrees counter-clockwise (hOCR 1.2, textangle)."""
    climbing = np.array([[100, 500], [100, 100], [140, 100], [140, 500]], np.float32)
    root = ET.fromstring(Page((Line(climbing, "up", 1, 270),), 1000, 800, "x").to_hocr())
    line = next(node for node in root.iter(f"{XHTML}span"))
    assert line.get("title") == "bbox 100 100 140 500; textangle 90"


@settings(deadline=None)
@given(st.lists(st.sampled_from(["", " ", "\x00", "a\x0bb", "\ufffe", "\t", "x y"]), min_size=1, max_size=4))
def test_alto_follows_the_schema(texts: list[str]) -> None:
    """ALTO 4.4: a TextLine is strings, each with at most one space after it, and at least one; blocks have IDs."""
    root = ET.fromstring(alto([page(*texts), page(*texts, number=2)]))
    shorthand = {f"{ALTO}String": "s", f"{ALTO}SP": "_"}
    for line in root.iter(f"{ALTO}TextLine"):
        assert re.fullmatch("(s_?)+", "".join(shorthand[node.tag] for node in line))
    for string in root.iter(f"{ALTO}String"):
        assert "CONTENT" in string.attrib and 0 <= float(string.get("WC") or -1) <= 1
    named = [*root.iter(f"{ALTO}Page"), *root.iter(f"{ALTO}TextBlock")]
    assert len({node.get("ID") for node in named}) == len(named)
    assert [node.tag.removeprefix(ALTO) for node in root] == ["Description", "Layout"]


PIECES = [*"#-+=*_`~[]()<>!&;.0123456789 ab\\|$:\"'x\t/@^{}", "&amp;", "&#35;", "---", "1.", "2)", "    ", "```"]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=10).map("".join), max_size=4))
def test_markdown_reads_back_as_plain_text(texts: list[str]) -> None:
    """A parser of CommonMark with GitHub's tables finds paragraphs of plain text and nothing else."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    found: list[str] = []
    for token in parser.parse(markdown(page(*texts))):
        assert token.type in ("paragraph_open", "inline", "paragraph_close")
        if token.type == "inline":
            assert {child.type for child in token.children} <= {"text", "text_special", "hardbreak"}
            found += "".join(c.content if c.type != "hardbreak" else "\n" for c in token.children).split("\n")
    wanted = [" ".join(text.split()) for text in texts]
    assert found == [text for text in wanted if text]


def test_markdown_of_columns_goes_column_by_column() -> None:
    lines = [
        Line(quad(x, 50 + 60 * i, 400), f"{side}{i}", 1, 0) for i in range(4) for x, side in ((50, "l"), (550, "r"))
    ]
    made = Page(tuple(lines), 1000, 400, "x")
    assert made.to_markdown() == "l0  \nl1  \nl2  \nl3\n\nr0  \nr1  \nr2  \nr3"
