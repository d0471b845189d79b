"""A symbol in the formulas of a page is in its code and its graph, too."""

import re
from xml.etree import ElementTree

import course
import graphs
import pytest
from helpers.texts import ROOT
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in ROOT.glob("book/*.md")}
LISTED = {
    page: re.findall(r"^```\{source\} .*\n((?:.+\n)*?)```", text, re.MULTILINE)
    for page, text in TEXTS.items()
}
PAGES = sorted(page for page, text in TEXTS.items() if r"\sym{" in text or any(LISTED[page]))


@pytest.mark.parametrize("page", PAGES)
def test_formulas_code_and_graph_have_the_same_symbols(page):
    named = set(re.findall(r"\\sym\{(.*?)\}", TEXTS[page]))
    listed = {line.partition(": ")[0] for body in LISTED[page] for line in body.splitlines()}
    drawn = [
        strip
        for name in re.findall(r"\{graph\} (\w+)", TEXTS[page])
        for strip in graphs.described(name).first_shown()
    ]
    assert named == listed
    assert {symbol: drawn.count(symbol) for symbol in named} == dict.fromkeys(named, 1)


def test_the_five_chapters_of_gradients_have_symbols():
    first = {"130_softmax", "140_cross_entropy", "150_layer_norm", "210_attention"}
    assert set(PAGES) >= first | {"240_optimizers"}


def test_a_piece_of_a_listing_has_its_class():
    code = 'dx = scale * (g - "<&" - mean(g))\ndx *= 2'
    pieces = {"x'": code[:33], "x<mu": "mean(g)", "g": "(g", "y": "dx *= 2"}
    symbols = [(name, code.index(p), code.index(p) + len(p)) for name, p in pieces.items()]
    html = highlight(code, PythonLexer(), HtmlFormatter())
    marked = ElementTree.fromstring(course.with_symbols(html, symbols))
    assert "".join(marked.itertext()).strip() == code
    found = {
        part.get("class").removeprefix("sym:"): "".join(part.itertext())
        for part in marked.iter("span")
        if part.get("class", "").startswith("sym:")
    }
    assert found == pieces
