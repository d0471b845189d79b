"""One sentence through the whole model: every cell against its sum, the package and SymPy."""

import re
from html import unescape

import arrays
import numpy as np
import pytest
import sympy
from graphs import described
from helpers.texts import ROOT
from map import BOXES

MODEL = arrays.model()
VALUES = {key: np.asarray(node.value) for key, node in MODEL.nodes.items()}
VALUES |= {f"d{key}": np.asarray(node.cotangent) for key, node in MODEL.nodes.items()}
ROUNDED = {"dE", "dP", "dX"}
CHAPTERS = sorted({chapter for _, chapter, _, _ in MODEL.parts})
CELL = re.compile(r'<td data-sum="(.*?)">')


@pytest.mark.parametrize("name", MODEL.sums)
def test_every_cell_is_the_sum_into_which_it_opens(name):
    found = arrays.evaluated(MODEL.sums[name], VALUES)
    np.testing.assert_allclose(found, VALUES[name], rtol=1e-12, atol=1e-13)


def exact_values():
    """Every entry by SymPy, sum for sum, from the parameters; a column by its row alone."""
    exact = {"dloss": {(): sympy.Integer(1)}}
    for key, node in MODEL.nodes.items():
        if key not in MODEL.sums:
            unit = sympy.log(2) if node.unit[0] else 1
            exact[key] = {i: sympy.nsimplify(v) * unit for i, v in parts_of(node)}
    functions = {"exp": sympy.exp, "log": sympy.log, "sqrt": sympy.sqrt, "max": sympy.Max}
    for name, sums in MODEL.sums.items():
        exact[name] = {}
        for index, text in sums.items():
            text = re.sub(r"\((H\[.*?\]) > 0\)", r"int(bool(\1 > 0))", text)
            value = sympy.nsimplify(eval(text, functions | exact))
            exact[name][index[0] if len(index) == 1 else index] = sympy.simplify(value)
    return exact


def parts_of(node):
    """The entries of an array of parameters, in its unit, which are all whole or halves."""
    return ((i, round(2 * v) / 2) for i, v in np.ndenumerate(node.value / node.unit[1]))


@pytest.mark.slow
def test_what_is_written_as_a_fraction_is_that_fraction():
    exact = exact_values()
    for key in MODEL.nodes:
        for back in (False, True):
            name = "d" * back + key
            html = arrays.table(MODEL, key, back, None)
            texts = re.findall(r"<td.*?>(.*?)</td>", html)
            unit = re.search(r'data-unit="(.*?)"', html)
            factor = {"ln 2": sympy.log(2), "(ln 2)²": sympy.log(2) ** 2}[unit[1]] if unit else 1
            assert len(texts) == len(exact[name]) == VALUES[name].size
            for text, value in zip(texts, exact[name].values(), strict=True):
                written = text.replace("−", "-").replace("ln 2", "log(2)")
                difference = sympy.sympify(written) * factor - value
                if name in ROUNDED:
                    assert abs(difference.evalf()) <= 0.005
                else:
                    assert "." not in text and sympy.simplify(difference) == 0


def test_the_head_is_that_of_the_chapter_on_attention():
    chapter = described("attention").nodes
    for key, name in {"q": "Q", "K": "K", "V": "V", "s": "S", "a": "A", "o": "O"}.items():
        row = slice(None) if key in "KV" else 1
        np.testing.assert_allclose(VALUES[name][row], chapter[key].value, atol=1e-14)
        seeded = 0.75 * np.log(2) * chapter[key].cotangent
        np.testing.assert_allclose(VALUES[f"d{name}"][row], seeded, atol=1e-14)


def test_every_box_of_the_encoder_on_the_map_has_its_arrays():
    for at, box in enumerate(BOXES):
        assert box.chapter in [chapter for on, chapter, *_ in MODEL.parts if on == at]
    assert [on for on, *_ in MODEL.parts] == sorted(on for on, *_ in MODEL.parts)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_every_number_of_its_sums(chapter):
    page = next(ROOT.glob(f"book/{chapter}_*.md")).stem
    html = arrays.of_chapter(page)
    held = set(re.findall(r'data-array="(.*?)"', html))
    own = html.partition("From other boxes")[0]
    named = {
        found[1]
        for text in CELL.findall(own)
        for found in arrays.REFERENCE.finditer(unescape(text))
    }
    assert named <= held and named


def test_other_pages_have_none():
    assert arrays.of_chapter("110_gradient_check") == ""
