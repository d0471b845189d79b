import importlib

import numpy as np
import pytest
import sympy
from hypothesis import given
from witnesses import (
    arrays_in,
    assert_exact,
    generators,
    normal,
    padding,
    randomise,
    scattered,
    sizes,
    symbols,
)

from transformer_core.layers import (
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    Residual,
)
from transformer_core.layers.multi_head_attention import (
    CrossAttentionCache,
    SelfAttentionCache,
)
from transformer_core.ops import attention, merge_heads, split_heads
from transformer_core.ops.attention import AttentionCache
from transformer_core.ops.linear import LinearCache
from transformer_core.optim import Adam

MASKS = {
    "no mask": None,
    "padding": padding([4, 2], 4),
    "a query without keys": scattered(np.random.default_rng(2), 2, 2, 3, 4),
}
every_mask = pytest.mark.parametrize("keep", MASKS.values(), ids=MASKS.keys())


def draw(rng, batch, queries, keys, heads, width, dtype=np.float64):
    """Build a layer of H heads of a width at a generic point, and draw both streams."""
    model_width = heads * width
    layer = randomise(MultiHeadCrossAttention(model_width, heads, rng, dtype), rng)
    x = rng.normal(size=(batch, queries, model_width)).astype(dtype)
    source = rng.normal(size=(batch, keys, model_width)).astype(dtype)
    return layer, x, source


def prove_both_streams(prove, layer, x, source, keep):
    def backward(dy, cache):
        dx, dsource, grads = layer.backward(dy, cache)
        return {"x": dx, "source": dsource, **grads}

    arrays = {"x": x, "source": source, **layer.parameters()}
    prove.compare(lambda: layer.forward(x, source, keep), backward, arrays)


@pytest.mark.equation("eq:cross-attention-backward")
@every_mask
def test_gradients_agree_with_the_witnesses(prove, keep):
    layer, x, source = draw(prove.rng, 2, 3, 4, 2, 3, prove.witness.dtype)
    prove_both_streams(prove, layer, x, source, keep)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_pass_through_a_residual_connection(prove, norm):
    dtype = prove.witness.dtype
    branch, x, source = draw(prove.rng, 2, 3, 4, 2, 3, dtype)
    layer = randomise(Residual(branch, 6, norm, dtype), prove.rng)
    prove_both_streams(prove, layer, x, source, MASKS["padding"])


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
        AttentionCache(query, key, value, attended),
        LinearCache(merged, output_weight),
    )


@pytest.mark.equation("eq:cross-attention-backward")
def test_gradients_are_exact(symbolic, monkeypatch):
    x, source = symbols("x", 1, 1, 2), symbols("z", 1, 2, 2)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 2)
    output, dy = symbols("o", 2, 2), symbols("d", 1, 1, 2)
    y, attended, merged = symbolic_heads(
        monkeypatch, x, source, (query, key, value), output
    )
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


@pytest.mark.equation("eq:attention-backward-input")
@pytest.mark.equation("eq:attention-backward-projections")
@pytest.mark.equation("eq:multi-head-backward")
def test_gradients_of_self_attention_are_exact(symbolic, monkeypatch):
    x = symbols("x", 1, 2, 2)
    query, key, value = symbols("q", 2, 2), symbols("k", 2, 2), symbols("v", 2, 2)
    output = np.array([[1, 2], [-1, 3]], object)  # its own gradient is proved above
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
def test_a_stream_that_attends_to_itself_is_self_attention(
    rng, batch, length, heads, width
):
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
        fused = np.concatenate(
            [grads[f"query.{name}"], grads[f"key_value.{name}"]], axis=-1
        )
        expected = self_grads[f"query_key_value.{name}"]
        assert np.allclose(fused, expected, rtol=1e-9, atol=1e-9)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_the_order_of_the_source_does_not_matter(
    rng, batch, queries, keys, heads, width
):
    layer, x, source = draw(rng, batch, queries, keys, heads, width)
    order = rng.permutation(keys)
    dy = rng.normal(size=x.shape)
    y, cache = layer.forward(x, source)
    permuted, permuted_cache = layer.forward(x, source[:, order])
    assert np.allclose(permuted, y, rtol=1e-10, atol=1e-10)
    dx, dsource, _ = layer.backward(dy, cache)
    permuted_dx, permuted_dsource, _ = layer.backward(dy, permuted_cache)
    assert np.allclose(permuted_dx, dx, rtol=1e-9, atol=1e-9)
    assert np.allclose(permuted_dsource, dsource[:, order], rtol=1e-9, atol=1e-9)


@given(generators, sizes, sizes, sizes, sizes, sizes)
def test_padding_of_the_source_gets_no_gradient(
    rng, batch, queries, keys, heads, width
):
    layer, x, source = draw(rng, batch, queries, keys, heads, width)
    lengths = rng.integers(0, keys + 1, batch)
    y, cache = layer.forward(x, source, padding(lengths, keys))
    _, dsource, _ = layer.backward(rng.normal(size=y.shape), cache)
    assert (dsource[np.arange(keys) >= lengths[:, None]] == 0).all()


def test_the_bias_of_the_keys_gets_no_gradient(rng):
    layer, x, source = draw(rng, 2, 3, 4, 2, 3)
    y, cache = layer.forward(x, source)
    _, _, grads = layer.backward(rng.normal(size=y.shape), cache)
    dkey, dvalue = np.split(grads["key_value.bias"], 2)
    assert np.abs(dkey).max() < 1e-13  # it shifts all scores of a row alike
    assert np.abs(dvalue).min() > 1e-3 and np.abs(grads["query.bias"]).min() > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_dtype_is_kept(rng, dtype):
    layer, x, source = draw(rng, 2, 3, 4, 2, 3, dtype)
    y, cache = layer.forward(x, source, MASKS["padding"])
    dx, dsource, grads = layer.backward(normal(rng, y.shape, dtype), cache)
    arrays = [y, dx, dsource, *grads.values(), *arrays_in(cache)]
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


def test_every_parameter_has_its_gradient_and_moves(rng):
    layer, x, source = draw(rng, 2, 3, 4, 2, 3)
    parameters = layer.parameters()
    assert list(parameters) == [
        f"{part}.{name}"
        for part in ("query", "key_value", "output")
        for name in ("weight", "bias")
    ]
    before = {name: array.copy() for name, array in parameters.items()}
    y, cache = layer.forward(x, source)
    dx, dsource, grads = layer.backward(rng.normal(size=y.shape), cache)
    assert dx.shape == x.shape and dsource.shape == source.shape
    assert {name: grad.shape for name, grad in grads.items()} == {
        name: array.shape for name, array in parameters.items()
    }
    Adam(parameters).step(grads)
    assert not any(np.array_equal(parameters[name], before[name]) for name in before)


@every_mask
def test_what_it_is_given_stays_as_it_is(rng, keep):
    layer, x, source = draw(rng, 2, 3, 4, 2, 3)
    y, cache = layer.forward(x, source, keep)
    dy = rng.normal(size=y.shape)
    arrays = [x, source, dy, *layer.parameters().values(), *arrays_in(cache)]
    copies = [array.copy() for array in arrays]
    first = layer.backward(dy, cache)
    layer.forward(source, x)
    second = layer.backward(dy, cache)
    assert all(map(np.array_equal, arrays, copies))
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])


@pytest.mark.parametrize(
    "width, heads, message",
    [
        (6, 4, "heads: expected a divisor of the width 6, got 4"),
        (6, 0, "heads: expected a whole number of at least 1, got 0"),
        (0, 1, "width: expected a whole number of at least 1, got 0"),
    ],
)
def test_bad_sizes_are_named(rng, width, heads, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadCrossAttention(width, heads, rng)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"x": np.ones((3, 6))}, r"x: expected shape \(B, T, D\), got \(3, 6\)"),
        ({"x": np.ones((2, 3, 5))}, r"source: .* \(2, S, 5\), got \(2, 4, 6\)"),
        ({"x": [1.0]}, "x: expected a NumPy array, got list"),
        ({"source": np.ones((2, 4, 5))}, r"source: .* \(2, S, 6\), got \(2, 4, 5\)"),
        ({"source": np.ones((1, 4, 6))}, r"source: .* \(2, S, 6\), got \(1, 4, 6\)"),
        ({"source": np.ones((2, 0, 6))}, "source: expected at least one element"),
        ({"source": None}, "source: expected a NumPy array, got NoneType"),
        ({"keep": np.ones((3, 4))}, "keep: expected booleans, .* got float64"),
        ({"keep": np.ones((3, 3), bool)}, r"\(2, 2, 3, 4\), got \(3, 3\)"),
    ],
)
def test_bad_input_is_named(rng, changed, message):
    layer = MultiHeadCrossAttention(6, 2, rng, np.float64)
    arguments = {"x": np.ones((2, 3, 6)), "source": np.ones((2, 4, 6)), "keep": None}
    with pytest.raises(ValueError, match=message):
        layer.forward(**(arguments | changed))


def test_a_cotangent_of_another_shape_is_named(rng):
    layer, x, source = draw(rng, 2, 3, 4, 2, 3)
    _, cache = layer.forward(x, source)
    with pytest.raises(ValueError, match=r"dy: .* \(2, 3, 6\), got \(2, 4, 6\)"):
        layer.backward(np.ones((2, 4, 6)), cache)
