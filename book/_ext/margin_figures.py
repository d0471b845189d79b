"""Figures of the size of a stamp: ``{margin-figure} surprise``, with the caption as its body.

``book/margin_figures/surprise.py`` draws one on a ``Sketch``, in the numbers of the package's own
run. It stands in the margin beside the paragraph that follows, and within the text on a phone; its
width is the same everywhere, and so is the size of its letters.
"""

from dataclasses import dataclass
from functools import partialmethod
from html import escape
from pathlib import Path
from runpy import run_path

import numpy as np
from figures import Figure

FIGURES = Path(__file__).parents[1] / "margin_figures"
PACKAGE = Path(__file__).parents[2] / "transformer_core"
WIDTH = 174  # pixels, of every figure
EDGE = 8  # around what is drawn
HEAD = 7  # the length of an arrow's head


@dataclass
class Mark:
    """What a sketch consists of: its kind, its points (N, 2) in data, its hue, its words."""

    kind: str
    points: np.ndarray
    hue: str
    words: str = ""
    offset: tuple = (0, 0)
    anchor: str = "middle"


class Sketch:
    """A figure of the size of a stamp; x and y are the ranges of its data.

    The height in pixels is, unless it is given, what makes the two axes equal. ``alt`` is the
    alternative text. A hue is the name of a property in figures.css.
    """

    def __init__(self, x, y, height=None):
        self.x, self.y = x, y
        self.inside = WIDTH - 2 * EDGE
        self.drawn = height or self.inside * (y[1] - y[0]) / (x[1] - x[0])
        self.height = self.drawn + 2 * EDGE
        self.marks, self.alt = [], ""

    def add(self, kind, xs, ys, hue="", **more):
        hue = hue or ("soft" if kind in ("thin", "dashed", "specks") else "ink")
        points = np.column_stack(np.broadcast_arrays(*np.atleast_1d(xs, ys)))
        self.marks.append(Mark(kind, points.astype(float), hue, **more))

    line = partialmethod(add, "line")
    thin = partialmethod(add, "thin")
    dashed = partialmethod(add, "dashed")
    area = partialmethod(add, "area")
    dots = partialmethod(add, "dots")
    specks = partialmethod(add, "specks")

    def arrow(self, start, end, hue="ink"):
        self.add("arrow", *zip(start, end, strict=True), hue)

    def bar(self, x, y, width, hue):
        """From 0 to y, with its middle at x."""
        left, right = x - width / 2, x + width / 2
        self.add("bar", [left, right, right, left], [0, 0, y, y], hue)

    def squares(self, filled, left, top, hue):
        """A boolean matrix as squares of side 1, its corner at (left, top)."""
        for (row, column), full in np.ndenumerate(filled):
            self.square(left + column, top - row, hue, full)

    def square(self, left, top, hue, full=True):
        kind = "full" if full else "empty"
        self.add(kind, [left, left + 1], [top, top - 1], hue)

    def text(self, x, y, words, hue="ink", offset=(0, 0), anchor="middle"):
        """Words beside a point; what is between asterisks is a letter of a formula.

        offset: pixels to the right and down.
        """
        self.add("text", x, y, hue, words=words, offset=offset, anchor=anchor)

    def pixels(self, points):
        """Where points of the data stand in the drawing."""
        low = np.array([self.x[0], self.y[1]])
        high = np.array([self.x[1], self.y[0]])
        return EDGE + (points - low) / (high - low) * [self.inside, self.drawn]

    def svg(self):
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height:.0f}" width="{WIDTH}" '
            f'height="{self.height:.0f}" role="img" aria-label="{escape(self.alt)}">'
            f"{''.join(map(self.shape, self.marks))}</svg>"
        )

    def shape(self, mark):
        """One mark as SVG."""
        points = self.pixels(mark.points)
        style = f'class="{mark.kind}" style="--hue: var(--{mark.hue})"'
        if mark.kind in ("dots", "specks"):
            radius = 3 if mark.kind == "dots" else 1.5
            return "".join(
                f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in points
            )
        if mark.kind in ("full", "empty"):
            (x, y), (right, bottom) = points
            return (
                f'<rect {style} x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" '
                f'width="{right - x - 1:.1f}" height="{bottom - y - 1:.1f}"/>'
            )
        if mark.kind == "text":
            x, y = points[0] + mark.offset
            return (
                f'<text {style} text-anchor="{mark.anchor}" x="{x:.1f}" y="{y:.1f}">'
                f"{lettered(mark.words)}</text>"
            )
        if mark.kind == "arrow":
            start, end = points
            along = (end - start) / np.linalg.norm(end - start)
            across = along[::-1] * [-1, 1]
            back = end - HEAD * along
            head = [end, back + HEAD / 2.4 * across, back - HEAD / 2.4 * across]
            return (
                f'<path {style} d="{path([start, back])}"/>'
                f'<path class="head" style="--hue: var(--{mark.hue})" d="{path(head)} Z"/>'
            )
        closed = " Z" * (mark.kind in ("area", "bar"))
        return f'<path {style} d="{path(points)}{closed}"/>'


def path(points):
    return "M " + " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)


def lettered(words):
    """Words as SVG, letters of formulas in italics."""
    parts = escape(words).split("*")
    parts[1::2] = [f"<tspan>{part}</tspan>" for part in parts[1::2]]
    return "".join(parts)


def drawn(name):
    """The sketch that a file of book/margin_figures draws."""
    return run_path(str(FIGURES / f"{name}.py"))["sketch"]


class MarginFigure(Figure):
    """``{margin-figure} surprise``, with the caption, a few words at most, as its body."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        self.depend_on(FIGURES / f"{name}.py", Path(__file__), *PACKAGE.rglob("*.py"))
        return self.figure(drawn(name).svg(), ["margin", "margin-figure"], caption=())


def setup(app):
    app.add_directive("margin-figure", MarginFigure)
    return {"parallel_read_safe": True}
