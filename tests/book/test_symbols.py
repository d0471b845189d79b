"""A symbol in the formulas of a page with a graph is in its code and its graph, too."""

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
PAGES = sorted(page for page, text in TEXTS.items() if "```{graph} " in text)
ELSEWHERE = {  # what no listing of the page computes
    "110_gradient_check": "x u y x' u' y' x<u x<y",  # an example, not a function of the package
    "215_masks": "S A S'",  # listed under attention
    "230_embedding": "E'",  # a model's sum, shown in dots
    "260_steepest_descent": "win2 Dmax winmax",  # for the proof alone
    "280_signal_propagation": "x0' x1' x2'",  # no function of its own: Residual's
    "630_search": "h'",  # listed under fine-tuning
    "590_few_bits": "w0 w1 c1",  # an optimiser's step, which rounds nothing
}


def symbols(places):
    return {symbol for place in places for symbol in place.split(",")}


@pytest.mark.parametrize("page", PAGES)
def test_formulas_code_and_graph_have_the_same_symbols(page):
    named = symbols(re.findall(r"\\sym\{(.*?)\}", TEXTS[page]))
    listed = symbols(line.partition(": ")[0] for b in LISTED[page] for line in b.splitlines())
    drawn = [
        strip
        for name in re.findall(r"\{graph\} (\w+)", TEXTS[page])
        for strip in graphs.described(name).first_shown()
    ]
    assert named and listed <= named
    assert named - listed == set(ELSEWHERE.get(page, "").split())
    assert {symbol: drawn.count(symbol) for symbol in named} == dict.fromkeys(named, 1)


def test_no_page_without_a_graph_has_symbols():
    others = TEXTS.keys() - set(PAGES)
    assert not any(r"\sym{" in TEXTS[page] or any(LISTED[page]) for page in others)


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
