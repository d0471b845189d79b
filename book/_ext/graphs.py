"""Computation graphs: the directive ``{graph} layer_norm``, with the caption as its body.

``book/graphs/layer_norm.py`` describes the graph: its nodes with the values of the package's own
run and the cotangents of its backward pass, and the steps in which they appear. It is laid out
here twice, from left to right and, for a phone, from top to bottom; the text alternative is made
from the same nodes. ``_static/graph.js`` steps through it. Without scripts all of it is shown.

A value, a cotangent or a path back is a symbol, named as in a step: ``x``, ``x'``, ``x<mu``. What
has the class ``sym:x'`` is lit together: here, in formulas (``\\sym{x'}{...}``), in ``{source}``.
A place there may stand for several (``\\sym{x0,x1}{x_n}``). Graphs of one page share no key.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from pathlib import Path
from runpy import run_path

import numpy as np
from docutils import nodes
from figures import Figure
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform

GRAPHS = Path(__file__).parents[1] / "graphs"
PACKAGE = Path(__file__).parents[2] / "transformer_core"
MACRON, OVERLINE = "\N{COMBINING MACRON}", "\N{COMBINING OVERLINE}"


# Numbers as they are on paper


def fraction(value, largest=100):
    """A number as a whole number or a fraction with a small denominator, or None."""
    exact = Fraction(float(value))
    found = exact.limit_denominator(largest)
    if abs(found - exact) < 1e-12 * max(1, abs(exact)):
        return str(found)
    return str(exact) if 1 < largest and exact.denominator <= 4096 else None


def root(value):
    """A number as a root, as in 5√2 or 2√5/5, or None."""
    square = Fraction(float(value) ** 2).limit_denominator(50)
    if not square or abs(square - value**2) > 1e-12 * value**2:
        return None
    under = square.numerator * square.denominator  # value = √under / denominator
    outside = max(n for n in range(1, 100) if under % n**2 == 0)
    front = Fraction(outside, square.denominator)
    above = f"{'' if front.numerator == 1 else front.numerator}√{under // outside**2}"
    below = "" if front.denominator == 1 else f"/{front.denominator}"
    return f"{'-' * bool(value < 0)}{above}{below}"


def logarithm(value):
    """A number as a logarithm, as in 2 ln 2 or -ln 7/4, or None."""
    if twos := fraction(value / np.log(2), 7):
        front = {"1": "", "-1": "-"}.get(twos, f"{twos} ")
        return f"{front}ln 2"
    if abs(value) < 5 and (ratio := fraction(np.exp(abs(value)), 12)):
        return f"{'-' * bool(value < 0)}ln {ratio}"
    return None


def number(value, digits=2, exact=True):
    """A number as on paper: whole, a fraction, a logarithm, a root, else so many decimals."""
    written = fraction(value, 100 if exact else 1)
    if exact and not written:
        written = logarithm(value) or root(value)
    if not written:
        written = re.sub(r"^-(?=[0.]*$)", "", f"{value:.{digits}f}")
    return written.replace("-", "\N{MINUS SIGN}")


def row(values, digits=2, exact=True):
    """Numbers as on paper, a row in brackets, the rows of a matrix one after the other."""
    values = np.asarray(values)
    if values.ndim == 0:
        return number(values, digits, exact)
    if values.ndim == 1:
        return f"({', '.join(number(v, digits, exact) for v in values)})"
    return ", ".join(row(v, digits, exact) for v in values)


def barred(name):
    """The name of a node's cotangent: a bar over its letter, or over all its letters."""
    if sum(c.isalpha() and unicodedata.category(c) != "Lm" for c in name) > 1:
        return "".join(c + OVERLINE for c in name)
    return unicodedata.normalize("NFC", name[0] + MACRON + name[1:])


# What a graph consists of


@dataclass
class Way:
    """What comes back to a node from one of its children."""

    child: str
    name: str
    values: np.ndarray
    hue: str = ""
    says: str = ""


@dataclass
class Node:
    """A quantity, its value and its cotangent, and where it stands: (rank, lane).

    by computes the value from those of the nodes named in of. The numbers are written in units:
    ``unit=("ln 2", np.log(2))``. says adds how the code comes to them.
    """

    key: str
    name: str
    value: np.ndarray
    cotangent: np.ndarray | None
    digits: int
    exact: bool
    of: tuple = ()
    by: object = None
    back: str = ""
    unit: tuple = ("", 1)
    back_unit: tuple = ("", 1)
    rows: tuple = ()
    hue: str = ""
    says: str = ""

    def __post_init__(self):
        self.value = np.asarray(self.value)
        self.back = self.back or barred(self.name)
        self.ways = []

    def written(self, values):
        return row(values, self.digits, self.exact)

    def strips(self):
        """What is drawn under each other: (what, name, unit, values, hue)."""
        drawn = [("", self.name, self.unit, self.value, f"forward {self.hue}")]
        for way in self.ways:
            hue = f"way {way.hue}"
            drawn.append((f"<{way.child}", way.name, self.back_unit, way.values, hue))
        if self.cotangent is not None:
            cotangent = np.asarray(self.cotangent)
            drawn.append(("'", self.back, self.back_unit, cotangent, "cotangent"))
        return drawn

    def in_words(self):
        """Each strip as an equation: ``"ā = (7, 0, 0)"``."""
        says = {"": self.says} | {f"<{way.child}": way.says for way in self.ways}
        return {
            what: f"{name} = {self.written(np.asarray(values) / factor)}"
            + f" · {unit}" * bool(unit)
            + f" = {says.get(what)}" * bool(says.get(what))
            for what, name, (unit, factor), values, _ in self.strips()
        }


@dataclass
class Edge:
    """A dependence, with its local derivative and the lanes that it keeps to in the two layouts."""

    parent: str
    child: str
    label: str = ""
    wide: float | None = None
    narrow: float | None = None
    hue: str = ""


@dataclass
class Graph:
    """A computation graph: its title, its nodes by key, its edges, its steps."""

    title: str
    lanes: int = 2  # of the narrow layout
    digits: int = 2
    exact: bool = True
    nodes: dict = field(default_factory=dict)
    edges: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)

    def node(self, name, value, cotangent=None, of="", **more):
        """Add a node: its key, and its name if that is another (``"mu μ"``)."""
        key, _, name = name.partition(" ")
        style = {"digits": self.digits, "exact": self.exact, "of": tuple(of.split())}
        self.nodes[key] = Node(key, name or key, value, cotangent, **style | more)
        for parent in of.split():
            self.edges[parent, key] = Edge(parent, key)

    def way(self, strip, name, values, hue="", says=""):
        """Say what comes back on an edge (``"x<y"``), where a node has several children."""
        parent, child = strip.split("<")
        self.nodes[parent].ways.append(Way(child, name, values, hue, says))
        self.edges[parent, child].hue = hue

    def place(self, wide, narrow=""):
        """Give each node its rank and its lane: ``"x 0 1, y 1 0.5"``, and others where narrow."""
        for layout, places in (("at", wide), ("narrow", wide), ("narrow", narrow)):
            for place in filter(None, places.split(", ")):
                key, rank, lane = place.split()
                setattr(self.nodes[key], layout, (int(rank), float(lane)))

    def edge(self, parent, child, **more):
        for name, value in more.items():
            setattr(self.edges[parent, child], name, value)

    def narrate(self, text):
        """Say step by step what is shown: ``x y': Sentence.``, where an indented line goes on.

        A step shows values (``x``), cotangents (``x'``) and ways back (``x<y``).
        """
        for step in re.split(r"\n(?! )", text.strip()):
            shown, _, sentence = step.partition(":")
            self.steps.append((" ".join(sentence.split()), shown.split()))

    def first_shown(self):
        """The step in which each strip appears, from 0."""
        first = {}
        for at, (_, shown) in enumerate(self.steps):
            for strip in shown:
                first.setdefault(strip, at)
        return first

    def lit(self):
        """The steps in which each edge is lit: forward, and backward."""
        forward, backward = ({edge: [] for edge in self.edges} for _ in range(2))
        for at, (_, shown) in enumerate(self.steps):
            for parent, child in self.edges:
                if child in shown:
                    forward[parent, child].append(at)
                if f"{parent}'" in shown or f"{parent}<{child}" in shown:
                    backward[parent, child].append(at)
        return forward, backward


# The two layouts

WIDE, NARROW = 684, 320  # the widths of the two drawings, in pixels
CELL, SPACE = 23, 4


def width_of(text, size):
    """About how wide a text is, a little more than less."""
    thin = sum(c in " /.,()|il’ν" for c in text)
    full = sum(not unicodedata.combining(c) for c in text)
    return size * (0.62 * (full - thin) + 0.33 * thin)


class Block:
    """A node as it is drawn: the strips' tables and where they stand in it."""

    def __init__(self, node, size):
        self.node, self.size = node, size
        self.tables, self.height = [], 0
        widest = 22
        for what, name, (unit, factor), values, hue in node.strips():
            table = np.atleast_2d(values)
            texts = [[node.written(v / factor) for v in r] for r in table]
            widest = max(widest, *(width_of(t, size) + 8 for line in texts for t in line))
            self.tables.append((what, name, unit, texts, hue, self.height))
            self.height += CELL * len(texts) + SPACE
        self.height -= SPACE
        self.cell = widest
        self.words = max((width_of(w, size - 1) + 6 for w in node.rows), default=0)
        leads = [
            max(width_of(name, size + 2) + 3, width_of(f"in {unit}" * bool(unit), size - 1))
            for _, name, unit, _, _, _ in self.tables
        ]
        self.head = leads[0]
        leads[0] += self.words
        self.lead = 6 + max(leads)
        columns = max(len(texts[0]) for _, _, _, texts, _, _ in self.tables)
        self.width = self.lead + columns * widest
        self.anchor = CELL * len(self.tables[0][3]) / 2

    def place(self, x, y):
        self.x, self.y = x, y
        self.middle = x + (self.width + self.lead) / 2
        head = self.lead - self.words - self.head
        self.entry = x + head - 10, y + self.anchor  # of ways from the left
        self.exit = x + self.width + 2, y + self.anchor


def line_of(lines, lane):
    """The height of a whole or a broken lane; beyond the last one, three cells a lane."""
    beyond = max(0, lane - len(lines) + 1)
    return float(np.interp(lane, range(len(lines)), lines)) + 3 * CELL * beyond


def greatest(sizes):
    """The greatest size at each whole number from 0 on, of pairs of a number and a size."""
    sizes = [(int(n), size) for n, size in sizes if n == int(n)]
    last, _ = max(sizes)
    return [max((size for at, size in sizes if at == n), default=0) for n in range(last + 1)]


def laid_out_wide(graph):
    """Blocks from left to right: ranks are columns, lanes rows."""
    size = 13
    blocks = {key: Block(node, size) for key, node in graph.nodes.items()}
    leads = greatest((b.node.at[0], b.lead) for b in blocks.values())
    bodies = greatest((b.node.at[0], b.width - b.lead) for b in blocks.values())
    widths = [lead + body for lead, body in zip(leads, bodies, strict=True)]
    gaps = len(widths) - 1
    gap = min(110, (WIDE - sum(widths)) / max(1, gaps))
    left = (WIDE - sum(widths) - gap * gaps) / 2
    lefts = [left + sum(widths[:r]) + gap * r for r in range(gaps + 1)]
    above = greatest((b.node.at[1], b.anchor) for b in blocks.values())
    below = greatest((b.node.at[1], b.height - b.anchor) for b in blocks.values())
    lines = [above[0]]
    for before, after in zip(below[:-1], above[1:], strict=True):
        lines.append(lines[-1] + before + 32 + after)
    for block in blocks.values():
        rank, lane = block.node.at
        x = lefts[rank] + leads[rank] - block.lead
        block.place(x, line_of(lines, lane) - block.anchor)
    paths = {}
    for (parent, child), edge in graph.edges.items():
        p, c = blocks[parent], blocks[child]
        (x1, y1), (x2, y2) = p.exit, c.entry
        if p.node.at[0] == c.node.at[0]:
            path, middle = upright(p, c)
        elif edge.wide is None:
            path, middle = sideways(p, c)
        else:
            y = line_of(lines, edge.wide)
            a, b = x1 + gap, x2 - gap
            path = curve((x1, y1), (x1 + gap / 2, y1), (a - gap / 2, y), (a, y))
            path += f" H {b:.0f} " + curve(None, (b + gap / 2, y), (x2 - gap / 2, y2), (x2, y2))
            middle = (a + b) / 2, y
        middle = middle[0], middle[1] - 10 * (abs(y1 - y2) < 1 or edge.wide is not None)
        paths[parent, child] = path, middle
    return blocks, paths, WIDE, size


def laid_out_narrow(graph):
    """Blocks from top to bottom: ranks are rows, lanes columns."""
    size = 12
    blocks = {key: Block(node, size) for key, node in graph.nodes.items()}
    heights = greatest((b.node.narrow[0], b.height) for b in blocks.values())
    gap = 32

    def centre(lane):
        return NARROW * (lane + 0.5) / graph.lanes

    for block in blocks.values():
        rank, lane = block.node.narrow
        x = centre(lane) - (block.width + block.lead) / 2
        x = min(max(x, 0), NARROW - block.width)
        block.place(x, sum(heights[:rank]) + gap * rank)
    paths = {}
    for (parent, child), edge in graph.edges.items():
        p, c = blocks[parent], blocks[child]
        x1, y1 = p.middle, p.y + p.height + 2
        x2, y2 = c.middle, c.y - 5
        if p.node.narrow[0] == c.node.narrow[0]:
            path, middle = level(p, c)
        elif c.y < p.y:
            path, middle = sideways(p, c)
        elif edge.narrow is None:
            bend = min(30, (y2 - y1) / 2)
            path = curve((x1, y1), (x1, y1 + bend), (x2, y2 - bend), (x2, y2))
            middle = (x1 + x2) / 2, (y1 + y2) / 2
        else:
            x, a, b = centre(edge.narrow), y1 + gap, y2 - gap
            path = curve((x1, y1), (x1, y1 + gap / 2), (x, a - gap / 2), (x, a))
            path += f" V {b:.0f} " + curve(None, (x, b + gap / 2), (x2, y2 - gap / 2), (x2, y2))
            middle = x, (a + b) / 2
        paths[parent, child] = path, middle
    return blocks, paths, NARROW, size


def curve(start, *points):
    head = f"M {start[0]:.0f} {start[1]:.0f} " if start else ""
    return head + "C " + " ".join(f"{x:.0f} {y:.0f}" for x, y in points)


def sideways(p, c):
    """From a block's right side to the left side of another."""
    (x1, y1), (x2, y2) = p.exit, c.entry
    bend = (x2 - x1) / 2
    path = curve((x1, y1), (x1 + bend, y1), (x2 - bend, y2), (x2, y2))
    return path, ((x1 + x2) / 2, (y1 + y2) / 2)


def upright(p, c):
    """From a block to one under or over it."""
    x = (max(p.x + p.lead, c.x + c.lead) + min(p.x + p.width, c.x + c.width)) / 2
    down = c.y > p.y
    y1, y2 = (p.y + p.height + 2, c.y - 4) if down else (p.y - 2, c.y + c.height + 4)
    return f"M {x:.0f} {y1:.0f} V {y2:.0f}", (x, (y1 + y2) / 2)


def level(p, c):
    """From a block to one at its side."""
    y = min(p.y + p.anchor, c.y + c.anchor)
    right = c.x > p.x
    x1, x2 = (p.x + p.width + 2, c.x - 4) if right else (p.x - 2, c.x + c.width + 4)
    return f"M {x1:.0f} {y:.0f} H {x2:.0f}", ((x1 + x2) / 2, y)


# The drawing and its words


def drawing(graph, name, kind):
    """One of the two drawings as SVG."""
    blocks, paths, width, size = (laid_out_wide if kind == "wide" else laid_out_narrow)(graph)
    first, (forward, backward) = graph.first_shown(), graph.lit()
    arrow = f"{name}-{kind}-arrow"
    lines, strips, labels = [], [], []
    for (parent, child), (path, middle) in paths.items():
        edge = graph.edges[parent, child]
        seen = first[child]
        steps = (
            f'data-step="{seen}" data-forward="{listed(forward[parent, child])}" '
            f'data-back="{listed(backward[parent, child])}"'
        )
        lines.append(
            f'<path class="edge {edge.hue}" {steps} d="{path}" '
            f'marker-start="url(#{arrow})" marker-end="url(#{arrow})"/>'
        )
        if edge.label:
            x, y = middle
            p, c = blocks[parent], blocks[child]
            across = p.y == c.y if kind == "narrow" else p.node.at[0] != c.node.at[0]
            beside = not across and abs(p.middle - c.middle) < 40
            labels.append(
                f'<text class="derivative{" beside" * beside}" data-step="{seen}" '
                f'x="{x + 7 * beside:.0f}" '
                f'y="{y + 4:.0f}">{escape(edge.label)}</text>'
            )
    for key, block in blocks.items():
        numbers = block.node.in_words()
        for what, strip, unit, texts, hue, down in block.tables:
            strips.append(
                f'<g class="strip {hue} sym:{escape(key + what)}" '
                f'data-step="{first[key + what]}" data-number="{escape(numbers[what])}">'
                + cells(block, strip, unit, texts, down, words=not what)
                + "</g>"
            )
    ys = [float(y) for path, _ in paths.values() for y in heights_of(path)]
    ys += [middle[1] - 10 for pair, (_, middle) in paths.items() if graph.edges[pair].label]
    top = min([b.y for b in blocks.values()] + ys) - 4
    bottom = max([b.y + b.height for b in blocks.values()] + ys) + 6
    return (
        f'<svg class="{kind}" viewBox="0 {top:.0f} {width} {bottom - top:.0f}" '
        f'role="img" aria-label="{escape(graph.title.replace("*", ""))}" '
        f'aria-describedby="graph-{name}-words" style="font-size: {size}px">'
        f'<defs><marker id="{arrow}" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        '<path d="M 0 0 L 8 4 L 0 8 z"/></marker></defs>'
        + "".join(lines + strips + labels)
        + "</svg>"
    )


def heights_of(path):
    """The ordinates of a path's points."""
    for command, numbers in re.findall(r"([MCHV]) ([\d .-]+)", path):
        numbers = numbers.split()
        yield from {"H": [], "V": numbers}.get(command, numbers[1::2])


def lettered(name):
    """A name as SVG, with one line over letters for which the font has no bar."""
    return re.sub(
        rf"(?:.{OVERLINE})+|[ℓℒ]{MACRON}",
        lambda found: (
            f'<tspan class="over">{re.sub(f"[{OVERLINE}{MACRON}]", "", found[0])}</tspan>'
        ),
        escape(name),
    )


def cells(block, name, unit, texts, down, words):
    """A table of numbers with its name before it."""
    x, y = block.x + block.lead, block.y + down
    middle = y + CELL * len(texts) / 2 + 5
    end = x - 6 - block.words * words
    drawn = [
        f'<text class="name" x="{end:.0f}" y="{middle - 6 * bool(unit):.0f}">'
        f"{lettered(name)}</text>"
    ]
    if unit:
        drawn.append(f'<text class="unit" x="{end:.0f}" y="{middle + 8:.0f}">in {unit}</text>')
    if words:
        for r, word in enumerate(block.node.rows):
            drawn.append(
                f'<text class="word" x="{x - 6:.0f}" y="{y + r * CELL + 16:.0f}">{word}</text>'
            )
    for r, line in enumerate(texts):
        for c, text in enumerate(line):
            left, top = x + c * block.cell, y + r * CELL
            drawn.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{block.cell:.1f}" '
                f'height="{CELL}"/>'
                f'<text class="value{" zero" * (text == "0")}" '
                f'x="{left + block.cell / 2:.1f}" y="{top + 16:.1f}">{text}</text>'
            )
    return "".join(drawn)


def listed(steps):
    return " ".join(map(str, steps))


def marked(text):
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", escape(text))


def in_words(graph, name):
    """The text alternative: the steps' sentences, and every value and cotangent."""
    steps = "".join(f"<li>{marked(sentence)}</li>" for sentence, _ in graph.steps)
    lines = []
    for node in graph.nodes.values():
        value, *others = map(escape, node.in_words().values())
        lines.append(f"<tr><td>{value}</td><td>{'<br>'.join(others)}</td></tr>")
    return (
        f'<details class="graph-words" id="graph-{name}-words">'
        "<summary>The graph in words and numbers</summary>"
        f'<ol class="steps">{steps}</ol><table><thead><tr><th>Forward</th>'
        f"<th>Backward</th></tr></thead><tbody>{''.join(lines)}</tbody></table></details>"
    )


def figure(graph, name):
    """The two drawings and the words, as HTML."""
    return (
        f'<div class="drawings">{drawing(graph, name, "wide")}'
        f"{drawing(graph, name, 'narrow')}</div>{in_words(graph, name)}"
    )


def described(name):
    """The graph that a file of book/graphs describes."""
    return run_path(str(GRAPHS / f"{name}.py"))["graph"]


class GraphDirective(Figure):
    """``{graph} layer_norm``, with the caption as its body."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        self.depend_on(GRAPHS / f"{name}.py", Path(__file__), *PACKAGE.rglob("*.py"))
        self.load("graph.js")
        graph = described(name)
        (drawn,) = self.figure(figure(graph, name), ["graph"], f"graph-{name}")
        drawn["steps"] = [shown for _, shown in graph.steps]
        return [drawn]


class DerivationsBesideGraphs(SphinxPostTransform):
    """Join a graph with the text before it that derives its steps: ``% step mu'``.

    Such a comment says what appears in the graph with the text from here to the next one. The
    script pins the graph beside the text, where there is room.
    """

    default_priority = 900
    formats = ("html",)

    def run(self):
        steps = []
        for node in list(self.document.findall(nodes.Element)):
            if isinstance(node, nodes.comment) and node.astext().startswith("step "):
                steps.append(node)
            elif "steps" in node.attributes and steps:
                self.join(node, steps)
                steps = []

    def join(self, graph, comments):
        for comment in comments:
            around = comment.parent
            first = around.index(comment)
            rest = around.children[first + 1 :]
            ends = [rest.index(node) for node in rest if node in comments or node is graph]
            text = rest[: min(ends, default=len(rest))]
            step = nodes.container(classes=["step", f"step-{self.number(graph, comment)}"])
            around[first : first + 1 + len(text)] = [step]
            step += text
            comments[comments.index(comment)] = step
        first, last = comments[0], graph
        # The text has sections of its own, the graph the last.
        while first.parent is not last.parent:
            first, last = first.parent, last.parent
        around = first.parent
        begin, end = around.index(first), around.index(last) + 1
        graph.parent.remove(graph)
        text = around.children[begin : end - (last is graph)]
        joined = nodes.container(classes=["derivation"])
        around[begin : begin + len(text)] = [joined]
        joined += [*text, graph]

    def number(self, graph, comment):
        strip = comment.astext().removeprefix("step ")
        for number, shown in enumerate(graph["steps"]):
            if strip in shown:
                return number
        raise ExtensionError(f"{self.env.docname}: no step of {graph['ids']} shows {strip!r}")


def setup(app):
    app.add_directive("graph", GraphDirective)
    app.add_post_transform(DerivationsBesideGraphs)
    return {"parallel_read_safe": True}
