"""Numbers count, not how they lie in memory; and nothing that is given is written to."""

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


def runs_of_op(rng, op):
    """Draw arrays; return what lays them out and gives the output and all gradients."""
    arrays = op.draw(rng, np.float64)
    y, _ = op.forward(*arrays.values(), **op.settings)
    dy = np.asarray(normal(rng, np.shape(y)))

    def run(lay):
        y, cache = op.forward(*read_only(arrays, lay).values(), **read_only(op.settings, lay))
        return {"y": y} | op.gradients(*read_only([dy], lay), cache)

    return run


def runs_of_layer(rng, case):
    layer, *inputs = case.draw(rng, np.float64)
    dy = normal(rng, layer.forward(*inputs, *case.context)[0].shape)

    def run(lay):
        y, cache = layer.forward(*read_only([*inputs, *case.context], lay))
        return {"y": y} | gradients_of(layer, *read_only([dy], lay), cache)

    return run


def assert_same(found, expected):
    assert_close(found, expected, 1e-12)
    for name, array in expected.items():
        assert np.shape(found[name]) == np.shape(array), name


def assert_same_in_each_layout(run):
    found, expected, right = {}, {}, run(plain)
    for layout, lay in LAYOUTS.items():
        found |= {f"{layout}: {name}": array for name, array in run(lay).items()}
        expected |= {f"{layout}: {name}": array for name, array in right.items()}
    assert_same(found, expected)


def assert_same_in_mixtures(run, rng):
    expected = run(plain)
    for _ in range(20):
        assert_same(run(mixed(rng)), expected)


def assert_same_without_being_stored(run, axis):
    repeat = broadcast(axis)
    assert_same(run(repeat), run(lambda array: plain(repeat(array))))


@every_op
def test_ops_do_not_depend_on_the_layout(rng, op):
    assert_same_in_each_layout(runs_of_op(rng, op))


@every_op
def test_ops_do_not_depend_on_a_mixture_of_layouts(rng, op):
    assert_same_in_mixtures(runs_of_op(rng, op), rng)


@every_op
def test_ops_take_numbers_that_are_repeated_without_being_stored(rng, op):
    run = runs_of_op(rng, op)
    for axis in range(4):
        assert_same_without_being_stored(run, axis)


@pytest.mark.slow
@every_layer
def test_layers_do_not_depend_on_the_layout(rng, case):
    assert_same_in_each_layout(runs_of_layer(rng, case))


@pytest.mark.slow
@every_layer
def test_layers_do_not_depend_on_a_mixture_of_layouts(rng, case):
    assert_same_in_mixtures(runs_of_layer(rng, case), rng)


@pytest.mark.slow
@every_layer
def test_layers_take_numbers_that_are_repeated_without_being_stored(rng, case):
    run = runs_of_layer(rng, case)
    for axis in range(3):
        assert_same_without_being_stored(run, axis)


def test_log_softmax_does_not_depend_on_the_layout(rng):
    x = rng.normal(size=(2, 3, 4))
    for layout, lay in LAYOUTS.items():
        (laid,) = read_only([x], lay)
        assert np.allclose(ops.log_softmax(laid), ops.log_softmax(x), rtol=1e-14), layout


def test_the_layouts_are_what_they_say(rng):
    x = rng.normal(size=(2, 3, 4))
    for lay in LAYOUTS.values():
        assert np.array_equal(lay(x), x)
    assert len({lay(x).strides for lay in LAYOUTS.values()}) == 8
    assert broadcast(1)(x).strides[1] == 0
