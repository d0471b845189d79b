"""A symbol in the formulas of a page with a graph is in its code and its graph, too."""

import re
from xml.etree import ElementTree

import course
import graphs
import pytest
from helpers.texts import ROOT, read
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

TEXTS = {path.stem: read(path) for path in ROOT.glob("book/*.md")}
LISTED = {
    page: re.findall(r"^```\{source\} .*\n((?:.+\n)*?)```", text, re.MULTILINE)
    for page, text in TEXTS.items()
}
PAGES = sorted(page for page, text in TEXTS.items() if "```{graph} " in text)
ELSEWHERE = {  # what no listing of the page computes
    "110_gradient_check": "x u y x' u' y' x<u x<y",  # an example, not a function of the package
    "140_cross_entropy": "log_p",  # which the code never forms
    "215_masks": "S A V O S' V' O'",  # listed under attention
    "230_embedding": "E' X Y X' Y'",  # a model's sums, shown in dots
    "250_schedules": "l0 l1 l0' l1' L0' L1'",  # a model's own passes over its parts
    "260_steepest_descent": "DF win2 Dmax winmax",  # for the proof and the table alone
    "280_signal_propagation": (  # no function of its own: Residual's
        "x0 x1 x2 f0 f1 x0' x1' x2' f0' f1' x0<x1 x1<x2 x0<f0 x1<f1"
    ),
    "330_encoder_decoder": "v a0 a1 o0 o1 s0' s1' a0' a1' o0' o1'",  # listed under attention
    "450_many_machines": "b L' L0' L1' b0' b1'",  # a model's own passes on its rank
    "460_one_layer": "h0 h1 h0' h1' x<h0 x<h1 s' s0' s1'",  # a linear layer's, softmax's
    "465_gpt_over_ranks": "W s0' s1'",  # listed under the linear layer and attention
    "630_search": "h h' l'",  # listed under fine-tuning; part of a sum
    "540_grouped_queries": "K<o0 K<o1 V<o0 V<o1",  # terms of one product
    "590_few_bits": "w0 w1 c1",  # an optimiser's step, which rounds nothing
}
PARTLY_NAMED = {  # less than four fifths of a graph, and what is missing
    "590_few_bits": "the steps after the first"
}


def symbols(places):
    return {symbol for place in places for symbol in place.split(",")}


@pytest.mark.parametrize("page", PAGES)
def test_formulas_code_and_graph_have_the_same_symbols(page):
    named = symbols(re.findall(r"\\sym\{(.*?)\}", TEXTS[page]))
    listed = symbols(line.partition(": ")[0] for b in LISTED[page] for line in b.splitlines())
    graphs_drawn = [
        [*graphs.described(name).first_shown()]
        for name in re.findall(r"\{graph\} (\w+)", TEXTS[page])
    ]
    drawn = sum(graphs_drawn, [])
    assert named and listed <= named
    assert named - listed == set(ELSEWHERE.get(page, "").split())
    assert {symbol: drawn.count(symbol) for symbol in named} == dict.fromkeys(named, 1)
    partly = [strips for strips in graphs_drawn if len(named & {*strips}) < 0.8 * len(strips)]
    assert bool(partly) == (page in PARTLY_NAMED)


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
