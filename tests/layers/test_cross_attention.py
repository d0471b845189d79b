import importlib

import numpy as np
import pytest
import sympy
from helpers.cases import LAYERS, SOURCE_KEEP
from helpers.exact import assert_exact, symbols
from helpers.witnesses import (
    assert_close,
    broadcastable,
    generators,
    gradients_of,
    named,
    padding,
    randomise,
    sizes,
)
from hypothesis import given

from transformer_core.layers import MultiHeadCrossAttention, MultiHeadSelfAttention
from transformer_core.layers.multi_head_attention import CrossAttentionCache, SelfAttentionCache
from transformer_core.ops import attention, merge_heads, split_heads
from transformer_core.ops.attention import AttentionCache
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.softmax import SoftmaxCache

MASKS = {"no mask": None, "padding": padding([4, 2], 4), "a query without keys": SOURCE_KEEP}
every_mask = pytest.mark.parametrize("keep", MASKS.values(), ids=MASKS.keys())


def draw(rng, batch, queries, keys, heads, width):
    """Build a layer of H heads of a width at a generic point, and draw both streams."""
    layer = MultiHeadCrossAttention(heads * width, heads, rng, np.float64)
    x = rng.normal(size=(batch, queries, heads * width))
    source = rng.normal(size=(batch, keys, heads * width))
    return randomise(layer, rng), x, source


@pytest.mark.equation("eq:cross-attention-backward")
@every_mask
def test_gradients_agree_with_the_witnesses(check, keep):
    context = () if keep is None else (keep,)
    check.layer(LAYERS["MultiHeadCrossAttention"]._replace(context=context))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_pass_through_a_residual_connection(check, norm):
    check.layer(LAYERS[f"Residual, {norm}, cross-attention"])


def symbolic_heads(monkeypatch, x, source, weights, output_weight):
    """Run two heads of width 1 on symbols: the output and the caches."""
    module = importlib.import_module("transformer_core.ops.attention")
    monkeypatch.setattr(module, "sqrt", sympy.sqrt)
    query, key, value = (
        split_heads(stream @ weight, 2)
        for stream, weight in zip((x, source, source), weights, strict=True)
    )
    exponentials = np.exp(query @ key.swapaxes(-1, -2))
    attended = exponentials / exponentials.sum(axis=-1, keepdims=True)
    merged = merge_heads(attended @ value)
    return (
        merged @ output_weight,
        AttentionCache(query, key, value, attended, SoftmaxCache(attended)),
        LinearCache(merged, output_weight),
    )


@pytest.mark.slow
@pytest.mark.equation("eq:cross-attention-backward")
def test_gradients_are_exact(symbolic, monkeypatch):
    x, source = symbols("x", 1, 1, 2), symbols("z", 1, 2, 2)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 2)
    output, dy = symbols("o", 2, 2), symbols("d", 1, 1, 2)
    y, attended, merged = symbolic_heads(monkeypatch, x, source, (query, key, value), output)
    cache = CrossAttentionCache(
        LinearCache(x, query),
        LinearCache(source, np.concatenate([key, value], axis=-1)),
        attended,
        merged,
    )
    layer = MultiHeadCrossAttention(2, 2, np.random.default_rng(0))
    dx, dsource, grads = layer.backward(dy, cache)
    dkey, dvalue = np.split(grads["key_value.weight"], 2, axis=-1)
    assert_exact(
        (y * dy).sum(),
        [x, source, query, key, value, output],
        [dx, dsource, grads["query.weight"], dkey, dvalue, grads["output.weight"]],
    )


@pytest.mark.slow
@pytest.mark.equation("eq:attention-backward-input")
@pytest.mark.equation("eq:attention-backward-projections")
@pytest.mark.equation("eq:multi-head-backward")
def test_gradients_of_self_attention_are_exact(symbolic, monkeypatch):
    x = symbols("x", 1, 2, 2)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 2)
    output = np.array([[1, 2], [-1, 3]], object)  # its own gradient is witnessed above
    dy = np.array([[[2, -1], [1, 3]]], object)
    y, attended, merged = symbolic_heads(monkeypatch, x, x, (query, key, value), output)
    fused = np.concatenate([query, key, value], axis=-1)
    cache = SelfAttentionCache(LinearCache(x, fused), attended, merged)
    layer = MultiHeadSelfAttention(2, 2, np.random.default_rng(0))
    dx, grads = layer.backward(dy, cache)
    dfused = grads["query_key_value.weight"]
    assert_exact((y * dy).sum(), [x, fused], [dx, dfused])


@pytest.mark.equation("eq:cross-attention")
@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_each_head_attends_by_itself(rng, batch, queries, keys, heads, width):
    layer, x, source = draw(rng, batch, queries, keys, heads, width)
    query = x @ layer.query.weight + layer.query.bias
    projected = source @ layer.key_value.weight + layer.key_value.bias
    key, value = projected[..., : heads * width], projected[..., heads * width :]
    contexts = []
    for head in range(heads):
        part = np.s_[..., head * width : (head + 1) * width]
        contexts.append(attention(query[part], key[part], value[part])[0])
    expected = np.concatenate(contexts, axis=-1) @ layer.output.weight
    y, _ = layer.forward(x, source)
    assert y.shape == x.shape
    assert np.allclose(y, expected + layer.output.bias, rtol=1e-10, atol=1e-10)


@pytest.mark.equation("eq:cross-attention-backward")
@given(generators, sizes, sizes, sizes, sizes)
def test_a_stream_that_attends_to_itself_is_self_attention(rng, batch, length, heads, width):
    cross, x, _ = draw(rng, batch, length, length, heads, width)
    self_attention = MultiHeadSelfAttention(heads * width, heads, rng, np.float64)
    for name, own in self_attention.query_key_value.parameters().items():
        query, key_value = cross.query.parameters(), cross.key_value.parameters()
        own[...] = np.concatenate([query[name], key_value[name]], axis=-1)
    for name, own in self_attention.output.parameters().items():
        own[...] = cross.output.parameters()[name]

    keep = rng.random((batch, 1, length, length)) < 0.7
    dy = rng.normal(size=x.shape)
    y, cache = cross.forward(x, x, keep)
    expected, self_cache = self_attention.forward(x, keep)
    assert np.allclose(y, expected, rtol=1e-10, atol=1e-10)

    dx, dsource, grads = cross.backward(dy, cache)
    expected, self_grads = self_attention.backward(dy, self_cache)
    assert np.allclose(dx + dsource, expected, rtol=1e-9, atol=1e-9)
    for name in ("weight", "bias"):
        fused = np.concatenate([grads[f"query.{name}"], grads[f"key_value.{name}"]], axis=-1)
        expected = self_grads[f"query_key_value.{name}"]
        assert np.allclose(fused, expected, rtol=1e-9, atol=1e-9)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_padding_of_the_source_gets_no_gradient(rng, batch, queries, keys, heads, width):
    layer, x, source = draw(rng, batch, queries, keys, heads, width)
    lengths = rng.integers(0, keys + 1, batch)
    padded = np.arange(keys) >= lengths[:, np.newaxis]
    y, cache = layer.forward(x, source, padding(lengths, keys))
    _, dsource, _ = layer.backward(rng.normal(size=y.shape), cache)
    assert (dsource[padded] == 0).all()
    source[padded] += 1
    assert np.array_equal(layer.forward(x, source, padding(lengths, keys))[0], y)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_a_query_without_keys_gives_the_bias_and_no_nan(rng, batch, queries, keys, heads, width):
    layer, x, source = draw(rng, batch, queries, keys, heads, width)
    keep = broadcastable(rng, batch, heads, queries, keys)
    full = np.broadcast_to(keep, (batch, heads, queries, keys))
    empty = ~full.any(axis=(1, 3))
    with np.errstate(invalid="raise", divide="raise"):
        y, cache = layer.forward(x, source, keep)
        dx, dsource, grads = layer.backward(rng.normal(size=y.shape), cache)
    assert np.array_equal(y[empty], np.tile(layer.output.bias, (empty.sum(), 1)))
    assert (dx[empty] == 0).all()
    gradients = dx, dsource, *grads.values()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_the_outputs_follow_the_order_of_the_queries(rng, batch, queries, keys, heads, width):
    layer, x, source = draw(rng, batch, queries, keys, heads, width)
    keep = rng.random((batch, 1, queries, keys)) < 0.7
    order = rng.permutation(queries)
    dy = rng.normal(size=x.shape)
    y, cache = layer.forward(x, source, keep)
    permuted, permuted_cache = layer.forward(x[:, order], source, keep[:, :, order])
    assert np.allclose(permuted, y[:, order], rtol=1e-10, atol=1e-10)
    dx, dsource, grads = layer.backward(dy, cache)
    expected = named([dx[:, order], dsource]) | grads
    assert_close(gradients_of(layer, dy[:, order], permuted_cache), expected)


@pytest.mark.parametrize("kind", [MultiHeadCrossAttention, MultiHeadSelfAttention])
@pytest.mark.parametrize(
    "width, heads, message",
    [
        (6, 4, "heads: expected a divisor of the width 6, got 4"),
        (6, 0, "heads: expected a whole number of at least 1, got 0"),
        (0, 1, "width: expected a whole number of at least 1, got 0"),
    ],
)
def test_bad_sizes_are_named(rng, kind, width, heads, message):
    with pytest.raises(ValueError, match=message):
        kind(width, heads, rng)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"x": np.ones((3, 6))}, r"x: expected shape \(B, T, D\), got \(3, 6\)"),
        ({"x": np.ones((2, 3, 5))}, r"source: .* \(2, S, 5\), got \(2, 4, 6\)"),
        ({"source": np.ones((2, 4, 5))}, r"source: .* \(2, S, 6\), got \(2, 4, 5\)"),
        ({"source": np.ones((1, 4, 6))}, r"source: .* \(2, S, 6\), got \(1, 4, 6\)"),
        ({"source": np.ones((2, 0, 6))}, "source: expected at least one element"),
        ({"keep": np.ones((3, 4))}, "keep: expected booleans, .* got float64"),
        ({"keep": np.ones((3, 3), bool)}, r"\(2, 2, 3, 4\), got \(3, 3\)"),
    ],
)
def test_bad_input_is_named(rng, changed, message):
    layer = MultiHeadCrossAttention(6, 2, rng, np.float64)
    arguments = {"x": np.ones((2, 3, 6)), "source": np.ones((2, 4, 6)), "keep": None}
    with pytest.raises(ValueError, match=message):
        layer.forward(**(arguments | changed))
