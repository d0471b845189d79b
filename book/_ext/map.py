"""The whole Transformer as a map: the directive ``{map}``, and the strip that heads each chapter.

The drawing is made from ``PANELS``. A part is lit on the page of its chapter.
"""

import re
from itertools import chain
from typing import NamedTuple

from docutils import nodes
from figures import attribute
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

WIDTH, HEIGHT, GAP = 312, 400, 12  # of a panel, in pixels, and between two
CHAPTER = re.compile(r"book/(\d{3}_\w+)$")

# Where each chapter stands, as its page says it.
PLACES = {
    "010_transformer": "the whole map",
    "110_gradient_check": "the measurement beside every gradient",
    "120_linear": "the linear layers: queries, keys, values, feed-forward and read-out",
    "130_softmax": "softmax, in every head and at the read-out",
    "140_cross_entropy": "cross-entropy, where the way back begins",
    "150_layer_norm": "LayerNorm, after every sum",
    "160_feed_forward": "the feed-forward layer, once in every layer",
    "170_when_checks_lie": "beside the gradient check",
    "210_attention": "attention: scores, mask and weighted sum",
    "220_multi_head_attention": "the heads, and attention across two sequences",
    "230_embedding": "embeddings and positions, where the ids come in",
    "240_optimizers": "the optimiser, from gradients to steps",
    "250_schedules": "between the gradients and the optimiser",
    "260_steepest_descent": "beside the optimiser",
    "270_residual": "the sums, and the way past each part",
    "280_signal_propagation": "the stack of L layers",
    "290_dropout": "dropout, on the weights of attention",
    "310_train_encoder": "the encoder, trained",
    "320_museum": "mistakes, and what finds them",
    "330_train_encoder_decoder": "encoder and decoder, trained together",
    "340_bert": "an encoder for gaps",
    "350_train_bert": "Mini-BERT, trained on text",
    "360_plateau": "why the loss of Mini-BERT stands still",
    "370_blind_cases": "mistakes that you have to name",
    "410_cost": "parameters, operations and bytes of the whole",
    "420_speed": "the time of a step",
    "450_many_machines": "the same step on many machines",
    "460_one_layer": "one layer, cut between machines",
    "470_internet_scale": "machines that are far apart",
    "910_taylor": "mathematics for the gradient check",
    "920_jacobians": "mathematics for every backward pass",
    "930_eigenvalues": "mathematics for softmax, LayerNorm and depth",
    "940_expectation": "mathematics for first weights and dropout",
}


class Part(NamedTuple):
    chapter: str  # its page begins with these three digits
    x: float
    y: float
    width: float
    height: float
    label: str  # in one line or two
    below: str = ""  # a shape, or what else there is to say
    kind: str = "part"


class Line(NamedTuple):
    points: str  # of a path of straight lines; an arrow stands at its end
    kind: str = "forward"


class Words(NamedTuple):
    x: float
    y: float
    text: str
    kind: str = "words"


class Frame(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def both(forward, backward):
    """A way of values, and the way of their gradients back."""
    return [Line(forward), Line(backward, "backward")]


def up(low, high, *xs):
    ways = (both(f"{x - 4} {low} {x - 4} {high}", f"{x + 4} {high} {x + 4} {low}") for x in xs)
    return [line for way in ways for line in way]


def block(x, y, part):
    """A part of a layer with the sum and the LayerNorm that follow it, seen from below."""
    chapter, label, shape = part
    return [
        Part(chapter, x + 20, y + 27, 122, 31, label, shape),
        Part("270", x + 20, y, 34, 18, "add"),
        Part("150", x + 64, y, 78, 18, "LayerNorm"),
        *up(y + 27, y + 18, x + 37),
        Line(f"{x + 54} {y + 6} {x + 64} {y + 6}"),
        Line(f"{x + 64} {y + 13} {x + 54} {y + 13}", "backward"),
        *up(y + 68, y + 58, x + 103),
        Line(f"{x + 99} {y + 65} {x + 8} {y + 65} {x + 8} {y + 6} {x + 20} {y + 6}"),
        Line(
            f"{x + 20} {y + 13} {x + 14} {y + 13} {x + 14} {y + 62} {x + 107} {y + 62}", "backward"
        ),
    ]


def layer(x, top, *parts):
    found = [Frame(x, top, 148, 68 * len(parts) + 14)]
    for number, part in enumerate(parts):
        found += block(x, top + 8 + 68 * number, part)
    return found


def row(y, line):
    """Parts side by side under a title, from a line of ``AROUND``."""
    title, _, parts = " ".join(line.split()).partition(": ")
    parts = parts.split("; ")
    width = (WIDTH - 2 - 6 * (len(parts) - 1)) / len(parts)
    return [Words(1, y, title, "title")] + [
        Part(part[:3], 1 + n * (width + 6), y + 8, width, 36, *part[4:].split(" / "))
        for n, part in enumerate(parts)
    ]


# A row each: its title, and parts with their chapters; | breaks a label, / begins its second line.
AROUND = """
From gradients to a step: 250 clipping,|schedule; 240 optimiser / Adam, AdamW; 260 steepest|descent
Are the gradients right?: 110 gradient|check; 170 when|checks lie; 320 museum of|mistakes;
  370 blind|cases
Trained models: 310 encoder; 330 encoder–|decoder; 340 Mini-|BERT; 350 masked|words; 360 plateau
Cost: 410 parameters,|operations, bytes; 420 time of|a step
Many machines: 450 batch and states|in pieces; 460 one layer|in pieces; 470 far|apart
Mathematics: 910 Taylor; 920 Jacobians; 930 eigen-|values; 940 expec-|tation
"""

FEED_FORWARD = ("160", "feed-forward", "inside B×T×F")

PANELS = {
    "model": (
        "The whole model, from the bottom up. The ids of the encoder's sentence, B × S, and of "
        "the decoder's, B × T, become embeddings plus positions. L layers of the encoder follow: "
        "self-attention and feed-forward, each with a sum and a LayerNorm. The decoder's layers "
        "have causal attention, cross-attention to the encoder's rows, and feed-forward. Read-out, "
        "softmax and cross-entropy end in the loss. Gradients take every way backwards.",
        [
            Part("010", 1, 1, 134, 22, "The Transformer", kind="part head"),
            Part("140", 162, 1, 148, 22, "cross-entropy → loss"),
            *up(32, 23, 236),
            Part("130", 162, 32, 148, 22, "softmax  B×T×V"),
            *up(63, 54, 236),
            Part("120", 60, 63, 250, 22, "read-out, linear  B×T×V"),
            *up(97, 85, 236),
            *layer(
                162,
                97,
                FEED_FORWARD,
                ("220", "cross-attention", "weights B×H×T×S"),
                ("210", "causal attention", "weights B×H×T×T"),
            ),
            *layer(
                2,
                165,
                ("160", "feed-forward", "inside B×S×F"),
                ("210", "self-attention", "weights B×H×S×S"),
            ),
            Part("280", 1, 130, 76, 20, "L layers"),
            Words(1, 120, "encoder alone", "small"),
            Line("101 165 101 85", "forward alone"),
            Line("109 85 109 165", "backward alone"),
            Line("101 149 153 149 153 212 182 212"),
            Line("182 219 157 219 157 156 109 156", "backward"),
            *up(327, 315, 105, 265),
            Part("230", 2, 327, 308, 34, "embedding + positions", "B×S×D and B×T×D"),
            *up(377, 361, 105, 265),
            Words(76, 391, "encoder: cats chase mice"),
            Words(236, 391, "decoder: les chats"),
        ],
    ),
    "inside": (
        "Inside attention, from the bottom up: three linear layers make queries, keys and values, "
        "split into H heads. Scores are compared, masked, turned into weights by softmax, and the "
        "weights average the values; the heads are joined. Inside the feed-forward layer: a "
        "linear layer, ReLU or GELU, a linear layer.",
        [
            Words(1, 11, "Inside the feed-forward layer", "title"),
            Part("120", 1, 20, 90, 36, "linear", "D → F"),
            *both("91 34 111 34", "111 42 91 42"),
            Part("160", 111, 20, 90, 36, "ReLU, GELU", "B×T×F"),
            *both("201 34 221 34", "221 42 201 42"),
            Part("120", 221, 20, 90, 36, "linear", "F → D"),
            Words(1, 82, "Inside attention", "title"),
            *up(92, 72, 206),
            Part("220", 1, 92, 310, 24, "heads joined, linear  B×T×D"),
            *up(127, 116, 206),
            Part("210", 1, 127, 310, 34, "weights × values", "B×H×T×K"),
            *up(172, 161, 104),
            Part("290", 1, 172, 206, 20, "dropout"),
            *up(203, 192, 104),
            Part("130", 1, 203, 206, 20, "softmax"),
            *up(234, 223, 104),
            Part("210", 1, 234, 206, 20, "mask"),
            *up(265, 254, 104),
            Part("210", 1, 265, 206, 34, "queries · keys / √K", "B×H×T×S"),
            *up(310, 299, 50, 156),
            *up(310, 161, 262),
            Part("220", 1, 310, 310, 20, "split into H heads"),
            *up(341, 330, 50, 156, 262),
            Part("120", 1, 341, 98, 34, "queries", "linear", "part query"),
            Part("120", 107, 341, 98, 34, "keys", "linear", "part key"),
            Part("120", 213, 341, 98, 34, "values", "linear", "part value"),
            *up(386, 375, 50, 156, 262),
            Words(50, 398, "B×T×D"),
            Words(209, 398, "B×S×D"),
        ],
    ),
    "around": (
        "Around the model: the step from gradients to parameters, checks of the gradients, the "
        "models that are trained, what they cost, many machines, and the mathematics that is used.",
        [
            *chain.from_iterable(
                map(row, range(11, 354, 57), re.split(r"\n(?! )", AROUND.strip()))
            ),
            Line("1 362 41 362"),
            Words(50, 366, "values, forward", "small"),
            Line("41 382 1 382", "backward"),
            Words(50, 386, "gradients, on the way back", "small"),
        ],
    ),
}


def page_of(part):
    (chapter,) = (page for page in PLACES if page.startswith(part.chapter))
    return chapter


def rectangle(thing, kind, x=0):
    return (
        f'<rect class="{kind}" x="{x + thing.x:g}" y="{thing.y:g}" '
        f'width="{thing.width:g}" height="{thing.height:g}" rx="4"/>'
    )


def link(part, here, titles):
    """A part that leads to its chapter."""
    chapter = page_of(part)
    lit = ' aria-current="page"' if chapter == here else ""
    x, middle = part.x + part.width / 2, part.y + part.height / 2
    lines = [(line, "name") for line in part.label.split("|")]
    lines += [(part.below, "shape")] * bool(part.below)
    texts = " ".join(
        f'<text class="{kind}" x="{x:g}" y="{middle + 4 + 14 * (n - (len(lines) - 1) / 2):g}">'
        f"{line}</text>"
        for n, (line, kind) in enumerate(lines)
    )
    title = attribute(titles.get(chapter, chapter))
    return (
        f'<a href="{chapter}.html" class="{part.kind}"{lit}><title>{title}</title>'
        f"{rectangle(part, 'box')}{texts}</a>"
    )


def arrow(line):
    numbers = [float(number) for number in line.points.split()]
    x0, y0, x, y = numbers[-4:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    back, side = 5, 3
    head = (
        f"M{x:g} {y:g}L{x - back * dx + side * dy:g} {y - back * dy + side * dx:g}"
        f"L{x - back * dx - side * dy:g} {y - back * dy - side * dx:g}z"
    )
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    points[-1] = x - back * dx, y - back * dy
    way = "M" + "L".join(f"{px:g} {py:g}" for px, py in points)
    return f'<g class="{line.kind}"><path class="way" d="{way}"/><path d="{head}"/></g>'


def drawn(thing, here, titles):
    match thing:
        case Part():
            return link(thing, here, titles)
        case Line():
            return arrow(thing)
        case Frame():
            return rectangle(thing, "frame")
        case Words():
            return f'<text class="{thing.kind}" x="{thing.x:g}" y="{thing.y:g}">{thing.text}</text>'


def draw_map(here="", titles=None, panels=PANELS):
    """Panels of the map side by side, the parts of the page ``here`` lit."""
    drawings = []
    for name in panels:
        label, things = PANELS[name]
        things = sorted(things, key=lambda thing: isinstance(thing, Part))
        inside = "\n".join(drawn(thing, here, titles or {}) for thing in things)
        drawings.append(
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
            f'aria-label="{attribute(label)}">\n{inside}\n</svg>'
        )
    return '<div class="architecture">\n' + "\n".join(drawings) + "\n</div>"


def draw_strip(here, titles):
    """The map in small with a chapter's parts lit, which opens to the map itself."""
    rectangles = [
        rectangle(thing, "lit" if page_of(thing) == here else "box", n * (WIDTH + GAP))
        for n, (_, things) in enumerate(PANELS.values())
        for thing in things
        if isinstance(thing, Part)
    ]
    width = len(PANELS) * (WIDTH + GAP) - GAP
    return (
        f'<details class="architecture-strip">\n<summary><svg viewBox="0 0 {width} {HEIGHT}" '
        f'aria-hidden="true">{"".join(rectangles)}</svg><span>You are here: '
        f"{PLACES[here]}. <span>The map</span></span></summary>\n"
        f"{draw_map(here, titles)}\n</details>"
    )


class Map(SphinxDirective):
    """``{map}``, or some of its panels: ``{map} model``."""

    optional_arguments = len(PANELS)

    def run(self):
        figure = nodes.container()
        figure["map"] = self.arguments or list(PANELS)
        return [figure]


class MapOnThePage(SphinxPostTransform):
    """Draw the map where a page asks for it, and the strip under each chapter's title."""

    default_priority = 5
    formats = ("html",)

    def run(self):
        chapter = CHAPTER.match(self.env.docname)
        here = chapter[1] if chapter else ""
        titles = {
            found[1]: title.astext()
            for name, title in self.env.titles.items()
            if (found := CHAPTER.match(name))
        }
        for figure in list(self.document.findall(nodes.container)):
            if "map" in figure:
                drawing = draw_map(here, titles, figure["map"])
                figure.replace_self(nodes.raw("", drawing, format="html"))
        if here:
            title = next(self.document.findall(nodes.title))
            strip = nodes.raw("", draw_strip(here, titles), format="html")
            title.parent.insert(title.parent.index(title) + 1, strip)


def setup(app):
    app.add_directive("map", Map)
    app.add_post_transform(MapOnThePage)
    return {"parallel_read_safe": True}
