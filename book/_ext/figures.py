"""The figures of the notebooks on the page: vectors in its colours, with alternative texts.

An alternative text may hold fields, ``{error:.0e}``: values that cells of its notebook glue.
"""

import ast
import json
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for drawings with book.sentence

# What a figure's colours become on the page: properties of figures.css, which knows both modes.
COLOURS = {
    "#0072b2": "var(--blue)",
    "#e69f00": "var(--orange)",
    "#009e73": "var(--green)",
    "#d55e00": "var(--red)",
    "#cc79a7": "var(--purple)",
    "#56b4e9": "var(--sky)",
    "#6e6e6e": "var(--soft)",
    "#b0b0b0": "var(--line)",
    "#cccccc": "var(--line)",
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
}
READABLE = 8.8  # pixels: where its smallest type would be smaller, a figure scrolls
LONG = re.compile(r"-?\d+\.\d{3,}")
PAINT = re.compile(r"\b(fill|stroke|color): (#[0-9a-f]{6})\b")
TYPE = re.compile(r"\bscale\(([\d.]+) -\1\)")  # of a label, per 100 points


def alternative_text(cell, notebook):
    """The alternative text of a cell's figure, its fields filled with what the notebook glues."""
    text = cell["metadata"]["mystnb"]["image"]["alt"]
    return text.format_map(glued_values(notebook)) if "{" in text else text


def glued_values(notebook):
    """The texts and numbers that a notebook's cells glue, by their keys."""
    values = {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            key = output.get("metadata", {}).get("scrapbook", {}).get("name")
            for kind, written in output.get("data", {}).items():
                if key and kind.endswith("text/plain"):
                    values[key] = literal("".join(written))
    return values


def literal(written):
    """The number or text that a ``repr`` writes; the ``repr`` itself where it is another thing."""
    try:
        return ast.literal_eval(re.sub(r"^np\.\w+\((.*)\)$", r"\1", written))
    except (ValueError, SyntaxError):
        return written


def compact(drawing):
    """A figure of Matplotlib with a line for each path, to a hundredth of a point."""
    drawing = re.sub(r"<metadata>.*?</metadata>\s*", "", drawing, flags=re.DOTALL)
    drawing = drawing.replace('"STIXGeneral-', '"').replace("#STIXGeneral-", "#")

    def path(found):
        line = re.sub(r" ?([A-Za-z]) ?", r"\1", " ".join(found[1].split()))
        return f' d="{re.sub(LONG, lambda number: f"{float(number[0]):.2f}", line)}"'

    return re.sub(r'\sd="([^"]*)"', path, drawing)


def on_the_page(drawing, alt, prefix):
    """A figure of Matplotlib as SVG that stands in the page and takes on its colours.

    It is never so narrow that its smallest type could not be read. The prefix tells its names from
    those of the page's other figures.
    """
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r'\bid="', f'id="{prefix}-', drawing)
    drawing = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{prefix}-", drawing)
    drawing = PAINT.sub(lambda paint: f"{paint[1]}: {COLOURS.get(paint[2], paint[2])}", drawing)
    width = float(re.search(r'width="([\d.]+)pt"', drawing)[1])
    smallest = 100 * min(float(scale) for scale in TYPE.findall(drawing))
    label = f'role="img" aria-label="{attribute(alt)}"'
    size = f"max-width: {width:g}pt; min-width: {width * READABLE / smallest:.0f}px"
    head = f'<svg class="plot" {label} style="{size}" '
    return re.sub(
        r'<svg (.*?) width="[\d.]+pt" height="[\d.]+pt"|<svg width="[\d.]+pt" height="[\d.]+pt"',
        lambda found: head + (found[1] or ""),
        drawing,
        count=1,
    )


def attribute(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def load(env, *scripts):
    """Let the page load scripts and style sheets of _static, in their order."""
    loaded = env.metadata[env.docname].setdefault("scripts", [])
    loaded += [script for script in scripts if script not in loaded]


class Figure(SphinxDirective):
    """A directive that draws; its body is the caption."""

    has_content = True

    def load(self, *scripts):
        load(self.env, *scripts)

    def depend_on(self, *paths):
        """Draw anew what comes from these files when they change; each has to be there."""
        for path in paths:
            if not path.exists():
                raise self.error(f"{path} is not there")
            self.env.note_dependency(str(path))

    def figure(self, html, classes, name=None, caption=("caption",)):
        """A container of HTML and the caption, which is in one of its own if it has a class.

        The caption of an explorable says what to do, and comes first.
        """
        figure = nodes.container(classes=list(classes), ids=[name] * bool(name))
        drawing = nodes.raw("", html, format="html")
        inside = nodes.container(classes=list(caption)) if caption else figure
        self.state.nested_parse(self.content, self.content_offset, inside)
        if caption:
            figure += [inside, drawing] if "explorable" in classes else [drawing, inside]
        else:
            figure.insert(0, drawing)
        return [figure]

    def data(self, values):
        """Values as JSON, which the script of a figure reads."""
        text = json.dumps(values, ensure_ascii=False).replace("</", "<\\/")
        return f'<script type="application/json">{text}</script>'


def link_the_scripts(app, page, template, context, doctree):
    """Link on each page what its figures load."""
    for script in app.env.metadata.get(page, {}).get("scripts", ()):
        if script.endswith(".css"):
            app.add_css_file(script)
        else:
            app.add_js_file(script, loading_method="defer")


class NotebookFigure(SphinxDirective):
    """Show a figure that a cell of a notebook glues and displays, with the alt text of the cell.

    ``{notebook-figure} ../notebooks/320_museum.ipynb curves``
    """

    required_arguments = 2

    def run(self):
        path, key = self.arguments
        notebook, _ = self.env.relfn2path(path)
        self.env.note_dependency(notebook)
        figure = nodes.container(classes=["notebook-figure"])
        figure["figure"] = notebook.removesuffix(".ipynb"), key
        return [figure]


def drawn_as(notebook, key):
    """The SVG text and the alternative text of the figure that a notebook glues under a key."""
    found = [
        (output["data"]["image/svg+xml"], cell["metadata"]["mystnb"]["image"]["alt"])
        for cell in notebook["cells"]
        if f'glue("{key}", fig)' in "".join(cell["source"])
        for output in cell["outputs"]
        if "image/svg+xml" in output.get("data", {})
    ]
    if len(found) != 1:
        raise ExtensionError(f"a notebook has {len(found)} figures {key}, not one")
    drawing, alt = found[0]
    return "".join(drawing), alt


class FiguresOnThePage(SphinxPostTransform):
    """Put the SVG figures that cells have drawn into the page itself, with their alt texts."""

    default_priority = 5
    formats = ("html",)

    def run(self):
        for figure in self.document.findall(nodes.container):
            if "figure" in figure:
                docname, key = figure["figure"]
                svg = on_the_page(*drawn_as(self.app.notebooks[docname], key), key)
                figure += nodes.raw("", svg, format="html")
        drawn = [
            image
            for image in self.document.findall(nodes.image)
            if "jupyter_execute" in image["uri"] and image["uri"].endswith(".svg")
        ]
        for number, image in enumerate(drawn):
            path = Path(self.app.srcdir, image["uri"].lstrip("/"))
            svg = on_the_page(path.read_text(encoding="utf-8"), image.get("alt", ""), f"f{number}")
            figure = nodes.container(classes=["notebook-figure"])
            figure += nodes.raw("", svg, format="html")
            image.replace_self(figure)


def setup(app):
    app.add_directive("notebook-figure", NotebookFigure)
    app.add_post_transform(FiguresOnThePage)
    app.connect("html-page-context", link_the_scripts)
    return {"parallel_read_safe": True}
