"""Numbers count, not how they lie in memory; and nothing that is given is written to."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from helpers.cases import LAYERS, OPS, STACKS, Op
from helpers.witnesses import assert_close, gradients_of, normal

from transformer_core import ops

EVERY_LAYER = LAYERS | STACKS
HEADS = {
    "split_heads": Op(
        lambda x: (ops.split_heads(x, 3), None),
        lambda dy, cache: ops.merge_heads(dy),
        {"x": (2, 4, 6)},
    ),
    "merge_heads": Op(
        lambda x: (ops.merge_heads(x), None),
        lambda dy, cache: ops.split_heads(dy, 3),
        {"x": (2, 3, 4, 2)},
    ),
}
EVERY_OP = OPS | HEADS


def permuted(order):
    """Lay the axes in an order: the last of it lies closest together."""

    def lay(array):
        axes = [axis for axis in order if axis < array.ndim]
        return array.transpose(axes).copy().transpose(np.argsort(axes))

    return lay


def strided(array):
    """Take every second entry, in each direction, of an array of other numbers."""
    larger = np.full([2 * size for size in array.shape], array.flat[-1])
    half = larger[..., *[slice(1, None, 2)] * array.ndim]
    half[...] = array
    return half


def backwards(array):
    every = (..., *[slice(None, None, -1)] * array.ndim)
    return array[every].copy()[every]


LAYOUTS = {f"axes {order}": permuted(order) for order in permutations(range(4))}
LAYOUTS |= {"strided": strided, "backwards": backwards}
every_layout = pytest.mark.parametrize("lay", LAYOUTS.values(), ids=LAYOUTS)
every_op = pytest.mark.parametrize("op", EVERY_OP.values(), ids=EVERY_OP)
every_layer = pytest.mark.parametrize("case", EVERY_LAYER.values(), ids=EVERY_LAYER)


def mixed(rng):
    """Lay each array in a way of its own."""
    layouts = list(LAYOUTS.values())
    return lambda array: layouts[rng.integers(len(layouts))](array)


def broadcast(axis):
    """Repeat the first entry of an axis, which takes no memory."""

    def lay(array):
        if axis >= array.ndim:
            return array
        return np.broadcast_to(array.take([0], axis), array.shape)

    return lay


def read_only(values, lay):
    """Lay out the arrays of a list or dictionary, and lock them."""
    if isinstance(values, dict):
        return dict(zip(values, read_only(values.values(), lay), strict=True))
    laid = [lay(v) if isinstance(v, np.ndarray) else v for v in values]
    for value in laid:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return laid


def plain(array):
    return array.copy(order="C")


def run_op(op, arrays, settings, dy, lay):
    arrays, settings = read_only(arrays, lay), read_only(settings, lay)
    y, cache = op.forward(*arrays.values(), **settings)
    (dy,) = read_only([dy], lay)
    return {"y": y} | op.gradients(dy, cache)


def run_layer(layer, inputs, context, dy, lay):
    y, cache = layer.forward(*read_only(inputs, lay), *read_only(context, lay))
    (dy,) = read_only([dy], lay)
    return {"y": y} | gradients_of(layer, dy, cache)


def draw_op(rng, op):
    arrays = op.draw(rng, np.float64)
    y, _ = op.forward(*arrays.values(), **op.settings)
    return arrays, op.settings, np.asarray(normal(rng, np.shape(y)))


def draw_layer(rng, case):
    layer, *inputs = case.draw(rng, np.float64)
    y, _ = layer.forward(*inputs, *case.context)
    return layer, inputs, case.context, normal(rng, y.shape)


def assert_same(found, expected):
    assert_close(found, expected, 1e-12)
    for name, array in expected.items():
        assert np.shape(found[name]) == np.shape(array), name


def in_each_layout(run):
    """Return what a run comes to in each layout, and what it has to: that in the plain one."""
    found, expected, right = {}, {}, run(plain)
    for layout, lay in LAYOUTS.items():
        found |= {f"{layout}: {name}": array for name, array in run(lay).items()}
        expected |= {f"{layout}: {name}": array for name, array in right.items()}
    return found, expected


@every_op
def test_ops_do_not_depend_on_the_layout(rng, op):
    drawn = draw_op(rng, op)
    assert_same(*in_each_layout(partial(run_op, op, *drawn)))


@every_op
def test_ops_do_not_depend_on_a_mixture_of_layouts(rng, op):
    drawn = draw_op(rng, op)
    expected = run_op(op, *drawn, plain)
    for _ in range(20):
        assert_same(run_op(op, *drawn, mixed(rng)), expected)


@pytest.mark.parametrize("axis", range(4))
@every_op
def test_ops_take_numbers_that_are_repeated_without_being_stored(rng, op, axis):
    arrays, settings, dy = draw_op(rng, op)
    arrays, dy = read_only(arrays, broadcast(axis)), broadcast(axis)(dy)
    expected = run_op(op, arrays, settings, dy, plain)
    assert_same(run_op(op, arrays, settings, dy, lambda array: array), expected)


@pytest.mark.slow
@every_layer
def test_layers_do_not_depend_on_the_layout(rng, case):
    drawn = draw_layer(rng, case)
    assert_same(*in_each_layout(partial(run_layer, *drawn)))


@pytest.mark.slow
@every_layer
def test_layers_do_not_depend_on_a_mixture_of_layouts(rng, case):
    drawn = draw_layer(rng, case)
    expected = run_layer(*drawn, plain)
    for _ in range(20):
        assert_same(run_layer(*drawn, mixed(rng)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("axis", range(3))
@every_layer
def test_layers_take_numbers_that_are_repeated_without_being_stored(rng, case, axis):
    layer, inputs, context, dy = draw_layer(rng, case)
    inputs, dy = read_only(inputs, broadcast(axis)), broadcast(axis)(dy)
    expected = run_layer(layer, inputs, context, dy, plain)
    found = run_layer(layer, inputs, context, dy, lambda array: array)
    assert_same(found, expected)


@every_layout
def test_log_softmax_does_not_depend_on_the_layout(rng, lay):
    x = rng.normal(size=(2, 3, 4))
    (laid,) = read_only([x], lay)
    assert np.allclose(ops.log_softmax(laid), ops.log_softmax(x), rtol=1e-14)


def test_the_layouts_are_what_they_say(rng):
    x = rng.normal(size=(2, 3, 4))
    for lay in LAYOUTS.values():
        assert np.array_equal(lay(x), x)
    assert len({lay(x).strides for lay in LAYOUTS.values()}) == 8
    assert broadcast(1)(x).strides[1] == 0
