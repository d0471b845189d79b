"""The whole Transformer as a map: the directive ``{map}``, and the strip that heads each chapter.

The drawing is made from ``map.toml``. A part is lit on the page of its chapter.
"""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import arrays
from docutils import nodes
from figures import attribute, load
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

WIDTH, HEIGHT, GAP = 312, 499, 12  # of a panel, in pixels, and between two
CHAPTER = re.compile(r"book/(\d{3}_\w+)$")


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


def row(y, title, *parts):
    """Parts side by side, under a title where there is one: ``"240 optimiser / Adam, AdamW"``."""
    width = (WIDTH - 2 - 6 * (len(parts) - 1)) / len(parts)
    return [Words(1, y, title, "title")] * bool(title) + [
        Part(part[:3], 1 + n * (width + 6), y + 7, width, 32, *part[4:].split(" / "))
        for n, part in enumerate(parts)
    ]


# What a line of map.toml stands for: ["part", "160", 111, 20, 90, 36, "ReLU, GELU", "B×T×F"].
KINDS = {"part": Part, "line": Line, "words": Words}
GROUPS = {"both": both, "up": up, "layer": layer, "row": row}


def things(lines):
    """What a panel consists of."""
    for kind, *about in lines:
        yield from GROUPS[kind](*about) if kind in GROUPS else [KINDS[kind](*about)]


MAP = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PLACES = MAP["places"]
PANELS = {name: (each["label"], [*things(each["things"])]) for name, each in MAP["panels"].items()}


# The boxes of the encoder alone, from the words to the loss.
BOXES = sorted(
    (
        thing
        for thing in PANELS["model"][1]
        if isinstance(thing, Part)
        and thing.chapter not in ("010", "280")
        and (thing.x < 160 or thing.chapter in ("130", "140"))
    ),
    key=lambda part: -part.y,
)


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
    box = f' data-box="{BOXES.index(part)}"' if part in BOXES else ""
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
        f'<a href="{chapter}.html" class="{part.kind}"{lit}{box}><title>{title}</title>'
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


def draw_strip(here, titles, numbers=""):
    """The map in small with the way to a chapter's parts, which opens to the map, and numbers."""
    way = BOXES[: max((n for n, part in enumerate(BOXES) if page_of(part) == here), default=0)]

    def kind(part):
        return "lit" if page_of(part) == here else "passed" if part in way else "box"

    rectangles = [
        rectangle(thing, kind(thing), n * (WIDTH + GAP))
        for n, (_, things) in enumerate(PANELS.values())
        for thing in things
        if isinstance(thing, Part)
    ]
    width = len(PANELS) * (WIDTH + GAP) - GAP
    whole = "The map" + " and its numbers" * bool(numbers)
    return (
        f'<details class="architecture-strip">\n<summary><svg viewBox="0 0 {width} {HEIGHT}" '
        f'aria-hidden="true">{"".join(rectangles)}</svg><span>You are here: '
        f"{PLACES[here]}. <span>{whole}</span></span></summary>\n"
        f"{draw_map(here, titles)}\n{numbers}</details>"
    )


class Map(SphinxDirective):
    """``{map}``, or some of its panels: ``{map} model``."""

    optional_arguments = len(PANELS)

    def run(self):
        figure = nodes.container()
        figure["map"] = self.arguments or list(PANELS)
        return [figure]


class Drawing(nodes.Element):
    """HTML whose words the search does not count as the page's: each page has the map."""


def show(translator, node):
    translator.body.append(node["html"])
    raise nodes.SkipNode


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
                figure.replace_self(Drawing(html=drawing))
        if here:
            title = next(self.document.findall(nodes.title))
            numbers = arrays.of_chapter(here)
            if numbers:
                load(self.env, *arrays.LOADED)
            strip = Drawing(html=draw_strip(here, titles, numbers))
            title.parent.insert(title.parent.index(title) + 1, strip)


def setup(app):
    app.add_directive("map", Map)
    app.add_node(Drawing, html=(show, None))
    app.add_post_transform(MapOnThePage)
    return {"parallel_read_safe": True}
