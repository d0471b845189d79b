"""The computation graphs: their numbers against the package's own and against measurements."""

import re
import sys
from xml.etree import ElementTree

import graphs
import numpy as np
import pytest
from helpers.texts import ROOT, read
from helpers.witnesses import arrays_in
from lacking import WITHOUT

from transformer_core import layers, ops

NAMES = sorted(path.stem for path in graphs.GRAPHS.glob("*.py"))
DESCRIBED = {name: graphs.described(name) for name in NAMES}
FIXED = {("sinusoidal_positions", "P")}  # tables that are not learnt
PASSES = {name: getattr(ops, name) for name in ops.__all__ if name.endswith("_backward")}
PASSES |= {
    name: getattr(layers, name).backward
    for name in layers.__all__
    if hasattr(getattr(layers, name), "backward")
}
DRAWN_AS_AN_OP = {  # layers whose backward pass is one call of an op: linear_backward, ...
    "Embedding",
    "Linear",
    "OwnReadout",
    "PairTable",
    "RmsNorm",
    "Rotary",
    "TiedReadout",
}
DRAWN_IN_PARTS = {  # the ops of which they are made
    "HeadTransform",
    "LoraLinear",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "Pooler",
    "QkNorm",
}
every_graph = pytest.mark.parametrize("name", NAMES)
every_drawing = pytest.mark.parametrize("name", [name for name in NAMES if name != "transformer"])


def outputs(graph):
    """The nodes that no other is computed from."""
    parents = {parent for node in graph.nodes.values() for parent in node.of}
    return [node for node in graph.nodes.values() if node.key not in parents]


def loss(graph, key, value, seen_by=None):
    """The outputs times their cotangents, with another value of one node.

    seen_by: the only child that is given the other value.
    """
    values = {each: node.value for each, node in graph.nodes.items()}
    others = set()  # the nodes that have another value
    if not seen_by:
        values[key] = value
        others.add(key)
    for node in graph.nodes.values():
        if node.key == seen_by or others & {*node.of}:
            seen = [
                value if (parent, node.key) == (key, seen_by) else values[parent]
                for parent in node.of
            ]
            values[node.key] = node.by(*seen)
            others.add(node.key)
    return sum(np.sum(values[node.key] * node.cotangent) for node in outputs(graph))


def measured(graph, key, seen_by=None, h=1e-6):
    """The central differences of the loss by the entries of one node."""
    base = np.asarray(graph.nodes[key].value, dtype=float)
    gradient = np.empty_like(base)
    for entry in np.ndindex(base.shape):
        step = np.zeros_like(base)
        step[entry] = h
        up, down = (loss(graph, key, base + s, seen_by) for s in (step, -step))
        gradient[entry] = (up - down) / (2 * h)
    return gradient


@every_graph
def test_every_value_follows_from_those_that_it_is_computed_from(name):
    for node in DESCRIBED[name].nodes.values():
        if node.of:
            value = node.by(*(DESCRIBED[name].nodes[p].value for p in node.of))
            np.testing.assert_allclose(value, node.value, rtol=1e-12, atol=1e-13)


@every_graph
def test_every_cotangent_is_what_a_measurement_gives(name):
    graph = DESCRIBED[name]
    given = outputs(graph)
    for node in graph.nodes.values():
        if node.cotangent is None or node in given:
            continue
        np.testing.assert_allclose(node.cotangent, measured(graph, node.key), rtol=1e-7, atol=1e-7)
        assert np.shape(node.cotangent) == node.value.shape


@every_graph
def test_only_what_is_not_learnt_or_not_differentiated_has_no_cotangent(name):
    graph = DESCRIBED[name]
    without = [n for n in graph.nodes.values() if n.cotangent is None]
    if len(without) < len(graph.nodes):
        assert all(node.value.dtype.kind in "bi" or (name, node.key) in FIXED for node in without)


@every_graph
def test_every_way_back_is_what_a_measurement_through_one_child_gives(name):
    graph = DESCRIBED[name]
    for node in graph.nodes.values():
        for way in node.ways:
            through = measured(graph, node.key, seen_by=way.child)
            np.testing.assert_allclose(way.values, through, rtol=1e-7, atol=1e-7)
        if node.ways:
            total = sum(way.values for way in node.ways)
            np.testing.assert_allclose(total, node.cotangent, atol=1e-12)


@every_graph
def test_every_step_shows_something_and_everything_is_shown(name):
    graph = DESCRIBED[name]
    shown = [strip for _, strips in graph.steps for strip in strips]
    strips = {n.key + s[0] for n in graph.nodes.values() for s in n.strips()}
    assert set(shown) == strips and len(shown) == len(strips)
    assert all(sentence and strips for sentence, strips in graph.steps)
    first = graph.first_shown()
    for node in graph.nodes.values():
        assert all(first[parent] <= first[node.key] for parent in node.of)


def texts(svg):
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("text")]


@every_drawing
def test_the_words_hold_every_number_of_the_drawing(name):
    graph = DESCRIBED[name]
    words = graphs.in_words(graph, name)
    table = re.sub("<.*?>", " ", words[words.index("<tbody>") :])
    for node in graph.nodes.values():
        for _, strip, (_, factor), values, _ in node.strips():
            written = [node.written(v / factor) for v in np.ravel(values)]
            assert strip in table
            assert all(re.search(rf"(?<![\w.]){re.escape(w)}(?![\w.])", table) for w in written)
    wide, narrow = (texts(graphs.drawing(graph, name, k)) for k in ("wide", "narrow"))
    assert sorted(wide) == sorted(narrow)


@every_drawing
@pytest.mark.parametrize("layout", ["wide", "narrow"])
def test_nothing_overlaps_and_nothing_stands_outside(name, layout):
    graph = DESCRIBED[name]
    laid_out = getattr(graphs, f"laid_out_{layout}")
    blocks, _, width, _ = laid_out(graph)
    boxes = [(b.x, b.y, b.x + b.width, b.y + b.height) for b in blocks.values()]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert left >= -0.5 and right <= width + 0.5
        for x1, y1, x2, y2 in boxes[:at]:
            assert right <= x1 or x2 <= left or bottom <= y1 or y2 <= top
    for block in blocks.values():
        for _, _, _, rows, _, _ in block.tables:
            longest = max(graphs.width_of(t, block.size) for r in rows for t in r)
            assert longest < block.cell


@every_drawing
def test_every_graph_stands_on_a_page(name):
    pages = (ROOT / "book").glob("*.md")
    assert any(f"{{graph}} {name}\n" in read(page) for page in pages)


def test_every_graph_of_a_section_backward_has_steps_in_the_text_before_it():
    still = [
        name
        for page in (ROOT / "book").glob("*.md")
        for section in re.split(r"^## ", read(page), flags=re.MULTILINE)
        if section.startswith("Backward")
        for parts in [re.split(r"^```\{graph\} (\w+)", section, flags=re.MULTILINE)]
        for before, name in zip(parts[::2], parts[1::2], strict=False)
        if "\n% step " not in before
    ]
    assert still == []


def gradients_in(returned):
    """The arrays that a backward pass has returned, those of parameters too."""
    parts = returned if isinstance(returned, tuple) else (returned,)
    return [
        gradient
        for part in parts
        for gradient in (part.values() if isinstance(part, dict) else arrays_in(part))
    ]


def drawn_passes(name):
    """The backward passes that a description calls itself and whose gradients are drawn."""
    returned, file = [], str(graphs.GRAPHS / f"{name}.py")

    def watch(frame, event, value):
        if event == "return" and frame.f_back and frame.f_back.f_code.co_filename == file:
            returned.append((frame.f_code, value))

    sys.setprofile(watch)
    try:
        graph = graphs.described(name)
    finally:
        sys.setprofile(None)
    drawn = [
        np.ravel(values)
        for node in graph.nodes.values()
        for what, *_, values, _ in node.strips()
        if what
    ]
    return {
        passed
        for passed, backward in PASSES.items()
        for code, value in returned
        if code is backward.__code__
        and any(np.array_equal(g.ravel(), d) for g in gradients_in(value) for d in drawn)
    }


def test_every_backward_pass_is_drawn():
    drawn = set().union(*map(drawn_passes, NAMES))
    assert PASSES.keys() - drawn == DRAWN_AS_AN_OP | DRAWN_IN_PARTS | {
        f"{name}_backward" for name in WITHOUT["graph"]
    }


@pytest.mark.parametrize(
    "value, written",
    [
        (3.0, "3"),
        (-0.0, "0"),
        (-5 / 3, "−5/3"),
        (np.log(2), "ln 2"),
        (-2 * np.log(2), "−2 ln 2"),
        (np.log(1 / 7), "−ln 7"),
        (np.log(4 / 7), "−ln 7/4"),
        (np.pi, "3.14"),
        (-0.001234567, "0.00"),
    ],
)
def test_numbers_read_as_on_paper(value, written):
    assert graphs.number(value) == written
