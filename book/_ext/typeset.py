"""Numbers that cells computed, as a page prints them: 4 · 10⁻¹⁶ for 4e-16, and − for a hyphen."""

import re

from docutils import nodes

NUMBER = re.compile(r"(-?)(\d[\d,.]*)(?:e([+-]\d+))?")


def setup(app):
    app.connect("doctree-resolved", typeset_numbers)
    return {"parallel_read_safe": True}


def typeset_numbers(app, doctree, docname):
    for node in list(doctree.findall(nodes.inline)):
        if "pasted-text" in node["classes"] and (match := NUMBER.fullmatch(node.astext())):
            node.children = []
            node += typeset(*match.groups())


def typeset(sign, digits, exponent):
    """The nodes of a number."""
    shown = nodes.Text(sign.replace("-", "−") + digits)
    power = int(exponent or 0)
    if not power:
        return [shown]
    return [shown, nodes.Text(" · 10"), nodes.superscript("", str(power).replace("-", "−"))]
