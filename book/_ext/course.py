"""What this book asks of Sphinx beyond its configuration."""

import ast
import json
import os
import re
import textwrap
from difflib import SequenceMatcher
from html import escape, unescape
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from ledger import listing_id
from sphinx.util.docutils import SphinxDirective

from transformer_practice.engine.planting import edited
from transformer_practice.mistakes import MUTANTS


class Source(SphinxDirective):
    """Show a function, class or method of the package as it is, without its docstrings.

    ``{source} transformer_core/ops/softmax.py softmax_backward``, and in its body which code
    computes which symbol of the page's graph: ``x': dx *= weights``.
    """

    required_arguments = 2
    has_content = True

    def run(self):
        path, name = self.arguments
        self.env.note_dependency(path)
        source = (Path(self.env.srcdir) / path).read_text(encoding="utf-8")
        definition = ast.parse(source)
        for part in name.split("."):
            named = [node for node in definition.body if getattr(node, "name", 0) == part]
            if not named:
                raise self.error(f"{path} has no {name}")
            (definition,) = named
        docstrings = [
            node.body[0]
            for node in ast.walk(definition)
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        ]
        shown = [
            line
            for number, line in enumerate(source.splitlines(), start=1)
            if definition.lineno <= number <= definition.end_lineno
            and not any(d.lineno <= number <= d.end_lineno for d in docstrings)
        ]
        code = textwrap.dedent("\n".join(shown))
        caption = nodes.caption("", "", nodes.literal("", path))
        block = nodes.literal_block(code, code, language="python")
        block["symbols"] = []
        for line in self.content:
            symbol, _, piece = line.partition(": ")
            if code.count(piece) != 1:
                raise self.error(f"{name} has {code.count(piece)} times: {piece}")
            block["symbols"].append((symbol, code.index(piece), code.index(piece) + len(piece)))
        container = nodes.container("", caption, block, literal_block=True)
        container["classes"] = ["literal-block-wrapper"]
        members = [f"{name}.{node.name}" for node in definition.body if hasattr(node, "name")]
        container["ids"] = [listing_id(path, shown) for shown in (name, *members)]
        for place in container["ids"]:
            self.name_first_listing(place)
        return [container]

    def name_first_listing(self, place):
        """Let the ledger link to a listing; of two of the same function, to the first."""
        domain = self.env.domains["std"]
        if place not in domain.anonlabels:
            domain.note_hyperlink_target(place, self.env.docname, place)


def visit_listing(translator, node):
    """Show a listing, in which each piece that computes a symbol has its class."""
    try:
        type(translator).visit_literal_block(translator, node)
    finally:
        if symbols := node.get("symbols"):
            translator.body[-1] = with_symbols(translator.body[-1], symbols)


def with_symbols(listing, symbols):
    """Put spans around pieces of highlighted code: (symbol, begin, end)."""
    before, pre, rest = listing.partition("<pre><span></span>")
    code, after, end = rest.partition("</pre>")
    marked, at = [], 0
    for token, text in re.findall(r'(?:<span class="([^"]*)">)?([^<]+)(?:</span>)?', code):
        text = unescape(text)
        cuts = {cut - at for _, *ends in symbols for cut in ends if 0 < cut - at < len(text)}
        for first, last in pairwise(sorted({0, len(text)} | cuts)):
            opens = [symbol for symbol, begin, _ in symbols if begin == at + first]
            marked += [f'<span class="sym:{escape(symbol)}">' for symbol in opens]
            piece = escape(text[first:last], quote=False)
            marked.append(f'<span class="{token}">{piece}</span>' if token else piece)
            marked += ["</span>" for _, _, finish in symbols if finish == at + last]
        at += len(text)
    return before + pre + "".join(marked) + after + end


class Mistake(SphinxDirective):
    """Show what a mistake of the catalogue changes: ``{mistake} softmax-no-coupling``."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        root = Path(self.env.srcdir)
        if name not in MUTANTS:
            raise self.error(f"the catalogue has no {name}")
        mutant = MUTANTS[name]
        path = f"transformer_core/{mutant.file}"
        right = (root / path).read_text(encoding="utf-8")
        wrong = edited(right, mutant)
        for file in (root / path, *root.glob("transformer_practice/mistakes/**/*.*")):
            self.env.note_dependency(str(file))
        card = nodes.container(classes=["right-and-wrong"])
        sides = different_lines(right.splitlines(), wrong.splitlines())
        for side, code in zip(("right", "wrong"), sides, strict=True):
            half = nodes.container(classes=[side])
            half += nodes.paragraph("", side.capitalize())
            half += nodes.literal_block(code, code, language="python")
            card += half
        card += nodes.paragraph("", "", nodes.literal("", path), classes=["origin"])
        return [card]


def different_lines(right, wrong):
    """The lines in which two files differ, of each; places that are apart stay apart."""
    sides = [], []
    for tag, *spans in SequenceMatcher(a=right, b=wrong, autojunk=False).get_opcodes():
        if tag != "equal":
            for side, lines, span in zip(
                sides, (right, wrong), (spans[:2], spans[2:]), strict=True
            ):
                side.append("\n".join(lines[slice(*span)]) or "# nothing")
    return ["\n\n".join(textwrap.dedent(place) for place in places) for places in sides]


def make_cards(app, doctree):
    """Make a card of each mistake under *What can go wrong*: its title and what follows."""
    for section in list(doctree.findall(nodes.section)):
        if section[0].astext() != "What can go wrong":
            continue
        children, place = list(section.children), section
        section.clear()
        for child in children:
            if isinstance(child, nodes.section):
                place = section
            elif is_title(child):
                place = nodes.container(classes=["mistake"])
                section += place
            place += child
        for label in section.findall(nodes.emphasis):
            after = label.next_node(nodes.Text, descend=False, siblings=True)
            if after is not None and after.startswith(": "):
                label += nodes.Text(":")
                after.parent.replace(after, nodes.Text(after[2:]))


def is_title(node):
    """Whether a paragraph is bold from end to end."""
    bold = "".join(part.astext() for part in node.children if part.tagname == "strong")
    return isinstance(node, nodes.paragraph) and bold == node.astext()


class NotebookCell(SphinxDirective):
    """Show the code of a notebook's cell: ``{notebook-cell} ../notebooks/x.ipynb id``."""

    required_arguments = 2

    def run(self):
        notebook, name = self.arguments
        _, path = self.env.relfn2path(notebook)
        self.env.note_dependency(path)
        cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell.get("id") == name]
        if not code:
            raise self.error(f"{notebook} has no cell {name}")
        return [nodes.literal_block(code[0], code[0], language="python")]


def setup(app):
    app.add_directive("source", Source)
    app.add_directive("mistake", Mistake)
    app.add_directive("notebook-cell", NotebookCell)
    app.add_node(nodes.literal_block, override=True, html=(visit_listing, None))
    app.connect("doctree-read", make_cards)
    app.connect("config-inited", link_the_repository)
    app.connect("config-inited", leave_thebe_out)
    app.connect("html-page-context", plain_body)
    app.connect("html-page-context", fold_the_side_bar, priority=900)
    return {"parallel_read_safe": True}


def link_the_repository(app, config):
    """Add the buttons that need a public address, where GitHub Actions builds the book there."""
    repository = os.environ.get("GITHUB_REPOSITORY")
    if repository is None:
        return
    config.html_theme_options |= {
        "repository_url": f"{os.environ['GITHUB_SERVER_URL']}/{repository}",
        "repository_branch": os.environ["GITHUB_REF_NAME"],
        "use_repository_button": True,
        "use_issues_button": True,
        "use_edit_page_button": True,
        "launch_buttons": {
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
        },
    }


def plain_body(app, page, template, context, doctree):
    """Take from a page what screen readers stumble over.

    These are the roles in a bibliography, which docutils nests in a way that ARIA forbids, ids that
    every exercise, solution and proof has alike, and headings of columns that head nothing.
    """
    if "body" in context:
        body = re.sub(ROLES_AND_IDS, "", context["body"])
        context["body"] = re.sub(r'<th( class="head[^"]*")?>\s*(?:<p></p>)?</th>', EMPTY, body)


ROLES_AND_IDS = (
    ' role="(?:list|doc-biblioentry)"| id="(?:proof|(?:exercise|solution|proof)-content)"'
)
EMPTY = r"<td\1></td>"
CAPTION = '<p aria-level="2" class="caption" role="heading">'


def fold_the_side_bar(app, page, template, context, doctree):
    """Close the parts of the side bar that the page is not in."""
    generate = context["generate_toctree_html"]

    def folded(*args, **settings):
        head, *parts = str(generate(*args, **settings)).split(CAPTION)
        for part in parts:
            title, _, chapters = part.partition("</p>")
            is_open = " open" * ('class="current nav' in chapters)
            head += f"<details{is_open}><summary>{title}</summary>{chapters}</details>"
        return head

    context["generate_toctree_html"] = folded


def leave_thebe_out(app, config):
    """Take out the live cells that Jupyter Book puts on every page, and this book does not use.

    Their script is declared twice, which is an error in the console of each page.
    """
    for listeners in app.events.listeners.values():
        for listener in list(listeners):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)
    files = app.registry.css_files
    files[:] = [file for file in files if file[0] != "sphinx-thebe.css"]
