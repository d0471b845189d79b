"""The figures in the margin: their numbers against the formulas of the pages, and their form."""

import ast
import re
from xml.etree import ElementTree

import margin_figures
import numpy as np
import pytest
from graphs import width_of
from helpers.texts import ROOT, read

from book.sentence import EMBEDDING, VALUE
from transformer_core.layers import FeedForward
from transformer_core.ops import relu, relu_backward, softmax
from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.reconstruction import Reconstruction
from transformer_core.tasks.texts.wordpiece import MASK

NAMES = sorted(path.stem for path in margin_figures.FIGURES.glob("*.py"))
SKETCHES = {name: margin_figures.drawn(name) for name in NAMES}
CSS = read(ROOT / "book/_static/figures.css")
LETTERS = int(re.search(r"\.margin-figure text \{[^}]*font-size: (\d+)px", CSS)[1])
PLACED = [
    (found[1], found[2])
    for page in ROOT.glob("book/*.md")
    for found in re.finditer(r"^```\{margin-figure\} (\w+)\n(.*?)^```$", read(page), re.M | re.S)
]
every_figure = pytest.mark.parametrize("name", NAMES)


def points(name, kind, hue=None):
    """The points of a figure's marks of one kind, (marks, points, 2)."""
    marks = SKETCHES[name].marks
    return np.array([m.points for m in marks if m.kind == kind and hue in (None, m.hue)])


def corners(name, kind, hue):
    """The upper left corners of squares."""
    return {tuple(square[0]) for square in points(name, kind, hue)}


# The form


def test_every_figure_stands_on_one_page():
    assert sorted(name for name, _ in PLACED) == NAMES


@pytest.mark.parametrize("name, caption", PLACED)
def test_a_caption_has_a_few_words_at_most(name, caption):
    assert len(caption.split()) <= 8


@every_figure
def test_a_figure_is_well_formed_and_as_large_as_it_is_drawn(name):
    sketch = SKETCHES[name]
    root = ElementTree.fromstring(sketch.svg())
    size = root.attrib["width"], root.attrib["height"]
    assert root.attrib["viewBox"] == f"0 0 {' '.join(size)}"
    assert size[0] == str(margin_figures.WIDTH)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == sketch.alt
    assert len(sketch.alt) > 40


@every_figure
def test_the_numbers_of_an_alternative_text_are_computed(name):
    source = ast.parse(read(margin_figures.FIGURES / f"{name}.py"))
    (text,) = (
        node.value
        for node in source.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "sketch.alt"
    )
    constants = (part.value for part in ast.walk(text) if isinstance(part, ast.Constant))
    written = [value for value in constants if isinstance(value, str)]
    assert re.search(r"\d", SKETCHES[name].alt)
    assert not any(re.search(r"(?<!\.)\d", part) for part in written)


@every_figure
def test_a_hue_is_one_of_the_page(name):
    for mark in SKETCHES[name].marks:
        assert f"--{mark.hue}: " in CSS


@every_figure
def test_nothing_stands_outside_and_no_words_overlap(name):
    sketch = SKETCHES[name]
    boxes = []
    for mark in sketch.marks:
        pixels = sketch.pixels(mark.points)
        assert (pixels >= -0.5).all()
        assert (pixels <= np.array([margin_figures.WIDTH, sketch.height]) + 0.5).all()
        if mark.kind == "text":
            x, bottom = pixels[0] + mark.offset
            width = width_of(mark.words.replace("*", ""), LETTERS) * 0.9
            left = x - width * {"start": 0, "middle": 0.5, "end": 1}[mark.anchor]
            boxes.append((left, bottom - 0.7 * LETTERS, left + width, bottom))
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert left >= -2 and right <= margin_figures.WIDTH + 2
        assert top >= -2 and bottom <= sketch.height + 2
        for x1, y1, x2, y2 in boxes[:at]:
            assert right <= x1 or x2 <= left or bottom <= y1 or y2 <= top


def test_letters_can_be_read():
    assert LETTERS >= 9


def test_a_point_stands_where_its_numbers_say():
    sketch = margin_figures.Sketch(x=(-1, 3), y=(10, 12))
    sketch.dots([-1, 1, 3], [12, 11, 10])
    edge, inside = margin_figures.EDGE, margin_figures.WIDTH - 2 * margin_figures.EDGE
    circles = ElementTree.fromstring(sketch.svg()).iter("circle")
    drawn = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles]
    middle = edge + inside / 2, edge + inside / 4  # the axes are equal
    ends = (edge, edge), (edge + inside, edge + inside / 2)
    np.testing.assert_allclose(drawn, [ends[0], middle, ends[1]])


# The numbers


def test_unseen_direction():
    ((_, r),) = points("unseen_direction", "arrow", "cotangent")
    ((shadow,),) = points("unseen_direction", "dots", "cotangent")
    ((nothing,),) = points("unseen_direction", "dots", "soft")
    np.testing.assert_allclose(shadow, r - r.mean())
    assert abs(shadow).min() > 0.1
    np.testing.assert_allclose(nothing, 0)


def test_bias_sum():
    words = points("bias_sum", "arrow", "cotangent")
    np.testing.assert_allclose(words[1:, 0], words[:-1, 1])
    ((start, end),) = points("bias_sum", "arrow", "ink")
    np.testing.assert_allclose([start, end], [words[0, 0], words[-1, 1]])
    np.testing.assert_allclose(end, [2, 0])


def test_shift():
    heights = points("shift", "bar")[:, 2, 1].reshape(3, 3)
    scores, shifted, weights = heights
    np.testing.assert_allclose(weights, softmax(scores)[0])
    np.testing.assert_allclose(weights, softmax(shifted)[0])
    assert shifted.max() == 0 < scores.max()


def test_surprise():
    (dots,) = points("surprise", "dots")
    np.testing.assert_allclose(dots[:, 0], np.array([4, 1, 2]) / 7)
    (curve,) = points("surprise", "line")
    for p, loss in (*dots, *curve):
        assert np.exp(-loss) == pytest.approx(p)


def test_least_squares():
    ((lowest,),) = points("least_squares", "dots")
    np.testing.assert_allclose(lowest, [1, 9])
    (curve,) = points("least_squares", "line")
    for m, distance in curve:
        assert distance == pytest.approx(np.square(EMBEDDING[0] - m).mean())
        assert distance >= 9


def test_subgradients():
    for line in points("subgradients", "thin"):
        assert (line[:, 1] <= relu(line[:, 0])[0]).all()
    ((left, right),) = points("subgradients", "dashed")
    _, cache = relu(np.zeros(1))
    slope = (right - left)[1] / (right - left)[0]
    assert slope == relu_backward(np.ones(1), cache)[0]


def test_tangent_of_angle():
    (near,) = points("tangent_of_angle", "specks", "sky")
    (far,) = points("tangent_of_angle", "specks", "wrong")
    assert (abs(far[:, 1]) > 2 * abs(far[:, 0])).all()
    assert (abs(near[:, 1]) <= 2 * abs(near[:, 0])).all()
    for _, right, left in points("tangent_of_angle", "area"):
        np.testing.assert_allclose(abs(right / left), 1)
        assert abs(right[1]) == 2 * abs(right[0])
    assert f"law says {1 - 2 / np.pi * np.arctan(2):.2f}" in SKETCHES["tangent_of_angle"].alt


def test_average():
    ((output,),) = points("average", "dots", "ink")
    np.testing.assert_allclose(output, np.array([4, 1, 2]) / 7 @ VALUE, atol=1e-15)
    np.testing.assert_allclose(points("average", "dots", "value")[:, 0], VALUE)


def test_keep():
    full = corners("keep", "full", "key")
    squares = full | corners("keep", "empty", "key")
    t, s = np.indices((5, 5))
    masks = s < 3, s <= t, (s < 3) & (s <= t)
    seen = {(m * 7 + s, 5 - t) for m, keep in enumerate(masks) for t, s in np.argwhere(keep)}
    assert full == seen and len(squares) == 75


def test_heads_add_up():
    ((_, y),) = points("heads_add_up", "arrow", "ink")
    (start, corner), (again, end) = points("heads_add_up", "arrow", "sky")
    np.testing.assert_allclose([start, corner, again], [[0, 0], [0, 4], corner])
    np.testing.assert_allclose([end, y], [[2, 5], [2, 5]])


def test_clocks():
    tips = points("clocks", "arrow")
    for (middle, tip), pair in zip(tips, (0, 4, 8), strict=True):
        angle = 4 * 10000 ** (-2 * pair / 64)
        np.testing.assert_allclose(tip - middle, 0.9 * np.array([np.sin(angle), np.cos(angle)]))


def test_step_bound():
    (lengths,) = points("step_bound", "line")
    b1, b2 = 0.9, 0.999
    t = np.arange(1, len(lengths) + 1)
    root = np.sqrt((1 - (b1**2 / b2) ** t) / (1 - b1**2 / b2))
    bound = (1 - b1) / np.sqrt(1 - b2) * root * np.sqrt(1 - b2**t) / (1 - b1**t)
    np.testing.assert_allclose(10 ** lengths[:, 0], t)
    np.testing.assert_allclose(lengths[:, 1], bound, rtol=1e-6)


def test_plateau():
    bars = points("plateau", "bar")
    t = np.arange(1, 25)
    np.testing.assert_allclose(bars[:, :2, 0].mean(axis=1), t)
    np.testing.assert_allclose(bars[:, 2, 1], np.minimum(1, np.minimum(t / 4, (25 - t) / 6)))


def test_cobweb():
    starts = points("cobweb", "dots")[:, 0, 0]
    np.testing.assert_allclose(starts, np.sqrt([45, 5]) / np.sqrt(50))
    for way in points("cobweb", "dashed"):
        np.testing.assert_allclose(way[2::2, 0], way[1:-1:2, 1])
        x, y = way[1::2].T
        np.testing.assert_allclose(y, 1.5 * x - 0.5 * x**3)


def test_two_ways():
    ((_, dx),) = points("two_ways", "arrow", "ink")
    (start, corner), (again, end) = points("two_ways", "arrow", "cotangent")
    np.testing.assert_allclose([start, corner, again, end], [[0, 0], [12, 0], corner, dx])
    np.testing.assert_allclose(dx, [12, 6])


def test_right_angle():
    rng = np.random.default_rng(0)
    x = rng.normal(size=64)
    x *= 8 / np.linalg.norm(x)
    added, _ = FeedForward(64, 256, rng, np.float64).forward(x)
    ((_, end),) = points("right_angle", "arrow", "soft")
    assert np.linalg.norm(end) == pytest.approx(np.linalg.norm(x + added) / 8)
    assert np.linalg.norm(end - [1, 0]) == pytest.approx(np.linalg.norm(added) / 8)


def test_same_mask():
    kept = np.random.default_rng(0).random((5, 8), np.float32) >= 0.5
    forward = {(column, 5 - row) for row, column in np.argwhere(kept)}
    assert corners("same_mask", "full", "blue") == forward
    assert corners("same_mask", "full", "cotangent") == {
        (column + 10, row) for column, row in forward
    }


def test_one_point():
    rng = np.random.default_rng(0)
    _, targets = Reconstruction(rng).sample(1, rng)
    (specks,) = points("one_point", "specks")
    np.testing.assert_allclose(specks[:, 0], targets[0].std(axis=1), rtol=1e-6)
    np.testing.assert_allclose(specks[:, 1], targets[0].mean(axis=1), rtol=1e-6)
    floor = np.square(specks - [1, 0]).sum(axis=1).mean()  # eq:floor-closed
    assert f"the floor, {floor:.4f}." in SKETCHES["one_point"].alt


def test_masked_block():
    ids = np.full((1, 64), 5)
    inputs, masked = mask(ids, 8192, np.random.default_rng(0))
    hidden, other = inputs == MASK, (inputs != MASK) & (inputs != ids)
    fates = {"ink": hidden, "wrong": other, "blue": masked & (inputs == ids)}
    for hue, fate in fates.items():
        drawn = {c for c in corners("masked_block", "full", hue) if c[1] > 0}
        assert drawn == {(n % 16, 4 - n // 16) for n in np.flatnonzero(fate)}
        assert drawn
    assert len(corners("masked_block", "empty", "line")) == 64 - masked.sum()


def test_average_explains():
    curves, dots = (points("average_explains", kind) for kind in ("line", "dots"))
    for T, curve, dot in zip((1, 4, 64), curves, dots, strict=True):
        for w, error in (*curve, *dot):
            left = np.eye(T)[0] - w * np.ones(T) / T  # of T independent numbers
            assert error == pytest.approx(left @ left)
        np.testing.assert_allclose(dot, [[1, 1 - 1 / T]])
