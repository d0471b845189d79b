"""Figures that the reader moves: the directive ``{explorable} layer_norm``.

Its body is the caption. The script is ``_static/explorables/layer_norm.js``, loaded on its page
only, after ``core.js`` and ``explore.js``. What the script draws first is stored as the still form,
``_static/stills/layer_norm.html``, which stands there without scripts.
``python book/_ext/explorables.py`` stores the stills anew.
"""

import json
import sys
from pathlib import Path

from browser import launch
from docutils.parsers.rst import directives
from figures import Figure, glued_values

STATIC = Path(__file__).parents[1] / "_static"


class Explorable(Figure):
    """``{explorable} layer_norm``, with the caption as its body.

    ``:data: notebooks/320_museum`` hands its script what this notebook glues under its name.
    """

    required_arguments = 1
    option_spec = {"data": directives.unchanged}

    def run(self):
        (name,) = self.arguments
        self.depend_on(STATIC / "explorables" / f"{name}.js")
        still = STATIC / "stills" / f"{name}.html"
        self.env.note_dependency(str(still))
        drawn = still.read_text(encoding="utf-8") if still.exists() else ""
        self.load("core.js", "explore.js", f"explorables/{name}.js")
        stage = f'<div class="stage">{drawn}</div>'
        if notebook := self.options.get("data"):
            self.env.note_dependency(f"{notebook}.ipynb")
            values = glued_values(self.env.app.notebooks[notebook])
            stage = self.data(json.loads(values[name])) + stage
        return self.figure(stage, ["explorable"], f"explorable-{name}")


def first_drawings(browser, html):
    """Yield the name of each explorable of a built book, and what its script draws first."""
    tab = browser.new_page(reduced_motion="reduce")
    for page in sorted(html.glob("book/*.html")):
        if 'class="explorable' in page.read_text(encoding="utf-8"):
            tab.goto(page.as_uri())
            for figure in tab.locator(".explorable:not(.model)").all():
                name = figure.get_attribute("id").removeprefix("explorable-")
                drawn = figure.locator(".stage").inner_html()
                yield name, drawn.replace(' tabindex="0"', "") + "\n"
    tab.close()


def store_stills(html):
    """Store what each script draws first, from the built book."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        for name, drawn in first_drawings(launch(play), html):
            still = STATIC / "stills" / f"{name}.html"
            still.write_text(drawn, encoding="utf-8")


def setup(app):
    app.add_directive("explorable", Explorable)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    store_stills(Path(sys.argv[1] if len(sys.argv) > 1 else "_build/html").resolve())
