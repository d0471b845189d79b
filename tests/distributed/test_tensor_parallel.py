"""Linear layers and heads over ranks: equal to the whole layer; f and g, each other's adjoints."""

import numpy as np
import pytest
from helpers.ranks import adjoint_gap
from helpers.witnesses import assert_close, gradients_of, normal, randomise, scattered

from transformer_core.distributed import (
    ColumnParallel,
    OwnDraws,
    ParallelSelfAttention,
    RowParallel,
    conjugate_pair,
    cuts_of,
    gather,
)
from transformer_core.layers import Linear, MultiHeadSelfAttention
from transformer_core.ranks import Communicator, on_threads

SIZES = [1, 2, 3, 4]
rng_of = np.random.default_rng


@pytest.mark.equation("eq:conjugate-f-g")
@pytest.mark.parametrize("size", SIZES)
def test_g_is_the_adjoint_of_f(rng, size):
    assert adjoint_gap(lambda c: conjugate_pair(c)[0], "copies", "terms", size, rng) < 1e-13
    assert adjoint_gap(lambda c: conjugate_pair(c)[1], "terms", "copies", size, rng) < 1e-13


@pytest.mark.parametrize("size", SIZES)
def test_f_and_g_send_in_one_direction_each_an_all_reduce(size):
    x = np.ones((2, 3, 4))

    def work(c):
        f, g = conjugate_pair(c)
        f.forward(x), g.backward(x)
        nothing = dict(c.sent)
        f.backward(x), g.forward(x)
        return nothing, sum(traffic.bytes for traffic in c.sent.values())

    nothing, sent = zip(*on_threads(size, work), strict=True)
    assert not any(nothing)
    assert sum(sent) == 2 * 2 * (size - 1) * x.nbytes


def linear_of(bias, x, dy):
    """Build a linear layer, and return its output and gradients, too."""
    layer = randomise(Linear(5, 7, rng_of(1), float, bias), rng_of(2))
    y, cache = layer.forward(x)
    return layer, y, gradients_of(layer, dy, cache)


@pytest.mark.equation("eq:column-parallel")
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("size", SIZES)
def test_columns_make_up_the_layer(rng, size, bias):
    x, dy = normal(rng, (2, 3, 5)), normal(rng, (2, 3, 7))
    whole, expected, gradients = linear_of(bias, x, dy)

    def work(c):
        layer = ColumnParallel(whole, conjugate_pair(c)[0], c)
        y, cache = layer.forward(x)
        columns = c.bounds(7)[c.rank]
        dx, grads = layer.backward(dy[..., columns], cache)
        grads = gather(grads, cuts_of(layer), c)
        return c.all_gather(y, axis=-1), {"input 0": dx} | grads

    for y, found in on_threads(size, work):
        np.testing.assert_allclose(y, expected, atol=1e-13)
        assert_close(found, gradients, 1e-13)


@pytest.mark.equation("eq:row-parallel")
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_make_up_the_layer_and_the_bias_is_added_once(rng, size, bias):
    x, dy = normal(rng, (2, 3, 5)), normal(rng, (2, 3, 7))
    whole, expected, gradients = linear_of(bias, x, dy)

    def work(c):
        layer = RowParallel(whole, conjugate_pair(c)[1], c)
        y, cache = layer.forward(x[..., c.bounds(5)[c.rank]])
        dx, grads = layer.backward(dy, cache)
        grads = gather(grads, cuts_of(layer), c)
        return y, {"input 0": c.all_gather(dx, axis=-1)} | grads

    for y, found in on_threads(size, work):
        np.testing.assert_allclose(y, expected, atol=1e-13)
        assert_close(found, gradients, 1e-13)


def cut_attention(whole, c):
    return ParallelSelfAttention(whole, *conjugate_pair(c), c)


@pytest.mark.equation("eq:heads-over-ranks")
@pytest.mark.parametrize("mask", ["none", "of all heads", "of each head", "no batch"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("size", SIZES)
def test_heads_make_up_the_layer(rng, size, dropout, mask):
    whole = MultiHeadSelfAttention(24, 12, rng_of(1), float, dropout)
    randomise(whole, rng)
    x, dy = normal(rng, (2, 2, 5, 24))
    keep = {
        "none": None,
        "of all heads": scattered(rng, 2, 1, 5, 5),
        "of each head": scattered(rng, 2, 12, 5, 5),
        "no batch": scattered(rng, 12, 5, 5),
    }[mask]
    expected, cache = whole.forward(x, keep, rng_of(3))
    gradients = gradients_of(whole, dy, cache)

    def work(c):
        layer = cut_attention(whole, c)
        y, cache = layer.forward(x, keep, rng_of(3))
        dx, grads = layer.backward(dy, cache)
        return y, {"input 0": dx} | gather(grads, cuts_of(layer), c)

    for y, found in on_threads(size, work):
        np.testing.assert_allclose(y, expected, atol=1e-12)
        assert_close(found, gradients, 1e-13)


def test_a_mask_that_is_not_for_all_heads_is_refused(rng):
    whole, x = MultiHeadSelfAttention(24, 12, rng, float), normal(rng, (1, 2, 24))

    def work(c):
        cut_attention(whole, c).forward(x, np.ones((1, 6, 2, 2), bool))

    with pytest.raises(ValueError, match=r"keep: expected .* \(1, 12, 2, 2\), got"):
        on_threads(2, work)


@pytest.mark.parametrize("size", SIZES)
def test_draws_for_pieces_are_the_draws_for_the_whole(size):
    whole = rng_of(3).random((2, 12, 3), np.float32)

    def work(c):
        return OwnDraws(rng_of(3), c).random((2, 12 // c.size, 3), np.float32)

    np.testing.assert_array_equal(np.concatenate(on_threads(size, work), 1), whole)


def test_alone_everything_is_what_it_was(rng):
    whole, x = MultiHeadSelfAttention(24, 12, rng, float), normal(rng, (2, 3, 24))
    layer = cut_attention(whole, Communicator())
    np.testing.assert_array_equal(layer.forward(x)[0], whole.forward(x)[0])
