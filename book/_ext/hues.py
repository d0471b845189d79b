"""One hue for each quantity: query, key, value and cotangent, in code and prose.

A ``d`` before a name has the cotangent's hue everywhere. Names of queries, keys and values have
theirs where attention is spoken of. In formulas macros of mathematics.py give the hues.
"""

import re

from docutils import nodes
from IPython.lib.lexers import IPython3Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.transforms.post_transforms import SphinxPostTransform

PLAIN = Name, Punctuation, Whitespace  # and not what is below them
NAMES = re.compile(r"(d?)((?:query|key|value)s?)")
COTANGENT = re.compile(
    r"d(x|y|h|query|key|value|weights?|bias|scores|output|logits|gamma|beta|table|target|source)"
)


class Hues(SphinxPostTransform):
    """Give names in a sentence and terms their hues."""

    default_priority = 20  # after references are resolved
    formats = ("html",)

    def run(self):
        give_hues(self.document)


def give_hues(document):
    """Mark the names of queries, keys and values where one of them is a query's: of attention."""
    named = [
        (node, found[2].removesuffix("s"))
        for node in document.findall(lambda n: isinstance(n, (nodes.literal, nodes.inline)))
        if isinstance(node, nodes.literal) or "std-term" in node["classes"]
        if (found := NAMES.fullmatch(node.astext()))
    ]
    if any(name == "query" for _, name in named):
        for node, name in named:
            node["classes"].append(name)


def hues(tokens, code):
    """Tokens of a listing, with types of their own for names that have a hue.

    What has the colour of plain text becomes plain text, which needs no element in the page.
    """
    attention = "query" in code
    for index, kind, text in tokens:
        found = NAMES.fullmatch(text) if attention and kind in Name else None
        if found:
            if found[1]:
                yield index, Name.Cotangent, "d"
            quantity = found[2].removesuffix("s").capitalize()
            yield index + len(found[1]), getattr(Name, quantity), found[2]
        elif kind in Name and COTANGENT.fullmatch(text):
            yield index, Name.Cotangent, text
        else:
            yield index, Text if kind in PLAIN else kind, text


class Python(PythonLexer):
    def get_tokens_unprocessed(self, text, stack=("root",)):
        return hues(super().get_tokens_unprocessed(text, stack), text)


class IPython(IPython3Lexer):
    def get_tokens_unprocessed(self, text, stack=("root",)):
        return hues(super().get_tokens_unprocessed(text, stack), text)


def setup(app):
    app.add_post_transform(Hues)
    app.add_lexer("python", Python)
    app.add_lexer("ipython3", IPython)
    return {"parallel_read_safe": True}
