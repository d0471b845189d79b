"""One hue for each quantity: query, key, value and cotangent, in formulas, code and prose.

A bar over a letter, and a ``d`` before a name, have the cotangent's hue everywhere. Letters and
names of queries, keys and values have theirs where attention is spoken of.
"""

import re

from docutils import nodes
from IPython.lib.lexers import IPython3Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Name
from sphinx.transforms.post_transforms import SphinxPostTransform

PAGES = re.compile(r"(book|notebooks)/(010|210|215|220|290|330|335)_")
QUANTITIES = {"q": "query", "k": "key", "v": "value"}
# What is passed over, then: a bold letter, a letter with indices, a matrix that makes one of them.
LETTERS = re.compile(
    r"\\(?:text|operatorname|begin|end|mathbb)\{[^}]*\}|\\mathbf\{(?P<bold>[QKV])\}"
    r"|\\mathbf\{W\}(?=_\{?(?P<map>[QKV]))|\\[A-Za-z]+"
    r"|(?P<entry>[QKV])(?=\}?_\{)|(?<![_A-Za-z])(?P<row>[qkv])(?![A-Za-z])"
)
NAMES = re.compile(r"(d?)((?:query|key|value)s?)")
COTANGENT = re.compile(
    r"d(x|y|h|query|key|value|weights?|bias|scores|output|logits|gamma|beta|table|target|source)"
)


def coloured(formula, attention):
    """A formula, whose macros give bars and letters their hues."""
    if attention:
        formula = LETTERS.sub(with_hue, formula)
    return re.sub(r"\\bar(?=\{)", r"\\cotangent", formula)


def with_hue(found):
    letter = next(filter(None, found.groups()), None)
    return f"\\{QUANTITIES[letter.lower()]}{{{found[0]}}}" if letter else found[0]


class Hues(SphinxPostTransform):
    """Give formulas, names in a sentence and terms their hues."""

    default_priority = 20  # after references are resolved
    formats = ("html",)

    def run(self):
        attention = bool(PAGES.match(self.env.docname))
        for formula in self.document.findall(
            lambda node: isinstance(node, nodes.math | nodes.math_block)
        ):
            text = coloured(formula.astext(), attention)
            formula.children = [nodes.Text(text)]
        for name in self.document.findall(nodes.literal) if attention else ():
            if found := NAMES.fullmatch(name.astext()):
                name["classes"].append(found[2].removesuffix("s"))
        for term in self.document.findall(nodes.inline) if attention else ():
            if "std-term" in term["classes"] and NAMES.fullmatch(term.astext()):
                term["classes"].append(term.astext().removesuffix("s"))


def hues(tokens, code):
    """Tokens of a listing, with types of their own for names that have a hue."""
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
            yield index, kind, text


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
