import importlib

import numpy as np
import pytest
import sympy
from helpers.cases import MASKS, OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import broadcastable, causal, generators, sizes
from hypothesis import given

from transformer_core.ops import attention, attention_backward, softmax_backward
from transformer_core.ops.attention import AttentionCache
from transformer_core.ops.softmax import SoftmaxCache

module = importlib.import_module("transformer_core.ops.attention")


def draw(rng, batch, heads, queries, keys, width):
    """Draw query, key, value and a cotangent of the output."""
    value_width = width + 1
    shapes = ((queries, width), (keys, width), (keys, value_width), (queries, value_width))
    return [rng.normal(size=(batch, heads, *shape)) for shape in shapes]


def assert_all_close(found, expected, **tolerances):
    for array, right in zip(found, expected, strict=True):
        assert np.allclose(array, right, **tolerances)


@pytest.mark.equation("eq:attention-backward")
@pytest.mark.parametrize("mask", MASKS)
def test_gradients_agree_with_the_witnesses(check, mask):
    check.op(OPS[f"attention, {mask}"])


@pytest.mark.slow
@pytest.mark.equation("eq:attention-backward")
def test_gradients_are_exact(symbolic, monkeypatch):
    monkeypatch.setattr(module, "sqrt", sympy.sqrt)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 1)
    doutput = symbols("d", 2, 1)
    exponentials = np.exp(query @ key.T / sympy.sqrt(2))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    cache = AttentionCache(query, key, value, weights, SoftmaxCache(weights))
    gradients = attention_backward(doutput, cache)
    loss = (weights @ value * doutput).sum()
    assert_exact(loss, [query, key, value], gradients)


@pytest.mark.equation("eq:attention-backward-scores")
def test_the_step_through_the_softmax_is_exact(symbolic):
    scores, dweights = symbols("s", 2, 2), symbols("d", 2, 2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    dscores = softmax_backward(dweights, SoftmaxCache(weights))
    assert_exact((weights * dweights).sum(), [scores], [dscores])


@pytest.mark.equation("eq:attention-backward-value")
@pytest.mark.equation("eq:attention-backward-weights")
@pytest.mark.equation("eq:attention-backward-query")
@pytest.mark.equation("eq:attention-backward-key")
def test_the_steps_before_and_after_the_softmax_are_exact(symbolic, monkeypatch):
    monkeypatch.setattr(module, "sqrt", sympy.sqrt)
    query, key, value = symbols("q", 2, 2), symbols("k", 3, 2), symbols("v", 3, 2)
    weights, doutput = symbols("a", 2, 3), symbols("d", 2, 2)
    dquery, dkey, dvalue = attention_backward(
        doutput, AttentionCache(query, key, value, weights, SoftmaxCache(weights))
    )
    loss = (weights @ value * doutput).sum()
    assert_exact(loss, [value], [dvalue])
    dweights = np.vectorize(lambda weight: sympy.diff(loss, weight))(weights)
    dscores = softmax_backward(dweights, SoftmaxCache(weights))
    loss = (query @ key.T / sympy.sqrt(2) * dscores).sum()
    assert_exact(loss, [query, key], [dquery, dkey])


@pytest.mark.equation("eq:attention")
@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_each_output_is_an_average_of_the_values(rng, batch, heads, queries, keys, width):
    query, key, value, _ = draw(rng, batch, heads, queries, keys, width)
    output, cache = attention(query, key, value)
    for at in np.ndindex(batch, heads, queries):
        scores = [query[at] @ k / width**0.5 for k in key[at[:2]]]
        weights = np.exp(scores) / np.exp(scores).sum()
        assert np.allclose(cache.weights[at], weights, rtol=1e-12)
        assert np.allclose(output[at], weights @ value[at[:2]], rtol=1e-12, atol=1e-14)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_the_order_of_the_keys_does_not_matter(rng, batch, heads, queries, keys, width):
    query, key, value, doutput = draw(rng, batch, heads, queries, keys, width)
    keep = rng.random((batch, 1, queries, keys)) < 0.7
    order = rng.permutation(keys)
    output, cache = attention(query, key, value, keep)
    permuted, permuted_cache = attention(
        query, key[:, :, order], value[:, :, order], keep[..., order]
    )
    dquery, dkey, dvalue = attention_backward(doutput, cache)
    gradients = attention_backward(doutput, permuted_cache)
    assert np.allclose(permuted, output, atol=1e-13)
    assert_all_close(gradients, (dquery, dkey[:, :, order], dvalue[:, :, order]), atol=1e-13)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_the_outputs_follow_the_order_of_the_queries(rng, batch, heads, queries, keys, width):
    query, key, value, doutput = draw(rng, batch, heads, queries, keys, width)
    keep = rng.random((batch, 1, queries, keys)) < 0.7
    order = rng.permutation(queries)
    output, cache = attention(query, key, value, keep)
    permuted, permuted_cache = attention(query[:, :, order], key, value, keep[:, :, order])
    dquery, dkey, dvalue = attention_backward(doutput, cache)
    gradients = attention_backward(doutput[:, :, order], permuted_cache)
    assert np.allclose(permuted, output[:, :, order], atol=1e-13)
    assert_all_close(gradients, (dquery[:, :, order], dkey, dvalue), atol=1e-13)


@given(generators, sizes, sizes, sizes, sizes)
def test_a_causal_output_does_not_see_the_future(rng, batch, heads, length, width):
    query, key, value, doutput = draw(rng, batch, heads, length, length, width)
    output, cache = attention(query, key, value, causal(length))
    now = rng.integers(length)
    doutput[:, :, now + 1 :] = 0
    for gradient in attention_backward(doutput, cache):
        assert (gradient[:, :, now + 1 :] == 0).all()
    key[:, :, now + 1 :] += 1
    value[:, :, now + 1 :] -= 1
    changed, _ = attention(query, key, value, causal(length))
    assert np.array_equal(changed[:, :, : now + 1], output[:, :, : now + 1])


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_a_masked_key_is_not_read_and_gets_no_gradient(rng, batch, heads, queries, keys, width):
    query, key, value, doutput = draw(rng, batch, heads, queries, keys, width)
    keep = rng.random((batch, 1, 1, keys)) < 0.5
    output, cache = attention(query, key, value, keep)
    gradients = attention_backward(doutput, cache)
    masked = np.broadcast_to(~keep[:, :, 0], (batch, heads, keys))
    assert not any(gradient[masked].any() for gradient in gradients[1:])
    other_key, other_value = key.copy(), value.copy()
    other_key[masked] += 9
    other_value[masked] -= 9
    other, other_cache = attention(query, other_key, other_value, keep)
    assert np.array_equal(other, output)
    assert all(map(np.array_equal, attention_backward(doutput, other_cache), gradients))


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_a_mask_holds_along_the_axes_that_it_has_not(rng, batch, heads, queries, keys, width):
    query, key, value, _ = draw(rng, batch, heads, queries, keys, width)
    keep = broadcastable(rng, batch, heads, queries, keys)
    full = np.broadcast_to(keep, (batch, heads, queries, keys))
    output, cache = attention(query, key, value, keep)
    assert np.array_equal(cache.weights > 0, full)
    assert np.array_equal(output, attention(query, key, value, full)[0])


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_a_query_without_keys_gets_zeros(rng, batch, heads, queries, keys, width):
    query, key, value, doutput = draw(rng, batch, heads, queries, keys, width)
    keep = rng.random((batch, 1, queries, keys)) < 0.7
    keep[:, :, rng.integers(queries)] = False
    empty = np.broadcast_to(~keep.any(axis=-1), (batch, heads, queries))
    with np.errstate(all="raise"):
        output, cache = attention(query, key, value, keep)
        gradients = attention_backward(doutput, cache)
    assert not any(array[empty].any() for array in (cache.weights, output, gradients[0]))
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    doutput[empty] += 9  # and passes nothing on
    assert all(map(np.array_equal, attention_backward(doutput, cache), gradients))


@pytest.mark.equation("eq:attention-query-covariance")
@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_the_gradient_of_a_query_is_a_covariance(rng, batch, heads, queries, keys, width):
    query, key, value, doutput = draw(rng, batch, heads, queries, keys, width)
    keep = broadcastable(rng, batch, heads, queries, keys)  # some rows are empty
    _, cache = attention(query, key, value, keep)
    dquery, _, _ = attention_backward(doutput, cache)
    for at in np.ndindex(batch, heads, queries):
        weights, keys_of_head = cache.weights[at], key[at[:2]]
        prices = value[at[:2]] @ doutput[at]
        off_mean = prices - weights @ prices, keys_of_head - weights @ keys_of_head
        covariance = weights * off_mean[0] @ off_mean[1]
        assert np.allclose(dquery[at], covariance / width**0.5, rtol=1e-12, atol=1e-13)


def test_leading_axes_are_free(rng):
    query, key, value, doutput = draw(rng, 2, 3, 4, 5, 2)
    output, cache = attention(query, key, value)
    alone, alone_cache = attention(query[1, 2], key[1, 2], value[1, 2])
    assert np.allclose(output[1, 2], alone, rtol=1e-12)
    gradients = [gradient[1, 2] for gradient in attention_backward(doutput, cache)]
    assert_all_close(gradients, attention_backward(doutput[1, 2], alone_cache), atol=1e-14)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"query": np.ones(3)}, r"query: expected shape \(\.\.\., T, d_k\), got \(3,\)"),
        ({"key": np.ones((2, 5, 4))}, r"key: .* \(2, S, 3\), got \(2, 5, 4\)"),
        ({"value": np.ones((2, 4, 6))}, r"value: .* \(2, 5, d_v\), got \(2, 4, 6\)"),
        ({"keep": np.ones((4, 5))}, "keep: expected booleans, .* got float64"),
        ({"keep": np.ones((5, 4), bool)}, r"broadcasts to \(2, 4, 5\), got \(5, 4\)"),
    ],
)
def test_bad_input_is_named(changed, message):
    query, key, value = np.ones((2, 4, 3)), np.ones((2, 5, 3)), np.ones((2, 5, 6))
    with pytest.raises(ValueError, match=message):
        attention(**({"query": query, "key": key, "value": value} | changed))


@pytest.mark.equation("eq:grouped-attention-backward")
def test_gradients_of_shared_keys_agree_with_the_witnesses(check):
    check.op(OPS["grouped_attention"])


@pytest.mark.equation("eq:grouped-attention")
@pytest.mark.equation("eq:grouped-attention-backward")
def test_shared_keys_are_as_if_they_were_copied(rng):
    query, doutput = rng.normal(size=(2, 6, 4, 5)), rng.normal(size=(2, 6, 4, 7))
    key, value = rng.normal(size=(2, 2, 3, 5)), rng.normal(size=(2, 2, 3, 7))
    keep = rng.random((2, 6, 4, 3)) < 0.7
    copies = [np.repeat(array, 3, axis=1) for array in (key, value)]
    draws = [np.random.default_rng(1) for _ in range(2)]
    y, cache = attention(query, key, value, keep, 0.3, draws[0])
    expected, of_copies = attention(query, *copies, keep, 0.3, draws[1])
    assert np.array_equal(y, expected) and np.array_equal(cache.weights, of_copies.weights)
    assert cache.key is key
    stacked = cache.softmax.weights, cache.dropout.mask
    for found, array in zip(stacked, (of_copies.weights, of_copies.dropout.mask), strict=True):
        assert found.shape == (2, 2, 12, 3) and np.array_equal(found.ravel(), array.ravel())
    dquery, *shared = attention_backward(doutput, cache)
    dquery_expected, *copied = attention_backward(doutput, of_copies)
    assert np.allclose(dquery, dquery_expected, rtol=1e-13, atol=1e-14)
    summed = [array.reshape(2, 2, 3, *array.shape[2:]).sum(axis=2) for array in copied]
    assert_all_close(shared, summed, rtol=1e-12, atol=1e-13)
    deep = [array[np.newaxis] for array in (query, key, value, keep)]  # one more leading axis
    again, of_deep = attention(*deep, 0.3, np.random.default_rng(1))
    gradients = attention_backward(doutput[np.newaxis], of_deep)
    assert all(map(np.array_equal, (again, *gradients), ([y], [dquery], *([a] for a in shared))))


@given(generators, sizes, sizes)
def test_heads_that_share_are_one_head_with_their_queries_in_a_row(rng, queries, keys):
    query = rng.normal(size=(1, 3, queries, 4))
    key, value = rng.normal(size=(1, 1, keys, 4)), rng.normal(size=(1, 1, keys, 2))
    y, _ = attention(query, key, value)
    stacked, _ = attention(query.reshape(1, 1, -1, 4), key, value)
    assert np.array_equal(y.reshape(stacked.shape), stacked)


def test_neighbours_share_and_do_not_take_turns(rng):
    query, key, value = (rng.normal(size=(1, heads, 3, 4)) for heads in (4, 2, 2))
    y, _ = attention(query, key, value)
    for head in range(4):
        alone, _ = attention(query[:, head], key[:, head // 2], value[:, head // 2])
        assert np.allclose(y[:, head], alone, atol=1e-15)


@pytest.mark.equation("eq:grouped-gauge")
@given(generators, sizes, sizes)
def test_queries_and_keys_of_a_group_obey_one_law(rng, queries, keys):
    query, doutput = rng.normal(size=(2, 6, queries, 4)), rng.normal(size=(2, 6, queries, 3))
    key, value = rng.normal(size=(2, 2, keys, 4)), rng.normal(size=(2, 2, keys, 3))
    keep = rng.random((2, 6, queries, keys)) < 0.7
    _, cache = attention(query, key, value, keep)
    dquery, dkey, _ = attention_backward(doutput, cache)
    of_heads = query.swapaxes(-1, -2) @ dquery
    of_groups = of_heads.reshape(2, 2, 3, 4, 4).sum(axis=2)
    assert np.allclose(of_groups, dkey.swapaxes(-1, -2) @ key, atol=1e-12)
