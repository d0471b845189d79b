"""What every op and every layer promises."""

import re
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from helpers.cases import LAYERS, OPS, STACKS
from helpers.witnesses import (
    arrays_in,
    assert_close,
    assert_every_parameter_moves,
    assert_same_bits,
    gradients_of,
    normal,
)

from transformer_core import ops
from transformer_core.layers import LayerSpec
from transformer_core.layers.feed_forward import ACTIVATIONS
from transformer_core.models import Bert, EncoderDecoder, Gpt, StackSpec
from transformer_practice.engine.planting import set_everywhere

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
EVERY_LAYER = LAYERS | STACKS
IDS, LENGTHS = np.array([[3, 1, 3], [0, 2, 1]]), np.array([3, 2])

every_op = pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())
every_layer = pytest.mark.parametrize("case", EVERY_LAYER.values(), ids=EVERY_LAYER.keys())


def assert_dtype(dtype, y, cache, gradients):
    """Every number is of the dtype; a cache may also hold boolean masks and integer ids."""
    assert y.dtype == dtype
    assert {array.dtype for array in arrays_in(cache) if array.dtype.kind not in "biu"} <= {
        np.dtype(dtype)
    }
    assert {gradient.dtype for gradient in gradients} == {np.dtype(dtype)}


def run_op(rng, op, dtype=np.float64):
    arrays = op.draw(rng, dtype)
    return arrays, *op.forward(*arrays.values(), **op.settings)


def run_layer(rng, case, dtype=np.float64):
    layer, *inputs = case.draw(rng, dtype)
    return layer, inputs, *layer.forward(*inputs, *case.context)


@every_op
def test_ops_keep_the_dtype(rng, op):
    for dtype in DTYPES:
        _, y, cache = run_op(rng, op, dtype)
        dy = normal(rng, np.shape(y), dtype)
        assert_dtype(dtype, y, cache, op.gradients(dy, cache).values())


@every_layer
def test_layers_keep_the_dtype(rng, case):
    for dtype in DTYPES:
        layer, _, y, cache = run_layer(rng, case, dtype)
        assert {array.dtype for array in layer.parameters().values()} == {np.dtype(dtype)}
        *dinputs, grads = layer.backward(normal(rng, y.shape, dtype), cache)
        assert_dtype(dtype, y, cache, [*dinputs, *grads.values()])


@every_op
def test_gradients_of_ops_have_the_shapes_of_their_arrays(rng, op):
    _, y, cache = run_op(rng, op)
    gradients = op.gradients(normal(rng, np.shape(y)), cache)
    shapes = {name: gradient.shape for name, gradient in gradients.items()}
    assert shapes == op.shapes


@every_layer
def test_every_parameter_moves_in_one_step(rng, case):
    layer, inputs, y, cache = run_layer(rng, case)
    *dinputs, grads = layer.backward(normal(rng, y.shape), cache)
    assert [dx.shape for dx in dinputs] == [x.shape for x in inputs]
    assert_every_parameter_moves(layer.parameters(), grads)


@every_layer
def test_parameters_are_the_arrays_themselves(rng, case):
    layer, inputs, y, _ = run_layer(rng, case)
    again = layer.parameters()
    for name, array in layer.parameters().items():
        assert again[name] is array
        before = array.copy()
        array[...] += rng.normal(size=array.shape)
        assert not np.array_equal(layer.forward(*inputs, *case.context)[0], y), name
        array[...] = before


@every_layer
def test_a_second_call_leaves_the_first_cache_alone(rng, case):
    layer, inputs, y, cache = run_layer(rng, case)
    dy = normal(rng, y.shape)
    *dinputs, grads = layer.backward(dy, cache)

    y, cache = layer.forward(*inputs, *case.context)
    layer.forward(*(normal(rng, x.shape) for x in inputs), *case.context)
    for _ in range(2):
        *dinputs_again, grads_again = layer.backward(dy, cache)
        assert all(map(np.array_equal, dinputs_again, dinputs))
        assert all(np.array_equal(grads_again[name], grads[name]) for name in grads)


class Sealed:
    """A cache into which nobody looks but the op that has made it."""

    def __init__(self, cache):
        self.cache = cache


def sealing(forward):
    def run(*arguments, **options):
        y, cache = forward(*arguments, **options)
        return y, Sealed(cache)

    return run


def opening(backward):
    return lambda dy, cache: backward(dy, cache.cache)


@contextmanager
def sealed_caches():
    """Let every op seal its cache."""
    new = {}
    for name in ops.__all__:
        if f"{name}_backward" in ops.__all__:
            new[name] = sealing(vars(ops)[name])
            new[f"{name}_backward"] = opening(vars(ops)[f"{name}_backward"])
    old, activations = {name: vars(ops)[name] for name in new}, dict(ACTIVATIONS)
    for name in activations:
        ACTIVATIONS[name] = new[name], new[f"{name}_backward"]
    set_everywhere([(ops, name, function) for name, function in new.items()])
    try:
        yield
    finally:
        set_everywhere([(ops, name, function) for name, function in old.items()])
        ACTIVATIONS.update(activations)


@every_layer
def test_caches_are_handed_on_and_not_looked_into(case):
    def run():
        rng = np.random.default_rng(4)
        layer, _, y, cache = run_layer(rng, case)
        return {"y": y} | gradients_of(layer, normal(rng, y.shape), cache)

    expected = run()
    with sealed_caches():
        assert_same_bits(run(), expected)


PRE_LN = LayerSpec(6, 2, 7, "pre", dropout=0.3, dtype=np.float64)
STACK = StackSpec(5, 4, 2)
MODELS = {
    "Bert": (
        lambda rng: Bert(replace(PRE_LN, placement="post"), STACK, rng, tied=True, segments=2),
        {"ids": IDS, "targets": IDS, "masked": IDS > 1, "segment_ids": IDS % 2},
    ),
    "EncoderDecoder": (
        lambda rng: EncoderDecoder(PRE_LN, STACK, STACK, rng),
        {"source": IDS, "source_lengths": LENGTHS, "target": IDS, "target_lengths": LENGTHS},
    ),
    "Gpt": (lambda rng: Gpt(PRE_LN, STACK, rng), {"ids": IDS, "targets": IDS}),
}


@pytest.mark.parametrize("build, batch", MODELS.values(), ids=MODELS)
def test_models_hand_caches_on(build, batch):
    def run():
        rng = np.random.default_rng(4)
        return build(rng).loss_and_gradients(**batch, rng=rng)

    loss, grads = run()
    with sealed_caches():
        loss_again, grads_again = run()
    assert loss_again == loss
    assert_same_bits(grads_again, grads)


@every_op
def test_ops_do_not_modify_what_they_are_given(rng, op):
    arrays = op.draw(rng, np.float64)
    copies = {name: array.copy() for name, array in arrays.items()}
    y, cache = op.forward(*arrays.values(), **op.settings)
    cached = [array.copy() for array in arrays_in(cache)]
    dy = normal(rng, np.shape(y))
    dy_copy = dy.copy()
    op.gradients(dy, cache)
    assert np.array_equal(dy, dy_copy)
    assert all(np.array_equal(arrays[name], copies[name]) for name in arrays)
    assert all(map(np.array_equal, arrays_in(cache), cached))


@every_op
def test_any_one_array_may_be_complex_and_the_others_not(rng, op):
    arrays, y, cache = run_op(rng, op)
    arrays["dy"] = normal(rng, np.shape(y))
    expected = {"y": y} | op.gradients(arrays["dy"], cache)
    for name in arrays:
        *others, dy = (arrays | {name: arrays[name] + 0j}).values()
        y, cache = op.forward(*others, **op.settings)
        assert_close({"y": y} | op.gradients(dy, cache), expected, 1e-12)


@every_op
def test_finite_numbers_give_finite_numbers(rng, op):
    """Where an exponential of the input itself would overflow: e^1e4 is out of either range."""
    for size, dtype in product((0.0, 1e4), (np.float32, np.float64)):
        arrays = {name: (size * array).astype(dtype) for name, array in op.draw(rng, dtype).items()}
        y, cache = op.forward(*arrays.values(), **op.settings)
        gradients = op.gradients(normal(rng, np.shape(y), dtype), cache)
        for name, array in ({"y": np.asarray(y)} | gradients).items():
            assert np.isfinite(array).all(), (name, size, dtype)


@pytest.mark.parametrize(
    "name, function, others",
    [
        ("gelu", "erf", ()),
        ("gelu_tanh", "tanh", ()),
        ("silu", "tanh", ()),
        ("soft_cap", "tanh", (1.0,)),
        ("softmax", "exp", ()),
        ("log_softmax", "exp", ()),
        ("l2_normalize", "sqrt", ()),
        ("layer_norm", "sqrt", (np.ones(2), np.ones(2))),
        ("rms_norm", "sqrt", (np.ones(2),)),
    ],
)
def test_exact_numbers_without_such_a_function_are_named(name, function, others):
    with pytest.raises(ValueError, match=f"^x: expected numbers with {function}, .* got object"):
        getattr(ops, name)(np.array([[Fraction(1, 2), Fraction(1)]]), *others)


@every_op
def test_a_cotangent_of_another_shape_than_the_output_is_named(rng, op):
    _, y, cache = run_op(rng, op)
    if np.ndim(y):
        expected = re.escape(f"expected shape {np.shape(y)}, got (99,)")
        with pytest.raises(ValueError, match=rf"d[a-z]+: {expected}"):
            op.gradients(np.ones(99), cache)


@every_op
def test_what_is_no_array_and_an_array_without_elements_are_named(rng, op):
    arrays = op.draw(rng, np.float64)
    for name in arrays:
        for wrong, message in (([1.0], "a NumPy array, got list"), (np.ones(0), "at least one")):
            with pytest.raises(ValueError, match=f"{name}: expected {message}"):
                op.forward(*(arrays | {name: wrong}).values(), **op.settings)


@every_op
def test_whole_numbers_are_named(rng, op):
    arrays, y, cache = run_op(rng, op)
    if np.ndim(y):
        with pytest.raises(ValueError, match="d[a-z]+: expected floating.*, got int16"):
            op.gradients(np.ones(y.shape, np.int16), cache)
    for name in arrays:
        whole = arrays | {name: np.ones(arrays[name].shape, np.int16)}
        with pytest.raises(ValueError, match=f"{name}: expected floating.*, got int16"):
            op.forward(*whole.values(), **op.settings)


@every_layer
def test_layers_do_not_modify_what_they_are_given(rng, case):
    layer, *inputs = case.draw(rng, np.float64)
    arrays = [*inputs, *case.context, *layer.parameters().values()]
    copies = [array.copy() for array in arrays]
    y, cache = layer.forward(*inputs, *case.context)
    dy = normal(rng, y.shape)
    dy_copy = dy.copy()
    layer.backward(dy, cache)
    assert np.array_equal(dy, dy_copy)
    assert all(map(np.array_equal, arrays, copies))


@every_layer
def test_a_cotangent_of_another_shape_is_named(rng, case):
    layer, _, _, cache = run_layer(rng, case)
    with pytest.raises(ValueError, match=r"d\w+: expected shape \(.*\), got \(2, 5, 99\)"):
        layer.backward(normal(rng, (2, 5, 99)), cache)


@every_layer
def test_a_bad_input_is_named(rng, case):
    layer, _, *others = case.draw(rng, np.float64)
    for x, message in (
        (np.ones((2, 5, 99)), r"expected shape \(.*\), got"),
        (np.ones((0, 5, 6)), r"[xh]: expected at least one element, got shape \(0, 5, 6\)"),
        ([[1.0]], "[xh]: expected a NumPy array, got list"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.forward(x, *others, *case.context)
