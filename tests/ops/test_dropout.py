import importlib
from itertools import product

import numpy as np
import pytest
import sympy
from helpers.cases import MASKS, OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given, strategies

from transformer_core.ops import attention, attention_backward, dropout, dropout_backward, softmax
from transformer_core.ops.attention import AttentionCache
from transformer_core.ops.dropout import DropoutCache
from transformer_core.ops.softmax import SoftmaxCache

rates = strategies.floats(0.05, 0.95)


@pytest.mark.equation("eq:dropout-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["dropout"])


@pytest.mark.equation("eq:dropout-backward")
@pytest.mark.parametrize("mask", list(product([0, 1], repeat=2)))
def test_gradient_is_exact(mask):
    x, dy, rate = symbols("x", 2), symbols("d", 2), sympy.Symbol("p")
    mask = np.array(mask)
    dx = dropout_backward(dy, DropoutCache(mask, rate))
    assert_exact((mask * x / (1 - rate) * dy).sum(), [x], [dx])


@pytest.mark.equation("eq:dropout")
@given(generators, rates, sizes, sizes)
def test_an_entry_is_dropped_or_enlarged(rng, rate, rows, columns):
    x = rng.normal(size=(rows, columns))
    y, cache = dropout(x, rate, rng)
    assert np.allclose(y, np.where(cache.mask, x / (1 - rate), 0), rtol=1e-14)


@pytest.mark.equation("eq:dropout")
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_mean_and_variance_over_the_masks(rng, rate):
    x = np.array([3.0, -1.0, 0.5])
    y, cache = dropout(np.tile(x, (200_000, 1)), rate, rng)
    assert np.allclose(cache.mask.mean(axis=0), 1 - rate, atol=0.005)
    assert np.allclose(y.mean(axis=0), x, rtol=0.02)
    assert np.allclose(y.var(axis=0), rate / (1 - rate) * x**2, rtol=0.02)
    assert abs(np.corrcoef(cache.mask.T) - np.eye(3)).max() < 0.01


@pytest.mark.equation("eq:dropout-backward")
@given(generators, rates, sizes, sizes)
def test_with_its_mask_dropout_is_its_own_backward_pass(rng, rate, rows, columns):
    x = rng.normal(size=(rows, columns))
    y, cache = dropout(x, rate, rng)
    assert np.array_equal(dropout_backward(x, cache), y)


@pytest.mark.parametrize("rate, seed", [(0.5, None), (0, 1), (0, None)])
def test_nothing_dropped_is_the_identity(rng, rate, seed):
    x, dy = rng.normal(size=(2, 3, 4))
    generator = None if seed is None else np.random.default_rng(seed)
    y, cache = dropout(x, rate, generator)
    assert y is x
    assert dropout_backward(dy, cache) is dy
    if seed is not None:  # the generator has not moved
        assert generator.random() == np.random.default_rng(seed).random()


@pytest.mark.parametrize("rate", [-0.1, 1, np.nan])
def test_bad_input_is_named(rate):
    for generator in (None, np.random.default_rng(0)):
        with pytest.raises(ValueError, match=rf"rate: expected a number in \[0, 1\), got {rate}"):
            dropout(np.ones(3), rate, generator)


# On the weights of attention


@pytest.mark.equation("eq:attention-backward-dropout")
@pytest.mark.parametrize("mask", MASKS)
def test_gradients_of_attention_agree_with_the_witnesses(check, mask):
    check.op(OPS[f"attention with dropout, {mask}"])


@pytest.mark.slow
@pytest.mark.equation("eq:attention-backward-dropout")
@pytest.mark.parametrize("dropped", [(0, 0), (0, 1)])
def test_gradients_of_attention_are_exact(symbolic, monkeypatch, dropped):
    module = importlib.import_module("transformer_core.ops.attention")
    monkeypatch.setattr(module, "sqrt", sympy.sqrt)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 1)
    doutput, rate = symbols("d", 2, 1), sympy.Symbol("p")
    mask = np.ones((2, 2), int)
    mask[dropped] = 0
    exponentials = np.exp(query @ key.T / sympy.sqrt(2))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    cache = AttentionCache(
        query, key, value, weights, SoftmaxCache(weights), DropoutCache(mask, rate)
    )
    loss = ((mask * weights / (1 - rate)) @ value * doutput).sum()
    assert_exact(loss, [query, key, value], attention_backward(doutput, cache))


@pytest.mark.equation("eq:attention-dropout")
@given(generators, rates, sizes, sizes, sizes, sizes)
def test_attention_drops_weights_after_the_softmax(rng, rate, batch, queries, keys, width):
    query = rng.normal(size=(batch, queries, width))
    key, value = rng.normal(size=(2, batch, keys, width))
    keep = rng.random((batch, queries, keys)) < 0.7
    seed = rng.integers(2**32)
    output, cache = attention(query, key, value, keep, rate, np.random.default_rng(seed))
    weights, _ = softmax(query @ key.swapaxes(-1, -2) / np.sqrt(width), keep)
    dropped, _ = dropout(weights, rate, np.random.default_rng(seed))
    assert np.allclose(cache.weights, weights, rtol=1e-12)
    assert np.allclose(output, dropped @ value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("rate, seed", [(0.5, None), (0, 1)])
def test_attention_without_dropout_is_as_it_was(rng, rate, seed):
    query, key, value, doutput = rng.normal(size=(4, 2, 3, 5))
    generator = None if seed is None else np.random.default_rng(seed)
    output, cache = attention(query, key, value)
    same, same_cache = attention(query, key, value, None, rate, generator)
    assert np.array_equal(same, output)
    gradients = attention_backward(doutput, cache)
    assert all(map(np.array_equal, attention_backward(doutput, same_cache), gradients))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_the_mask_is_drawn_in_float32_as_half_the_random_bits_suffice(dtype):
    _, cache = dropout(np.ones((3, 4), dtype), 0.4, np.random.default_rng(1))
    drawn = np.random.default_rng(1).random((3, 4), np.float32)
    assert np.array_equal(cache.mask, drawn >= 0.4)


def test_of_the_numbers_from_zero_to_one_as_many_are_below_the_rate():
    class Drawn:
        def random(self, shape, dtype):
            return np.array([0, 0.25, 0.5, 0.75], dtype)  # every quarter's first

    assert dropout(np.ones(4), 0.5, Drawn())[1].mask.tolist() == [False, False, True, True]


def test_a_cache_tells_the_rate_where_nothing_is_dropped():
    assert dropout(np.ones(4), 0.4, None)[1] == DropoutCache(None, 0.4)
