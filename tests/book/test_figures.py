"""How figures come onto the pages: their colours, their texts, and what moves."""

import ast
import re
import xml.etree.ElementTree as ET

import figures
import matplotlib.pyplot as plt
import pytest
from helpers.texts import ROOT, cells, notebook, read

from book import plots

NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
STATIC = ROOT / "book/_static"
PAGES = {page.stem: read(page) for page in ROOT.glob("book/*.md")}
PLACED = [
    (name, page)
    for page, text in PAGES.items()
    for name in re.findall(r"^`{3,}\{explorable\} (\w+)$", text, flags=re.MULTILINE)
]


def cell(source, outputs=(), alt=""):
    metadata = {"mystnb": {"image": {"alt": alt}}} if alt else {}
    return {"source": [source], "metadata": metadata, "outputs": list(outputs)}


def glued(key, written):
    return {
        "data": {"application/papermill.record/text/plain": written},
        "metadata": {"scrapbook": {"name": key}},
    }


@pytest.fixture(scope="module")
def drawing(tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "figure.svg"
    with plt.rc_context():
        plots.use_style()
        fig, ax = plt.subplots(figsize=(5, 3))
        ax.plot([1, 2], color=plots.QUERY, label="query")
        ax.plot([2, 1], color=plots.COTANGENT, label="cotangent")
        ax.legend()
        fig.savefig(path)
        plt.close(fig)
    return path.read_text(encoding="utf-8")


def test_a_figure_takes_the_colours_of_the_page(drawing):
    svg = figures.on_the_page(drawing, "Two lines.", "a")
    for property in ("--blue", "--purple", "--ink", "--paper", "--line"):
        assert f"var({property})" in svg
    for colour in figures.COLOURS:
        assert not re.search(rf"(fill|stroke): {colour}", svg)


def test_every_colour_of_the_palette_has_a_property_in_both_modes():
    css = read(STATIC / "figures.css")
    palette = {
        value.lower()
        for name, value in vars(plots).items()
        if name.isupper() and isinstance(value, str)
    } - {plots.ON_LIGHT, plots.ON_DARK}
    assert palette <= figures.COLOURS.keys()
    dark = '[data-theme="dark"]'
    for mode in (f"html:not({dark})", f"html{dark}"):  # a page without scripts has none
        (block,) = re.findall(rf"^{re.escape(mode)} {{(.*?)}}", css, re.M | re.DOTALL)
        for property in ("blue", "orange", "green", "red", "purple", "sky", "line"):
            assert f"--{property}: #" in block


def test_a_figure_is_well_formed_and_has_its_text(drawing):
    svg = figures.on_the_page(drawing, 'Less < more & "so".', "a")
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == 'Less < more & "so".'
    assert "viewBox" in root.attrib and "width" not in root.attrib
    assert re.fullmatch(r"max-width: [\d.]+pt; min-width: \d+px", root.attrib["style"])


def test_the_smallest_type_of_a_figure_stays_readable():
    text = '<g transform="translate(3 9) scale({0} -{0})"></g>'
    for scale in (0.1, 0.08):
        texts = text.format(scale) + text.format(0.12)
        svg = figures.on_the_page(
            f'<svg width="400pt" height="300pt" viewBox="0 0 400 300">{texts}</svg>', "", "a"
        )
        narrowest = float(re.search(r"min-width: (\d+)px", svg)[1])
        assert 100 * scale * narrowest / 400 == pytest.approx(8.8, abs=0.02)


def test_a_stored_figure_is_compact_and_looks_the_same(drawing):
    small = figures.compact(drawing)
    assert len(small) < len(drawing) and "<metadata>" not in small
    before, after = (
        [
            [float(n) for n in re.findall(r"-?[\d.]+", path.attrib["d"])]
            for path in ET.fromstring(text[text.index("<svg") :]).iter()
            if "d" in path.attrib
        ]
        for text in (drawing, small)
    )
    assert len(before) == len(after) > 20
    for ours, theirs in zip(after, before, strict=True):
        assert ours == pytest.approx(theirs, abs=0.0051)
    assert all("\n" not in path for path in re.findall(r'\sd="([^"]*)"', small))


def test_two_figures_of_a_page_share_no_name(drawing):
    svgs = [figures.on_the_page(drawing, "", prefix) for prefix in "ab"]
    names, others = (set(re.findall(r'\bid="([^"]+)"', svg)) for svg in svgs)
    assert names and not names & others
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svgs[0])) <= names


def test_an_alternative_text_is_filled_with_what_cells_glue():
    drawn = cell("", alt="It ends at {end:.2f}, after {steps} steps, {who}.")
    filled = {
        "cells": [
            cell("", [glued("end", "np.float64(0.12345)"), glued("steps", ["30"])]),
            cell("", [glued("who", "'SGD'")]),
            drawn,
        ]
    }
    text = figures.alternative_text(drawn, filled)
    assert text == "It ends at 0.12, after 30 steps, SGD."


def test_an_alternative_text_with_an_unknown_field_stops_the_build():
    drawn = cell("", alt="It ends at {end:.2f}.")
    with pytest.raises(KeyError, match="end"):
        figures.alternative_text(drawn, {"cells": [drawn]})


def test_a_figure_of_a_page_is_found_by_its_key():
    svg = {"data": {"image/svg+xml": ["<svg>", "</svg>"]}}
    drawn = cell('glue("curve", fig)', [svg], alt="A curve.")
    assert figures.drawn_as({"cells": [drawn]}, "curve") == ("<svg></svg>", "A curve.")
    with pytest.raises(figures.ExtensionError, match="0 figures other, not one"):
        figures.drawn_as({"cells": [drawn]}, "other")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_figures_of_a_notebook_are_vectors_with_texts(path):
    for drawn in cells(path, "code"):
        kinds = {kind for output in drawn.outputs for kind in output.get("data", ())}
        assert "image/png" not in kinds, drawn.source
        if "image/svg+xml" in kinds:  # and every field of the text is glued
            assert len(figures.alternative_text(drawn, notebook(path))) > 40, drawn.source


NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")


def numbers(text):
    return {float(number.replace(",", "")) for number in NUMBER.findall(text)}


def typed_numbers(drawn):
    """The numbers of a cell's alternative text that come neither from a run nor from its figure.

    A number may be typed if it stands in the code of the cell, as a setting, or in the figure, as a
    tick or a label. Every other one is a field that a cell fills.
    """
    typed = re.sub(r"\{.*?\}", "", drawn["metadata"]["mystnb"]["image"]["alt"])
    code = ast.unparse(ast.parse("".join(drawn["source"])))  # without comments
    drawings = [output.get("data", {}).get("image/svg+xml", "") for output in drawn["outputs"]]
    labels = re.findall(r"<!-- (.*?) -->", "\n".join("".join(lines) for lines in drawings))
    return numbers(typed) - numbers(code) - numbers(" ".join(labels))


def test_a_number_of_an_alternative_text_is_a_field_a_setting_or_a_label():
    svg = {"data": {"image/svg+xml": ["<svg><!-- 0.5 -->", "</svg>"]}}
    source = "rate = 1_000  # not 7\nglue('curve', fig)"
    right = cell(source, [svg], alt="It ends at {end:.2f}, with 1,000 steps above 0.5.")
    assert typed_numbers(right) == set()
    said = {"data": {"text/plain": ["<!-- 0.12 -->"]}}  # no label
    wrong = cell(source, [said, svg], alt="It ends at 0.12, after 7 steps, above 5e-1 {who}.")
    assert typed_numbers(wrong) == {0.12, 7}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_measured_number_is_typed_into_an_alternative_text(path):
    for drawn in notebook(path).cells:
        if "mystnb" in drawn["metadata"]:
            assert typed_numbers(drawn) == set(), "glue it, and name its key in braces"


# What the reader moves


def test_every_explorable_stands_on_one_page():
    models, scripts = (
        {path.stem for path in STATIC.glob(f"{folder}/*.js")}
        for folder in ("models", "explorables")
    )
    assert sorted(name for name, _ in PLACED) == sorted(scripts - models)


@pytest.mark.parametrize("name, page", PLACED)
def test_an_explorable_is_small_and_has_a_still_form_and_a_caption(name, page):
    script = STATIC / f"explorables/{name}.js"
    assert script.stat().st_size < 30_000
    drawn = '<svg|<table|role="group"'  # or words in boxes
    assert re.search(drawn, read(STATIC / f"stills/{name}.html"))
    block = re.search(rf"^(`{{3,}})\{{explorable\}} {name}\n(.+?)\n\1$", PAGES[page], re.M | re.S)
    assert len(block[2].split()) >= 5


def test_the_scripts_of_the_pages_are_classic():
    for path in STATIC.rglob("*.js"):
        if "models" not in path.parts:
            assert not re.search(r"^\s*(import|export)\s", read(path), re.MULTILINE)
