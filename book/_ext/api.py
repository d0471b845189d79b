"""The pages made from the docstrings: equations, chapters and sources become links."""

import re
from functools import cache
from pathlib import Path

from docutils import nodes

LABEL = r"eq:[a-z0-9-]+[a-z0-9]"
SECTION = r"^(?=[A-Z]\w+\n-+$)"
# A paragraph in a section that is no entry of it: no type, and nothing indented below.
REMARK = r"(?<=\n\n)^\S(?!.* : ).*\n(?:\S.*\n)*(?=\n|\Z)"
SOURCE = r"^Source: .+(?:\n.+)*"


def setup(app):
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("autodoc-skip-member", skip_what_is_not_ours)
    app.connect("autodoc-process-docstring", link, priority=400)  # before napoleon
    app.connect("doctree-read", stack_formulas)
    app.connect("doctree-read", have_one_document)
    return {"parallel_read_safe": True}


def skip_what_is_not_ours(app, what, name, member, skip, options):
    """Leave out builtins, and the fields of a named tuple, which its signature has."""
    builtin = getattr(member, "__module__", None) == "builtins"
    return True if builtin or type(member).__name__ == "_tuplegetter" else None


def link(app, what, name, member, options, lines):
    """Link a docstring to the book; remarks and its origin come before its parameters."""
    text = "\n".join([*lines, ""])
    origin = []
    labels = re.findall(LABEL, text)
    if labels and what in ("class", "function"):
        origin.append(f"Derived in :doc:`/{pages_of_labels(app.srcdir)[labels[0]]}`.")
    if source := re.search(SOURCE, text, re.MULTILINE):
        text = text.replace(source[0], "")
        origin.append(re.sub(r"(?:text )?\b(00\d)\b", r":ref:`\g<0> <text-\1>`", source[0]))
    text = re.sub(rf"\(({LABEL})\)|({LABEL})", r":eq:`\1\2`", text)
    text = re.sub(r":(func|class|meth):`(?=\w)", r":\1:`.", text)  # of any room
    text = re.sub(r"^( +\w)\.$", r"\1\\.", text, flags=re.MULTILINE)  # no list: "B."
    description, *sections = re.split(SECTION, text, flags=re.MULTILINE)
    remarks = [remark for section in sections for remark in re.findall(REMARK, section, re.M)]
    sections = [re.sub(REMARK, "", section, flags=re.M) for section in sections]
    parts = [description.rstrip(), "", *remarks, "", *origin, "", *sections]
    lines[:] = "\n".join(parts).splitlines()


@cache
def pages_of_labels(root):
    """The page of each labelled equation of the book."""
    pages = {}
    for path in sorted(Path(root).glob("book/*.md")):
        text = path.read_text(encoding="utf-8")
        for label in re.findall(rf"\(({LABEL})\)$|^:label: ({LABEL})$", text, re.M):
            pages["".join(label)] = f"book/{path.stem}"
    return pages


def stack_formulas(app, doctree):
    """Set formulas of one block that stand on lines of their own below each other."""
    for block in doctree.findall(nodes.math_block):
        formulas = re.split(r"\\q?quad\s*\n", block.astext().strip())
        if app.env.docname.startswith("book/api") and len(formulas) > 1:
            stack = r"\begin{gathered}" + r"\\[1ex]".join(formulas) + r"\end{gathered}"
            block[:] = [nodes.Text(stack)]


def have_one_document(app, doctree):
    """Say that a page's nodes are of the page.

    MyST reads a docstring as a document of its own, with which the whole environment would be
    stored on each page: 17 MB, to be written once and read twice.
    """
    for node in doctree.findall():
        node.document = doctree
