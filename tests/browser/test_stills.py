"""The still forms of the explorables: what their scripts draw first, as it is stored."""

import explorables
import pytest
from texts import ROOT, read

HTML = ROOT / "_build" / "html"
if not (HTML / "index.html").exists():
    pytest.skip("no book in _build/html: run make book", allow_module_level=True)


def test_every_still_form_is_what_its_script_draws_first(browser):
    drawn = dict(explorables.first_drawings(browser, HTML))
    stored = {
        path.stem: read(path) for path in explorables.STATIC.glob("stills/*.html")
    }
    assert drawn.keys() == stored.keys()
    assert [name for name in drawn if drawn[name] != stored[name]] == []


def test_a_still_form_stands_on_its_page_without_scripts(browser):
    context = browser.new_context(offline=True, java_script_enabled=False)
    tab = context.new_page()
    tab.goto((HTML / "book/150_layer_norm.html").as_uri())
    figure = tab.locator("#explorable-layer_norm")
    assert figure.locator(".stage svg").first.is_visible()
    assert figure.locator(".controls").count() == 0
    context.close()
