"""The still forms of the explorables: what their scripts draw first, as it is stored."""

import re
from math import isclose

import explorables
import pytest
from helpers.texts import ROOT, read

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
HTML = ROOT / "_build" / "html"
if not (HTML / "index.html").exists():
    pytest.skip("no book in _build/html: run make book", allow_module_level=True)


def same(drawn, stored):
    """Whether two drawings are equal but for rounding, which processors do differently."""
    words, others = (NUMBER.sub("#", text) for text in (drawn, stored))
    numbers = zip(NUMBER.findall(drawn), NUMBER.findall(stored), strict=False)
    return words == others and all(
        isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9) for one, other in numbers
    )


def test_every_still_form_is_what_its_script_draws_first(browser):
    drawn = dict(explorables.first_drawings(browser, HTML))
    stored = {path.stem: read(path) for path in explorables.STATIC.glob("stills/*.html")}
    assert drawn.keys() == stored.keys()
    assert [name for name in drawn if not same(drawn[name], stored[name])] == []


def test_a_still_form_stands_on_its_page_without_scripts(views):
    tab = views(java_script_enabled=False).open("book/150_layer_norm").tab
    figure = tab.locator("#explorable-layer_norm")
    assert figure.locator(".stage svg").first.is_visible()
    assert figure.locator(".controls").count() == 0
