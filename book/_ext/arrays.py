"""One sentence through the whole model, on the map: the directive ``{arrays}``.

``book/graphs/transformer.py`` is shown as tables, a box of the map each. A cell carries the sum
that made it (``data-sum``), which ``_static/arrays.js`` opens. Under the strip of each chapter
are the tables of its own boxes, with those that their sums take numbers from.
"""

import re
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
from docutils import nodes
from figures import Figure
from graphs import GRAPHS, MACRON, PACKAGE, Graph, described, marked, number

REFERENCE = re.compile(r"(\w+)\[(\d)(?:,(\d))?\]")
LOADED = ("arrays.js", "arrays.css")
OPENED = '<p class="opened" role="status">Press a number: here it opens into its sum.</p>'
FUNCTIONS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "max": np.maximum}


def expanded(rule, letters, sizes):
    """Write a rule out for each entry: ``Σd{X[t,d]*W[d,e]}`` is ``X[0,0]*W[0,0] + ...``."""

    def terms(found):
        return " + ".join(at(found[2], {found[1]: n}) for n in range(sizes[found[1]]))

    def at(text, numbers):
        for letter, place in numbers.items():
            text = re.sub(rf"(?<!\w){letter}(?=[],=])", str(place), text)
        return text

    while "Σ" in rule:
        rule = re.sub(r"Σ(\w)\{([^{}]*)\}", terms, rule)
    entries = {}
    for index in np.ndindex(*(sizes[letter] for letter in letters)):
        text = at(rule, dict(zip(letters, index, strict=True)))
        entries[index] = re.sub(
            r"\((\d)==(\d)==(\d)\)", lambda n: str(+(n[1] == n[2] == n[3])), text
        )
    return entries


@cache
def compiled(text):
    return compile(text, "<sum>", "eval")


def evaluated(sums, values):
    """The array of which each entry is a sum of entries of other arrays, given by their names."""
    shape = tuple(1 + last for last in max(sums))
    names = FUNCTIONS | values
    entries = [eval(compiled(text), names) for text in sums.values()]
    return np.reshape(entries, shape)


class Arrays(Graph):
    """A graph whose nodes know the sum behind every entry, in parts that are boxes of the map.

    The rules have a line for each array, ``Q te = Σd{X[t,d]*W[d,e]}``; the gradient by Q is ``dQ``.
    The sizes say how far each letter counts.
    """

    def __init__(self, title, rules, sizes):
        super().__init__(title)
        self.parts, self.sums = [], {}
        for line in rules.strip().splitlines():
            head, rule = line.split(" = ", 1)
            name, *letters = head.split()
            self.sums[name] = expanded(rule, "".join(letters), sizes)

    def part(self, box, chapter, name, **arrays):
        """Add a part: its box on the map, its chapter, its name, its arrays.

        ``Q=(value, gradient)``: the units of the two may follow; else it is 1 of values, and
        ln 2 of gradients.
        """
        self.parts.append((box, chapter, name, list(arrays)))
        for key, (value, gradient, *units) in arrays.items():
            unit, back_unit = units or (("", 1), ("ln 2", np.log(2)))
            sums = self.sums.get(key, {})
            of = self.sources(key)
            self.node(
                key,
                value,
                gradient,
                of=" ".join(of),
                by=lambda *values, sums=sums, of=of: evaluated(
                    sums, dict(zip(of, values, strict=True))
                ),
                back=key[0] + MACRON + key[1:],
                unit=unit,
                back_unit=back_unit,
            )

    def sources(self, name):
        """The names of the arrays from which another is computed."""
        texts = " ".join(self.sums.get(name, {}).values())
        return list(dict.fromkeys(found[1] for found in REFERENCE.finditer(texts)))


@cache
def model():
    return described("transformer")


def named(name):
    """A name in HTML: what follows ``_`` is an index."""
    return re.sub(r"_(\w)", r"<sub>\1</sub>", name)


def table(graph, key, back, steps):
    """An array or its gradient, each cell with the sum that made it."""
    node, array = graph.nodes[key], "d" * back + key
    name, (unit, factor) = (node.back, node.back_unit) if back else (node.name, node.unit)
    values = np.asarray(node.cotangent if back else node.value)
    sums, lines = graph.sums.get(array, {}), []
    for r in range(len(values) if values.ndim else 1):
        head = f'<th scope="row">{node.rows[r]}</th>' if node.rows else ""
        cells = ""
        for c in range(values.shape[1] if values.ndim == 2 else 1):
            index = (r, c)[: values.ndim]
            text = number(values[index] / factor, exact=unit != "decimals")
            made = f' data-sum="{escape(sums[index])}"' if sums else ""
            cells += f"<td{made}>{text}</td>"
        lines.append(f"<tr>{head}{cells}</tr>")
    step = f' data-step="{steps[key + chr(39) * back]}"' if steps else ""
    written = f" <small>in {unit}</small>" * bool(unit)
    unit = f' data-unit="{unit}"' * (unit not in ("", "decimals"))
    return (
        f'<table class="{"back" if back else "value"}" data-array="{array}"{unit}{step}>'
        f"<caption><i>{named(name)}</i>{written}</caption><tbody>{''.join(lines)}</tbody></table>"
    )


def boxes(graph, parts, steps=None, links=True):
    """Parts with their tables, from the words to the loss."""
    drawn = []
    for box, chapter, name, keys in parts:
        (page,) = (path.stem for path in GRAPHS.parent.glob(f"{chapter}_*.md"))
        pairs = ""
        for key in keys:
            both = "".join(table(graph, key, back, steps) for back in (False, True))
            pairs += f'<div class="pair">{both}</div>'
        head = f'<a href="{page}.html#cats-chase-mice">{name}</a>' if links else name
        drawn.append(f'<div class="part" data-box="{box}"><p class="title">{head}</p>{pairs}</div>')
    return "".join(drawn)


def of_chapter(page):
    """The boxes of a chapter, and whatever else their sums take numbers from."""
    graph = model()
    own = [part for part in graph.parts if page.startswith(part[1])]
    if not own:
        return ""
    held = {key for *_, keys in own for key in keys}
    used = [
        source.removeprefix("d")
        for key in graph.nodes
        if key in held
        for source in graph.sources(key) + graph.sources("d" + key)
    ]
    around = [key for key in graph.nodes if key in set(used) - held]
    given = (
        boxes(graph, [("", page[:3], "From other boxes", around)], links=False) if around else ""
    )
    return (
        '<div id="cats-chase-mice" class="arrays"><p><em>cats chase mice</em> in this box: '
        "values on blue, gradients of the loss on purple. Press a number to see its sum. "
        '<a href="010_transformer.html#graph-transformer">The whole model</a></p>'
        f'<div class="boxes">{boxes(graph, own, links=False)}{given}</div>{OPENED}</div>'
    )


class ArraysDirective(Figure):
    """``{arrays}``, the whole model beside the map; the caption is its body."""

    def run(self):
        graph = model()
        self.depend_on(GRAPHS / "transformer.py", Path(__file__), *PACKAGE.rglob("*.py"))
        self.load("graph.js", *LOADED)
        steps = "".join(f"<li>{marked(sentence)}</li>" for sentence, _ in graph.steps)
        words = (
            '<details class="graph-words"><summary>The steps in words</summary>'
            f'<ol class="steps">{steps}</ol></details>'
        )
        (figure,) = self.figure(words, ["graph", "arrays"], "graph-transformer")
        overview = nodes.container()
        overview["map"] = ["model"]
        tables = boxes(graph, graph.parts, graph.first_shown())
        drawings = nodes.container(classes=["drawings"])
        html = f'<div class="boxes">{tables}</div>{OPENED}'
        drawings += [overview, nodes.raw("", html, format="html")]
        figure.insert(0, drawings)
        return [figure]


def setup(app):
    app.add_directive("arrays", ArraysDirective)
    return {"parallel_read_safe": True}
