import importlib
import tracemalloc

import numpy as np
import pytest
import sympy
from helpers.cases import MASKS, OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import along_directions, broadcastable, causal, generators, sizes
from hypothesis import given

from transformer_core.gradient_check import check_gradients, complex_step
from transformer_core.ops import (
    attention,
    attention_backward,
    tiled_attention,
    tiled_attention_backward,
)
from transformer_core.ops.softmax import softmax
from transformer_core.ops.tiled_attention import (
    Partial,
    TiledAttentionCache,
    Tiling,
    finish,
    merge,
    tiles,
)

module = importlib.import_module("transformer_core.ops.tiled_attention")


def draw(rng, sharing=1, queries=5, keys=7):
    """Draw query, key, value and a cotangent of the output."""
    shapes = (2 * sharing, queries, 3), (2, keys, 3), (2, keys, 4), (2 * sharing, queries, 4)
    return [rng.normal(size=(2, *shape)) for shape in shapes]


@pytest.mark.equation("eq:tiled-attention-backward")
@pytest.mark.parametrize("mask", MASKS)
def test_gradients_agree_with_the_witnesses(check, mask):
    check.op(OPS[f"tiled_attention, {mask}"])


@pytest.mark.slow
@pytest.mark.equation("eq:tiled-attention-backward")
def test_gradients_are_exact(symbolic, monkeypatch):
    """With the cotangent of the log-sum-exp."""
    monkeypatch.setattr(module, "sqrt", sympy.sqrt)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 1)
    doutput, dlog_sum_exp = symbols("d", 2, 1), symbols("e", 2)
    exponentials = np.exp(query @ key.T / sympy.sqrt(2))
    total = exponentials.sum(axis=-1)
    output = exponentials @ value / total[:, np.newaxis]
    log_sum_exp = np.array([sympy.log(entry) for entry in total])
    tiling = Tiling(query[np.newaxis], key[np.newaxis], value[np.newaxis], None, 0, None, 1)
    gradients = tiled_attention_backward(
        doutput, TiledAttentionCache(tiling, output, log_sum_exp), dlog_sum_exp
    )
    loss = (output * doutput).sum() + (log_sum_exp * dlog_sum_exp).sum()
    assert_exact(loss, [query, key, value], gradients)


@pytest.mark.equation("eq:online-softmax")
@pytest.mark.equation("eq:tiled-attention-backward")
@given(generators, sizes, sizes, sizes, sizes)
def test_tiles_give_what_plain_attention_gives(rng, tile, sharing, queries, keys):
    query, key, value, doutput = draw(rng, sharing, queries, keys)
    keep = broadcastable(rng, 2, 2 * sharing, queries, keys)  # some rows are empty
    expected, plain = attention(query, key, value, keep)
    output, cache = tiled_attention(query, key, value, keep, tile=tile)
    assert output.shape == expected.shape
    assert np.allclose(output, expected, rtol=1e-12, atol=1e-13)
    for found, right in zip(
        tiled_attention_backward(doutput, cache), attention_backward(doutput, plain), strict=True
    ):
        assert found.shape == right.shape
        assert np.allclose(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.equation("eq:attention-log-sum-exp")
@pytest.mark.parametrize("tile", [1, 2, 3, 99])
def test_the_log_sum_exp_is_that_of_the_whole_row(rng, tile):
    query, key, value, _ = draw(rng)
    keep = rng.random((2, 1, 5, 7)) < 0.6
    keep[1, 0, 2] = False
    query *= 30  # maxima of tiles that lie far apart
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(3)
    with np.errstate(divide="ignore"):
        expected = np.logaddexp.reduce(np.where(keep, scores, -np.inf), axis=-1)
    _, cache = tiled_attention(query, key, value, keep, tile=tile)
    assert np.allclose(cache.log_sum_exp, expected, rtol=1e-13)
    assert (cache.log_sum_exp[1, :, 2] == -np.inf).all()


def of_keys(scores, value):
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - top)
    return Partial(top, weights.sum(axis=-1, keepdims=True), weights @ value)


@pytest.mark.equation("eq:online-softmax")
@given(generators, sizes, sizes, sizes)
def test_the_order_and_the_nesting_of_merges_do_not_matter(rng, first, second, third):
    counts = (first, second, third)
    scores, values = (
        [rng.normal(scale=30, size=(4, n)) for n in counts],
        [rng.normal(size=(n, 3)) for n in counts],
    )
    a, b, c = map(of_keys, scores, values)
    expected = softmax(np.concatenate(scores, axis=-1))[0] @ np.concatenate(values)
    for merged in (merge(merge(a, b), c), merge(a, merge(b, c)), merge(merge(c, a), b)):
        assert np.allclose(finish(merged)[0], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("infinite", [False, True])
def test_merging_with_nothing_changes_nothing(rng, infinite):
    part = of_keys(rng.normal(size=(4, 3)), rng.normal(size=(3, 2)))
    nothing = Partial(np.full((4, 1), -np.inf), np.zeros((4, 1)), np.zeros((4, 2)))
    with np.errstate(all="raise"):
        for merged in (merge(part, nothing), merge(nothing, part)):
            assert all(map(np.array_equal, merged, part))
        assert all(map(np.array_equal, merge(nothing, nothing), nothing))
        output, _ = finish(nothing)
    assert not output.any()


def test_a_query_without_keys_gets_zeros(rng):
    query, key, value, doutput = draw(rng)
    keep = rng.random((2, 1, 5, 7)) < 0.6
    keep[:, :, 3] = False
    with np.errstate(all="raise"):
        output, cache = tiled_attention(query, key, value, keep, tile=2)
        gradients = tiled_attention_backward(doutput, cache)
    assert not output[:, :, 3].any() and not gradients[0][:, :, 3].any()
    doutput[:, :, 3] += 9  # and passes nothing on
    again = tiled_attention_backward(doutput, cache)
    assert all(map(np.array_equal, again, gradients))


def visited(length, keep, tile):
    _, cache = tiled_attention(*np.ones((3, length, 2)), keep, tile=tile)
    return [(rows.start, columns.start) for rows, columns, _, _ in tiles(cache.tiling)]


def test_tiles_of_the_future_are_left_out():
    assert visited(6, causal(6), 2) == [(0, 0), (2, 0), (2, 2), (4, 0), (4, 2), (4, 4)]
    assert len(visited(6, None, 2)) == 9
    assert visited(6, np.tri(6, k=-5, dtype=bool), 2) == [(4, 0)]
    assert visited(5, np.zeros((5, 5), bool), 2) == []


# Dropout


def dropped(tiling, shape):
    """The mask of all tiles together, as each draws it."""
    mask = np.zeros(shape, bool)
    for rows, columns, scores, rng in tiles(tiling):
        mask[..., rows, columns] = rng.random(scores.shape, np.float32) >= tiling.rate
    return mask


@pytest.mark.equation("eq:attention-dropout")
@pytest.mark.equation("eq:tiled-attention-dropout")
def test_what_is_dropped_is_drawn_again(rng):
    query, key, value, doutput = draw(rng)
    keep = rng.random((2, 2, 5, 7)) < 0.7
    output, cache = tiled_attention(query, key, value, keep, 0.3, np.random.default_rng(1), 3)
    mask = dropped(cache.tiling, (2, 2, 1, 5, 7))[:, :, 0]
    assert 0.5 < mask.mean() < 0.9
    _, plain = attention(query, key, value, keep)
    plain = plain._replace(dropout=plain.dropout._replace(mask=mask, rate=0.3))
    weights = plain.weights * mask / 0.7
    assert np.allclose(output, weights @ value, rtol=1e-12, atol=1e-14)
    for _ in range(2):
        gradients = tiled_attention_backward(doutput, cache)
        for found, right in zip(gradients, attention_backward(doutput, plain), strict=True):
            assert np.allclose(found, right, rtol=1e-12, atol=1e-13)
    coupling = (doutput * output).sum(axis=-1)  # D, which holds under dropout as well
    dweights = (doutput @ value.swapaxes(-1, -2)) * mask / 0.7
    assert np.allclose(coupling, (plain.weights * dweights).sum(axis=-1), rtol=1e-12, atol=1e-14)


def test_tiles_and_calls_drop_other_entries(rng):
    query, key, value, _ = draw(rng, queries=6, keys=6)
    generator = np.random.default_rng(1)
    masks = []
    for _ in range(2):
        _, cache = tiled_attention(query, key, value, None, 0.5, generator, 3)
        mask = dropped(cache.tiling, (2, 2, 1, 6, 6))
        masks += np.split(mask[..., :3, :], 2, axis=-1) + np.split(mask[..., 3:, :], 2, axis=-1)
    for i, mask in enumerate(masks):
        assert not any(np.array_equal(mask, other) for other in masks[:i])


def test_without_a_generator_nothing_is_dropped(rng):
    query, key, value, _ = draw(rng)
    expected, _ = tiled_attention(query, key, value)
    assert np.array_equal(tiled_attention(query, key, value, None, 0.9)[0], expected)
    generator = np.random.default_rng(1)
    assert np.array_equal(tiled_attention(query, key, value, None, 0, generator)[0], expected)


# The log-sum-exp as an output


@pytest.mark.equation("eq:log-sum-exp-cotangent")
@pytest.mark.parametrize("rate", [0, 0.3])
def test_a_loss_may_depend_on_the_log_sum_exp(rng, rate):
    query, key, value, doutput = draw(rng, 3)
    arrays = {
        name: array.astype(complex)
        for name, array in {"query": query, "key": key, "value": value}.items()
    }
    dlog_sum_exp = rng.normal(size=doutput.shape[:-1])
    keep = rng.random((5, 7)) < 0.7
    keep[:, 2] = True

    def forward():
        return tiled_attention(**arrays, keep=keep, rate=rate, rng=np.random.default_rng(1), tile=3)

    def loss():
        output, cache = forward()
        return (doutput * output).sum() + (dlog_sum_exp * cache.log_sum_exp).sum()

    _, cache = forward()
    gradients = tiled_attention_backward(doutput, cache, dlog_sum_exp)
    gradients = dict(zip(arrays, gradients, strict=True))
    problem = along_directions(loss, arrays, gradients, rng)
    for error in check_gradients(*problem, complex_step).values():
        assert error.norm < 1e-12
    without = tiled_attention_backward(doutput, cache)
    assert np.array_equal(without[2], gradients["value"])
    assert not np.allclose(without[0], gradients["query"])


# Memory


def peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.equation("eq:tiled-attention-bytes")
def test_memory_does_not_grow_with_the_square(rng):
    width, tile, size = 16, 64, 8

    def taken(length, forward, backward, **settings):
        query, key, value, doutput = rng.normal(size=(4, 1, length, width))

        def step():
            _, cache = forward(query, key, value, **settings)
            backward(doutput, cache)

        return peak(step)

    for length in (512, 1024):
        tiled = taken(length, tiled_attention, tiled_attention_backward, tile=tile)
        plain = taken(length, attention, attention_backward)
        assert 0.98 < plain / (size * length * (3 * length + 4 * width)) < 1.02
        formula = size * (length * (4 * width + 3) + 3 * tile * tile + tile * width)
        assert 0.98 < tiled / formula < 1.1
        assert tiled < plain / 10


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"query": np.ones(3)}, r"query: expected shape \(\.\.\., T, d_k\), got \(3,\)"),
        ({"key": np.ones((2, 5, 4))}, r"key: .* \(2, S, 3\), got \(2, 5, 4\)"),
        ({"value": np.ones((2, 4, 6))}, r"value: .* \(2, 5, d_v\), got \(2, 4, 6\)"),
        ({"keep": np.ones((4, 5))}, "keep: expected booleans, .* got float64"),
        ({"tile": 0}, "tile: expected a whole number of at least 1, got 0"),
        ({"rate": 1.0}, r"rate: expected a number in \[0, 1\), got 1.0"),
        ({"rate": 0.1, "rng": 3}, "rng: expected a generator"),
    ],
)
def test_bad_input_is_named(changed, message):
    query, key, value = np.ones((2, 4, 3)), np.ones((2, 5, 3)), np.ones((2, 5, 6))
    with pytest.raises(ValueError, match=message):
        tiled_attention(**({"query": query, "key": key, "value": value} | changed))


def test_a_cotangent_of_another_shape_than_the_log_sum_exp_is_named(rng):
    query, key, value, doutput = draw(rng)
    _, cache = tiled_attention(query, key, value)
    with pytest.raises(ValueError, match=r"dlog_sum_exp: expected shape \(2, 2, 5\)"):
        tiled_attention_backward(doutput, cache, doutput)
