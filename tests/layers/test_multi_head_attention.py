import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import broadcastable, causal, generators, randomise, sizes
from hypothesis import given

from transformer_core.layers import AttentionSpec, MultiHeadSelfAttention
from transformer_core.ops import attention, window_keep


def draw(rng, batch, length, heads, width):
    """Build a layer of H heads of a width at a generic point, and draw an input."""
    layer = MultiHeadSelfAttention(heads * width, heads, rng, np.float64)
    return randomise(layer, rng), rng.normal(size=(batch, length, heads * width))


@pytest.mark.equation("eq:multi-head-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["MultiHeadSelfAttention"])


@pytest.mark.equation("eq:multi-head")
@given(generators, sizes, sizes, sizes, sizes)
def test_each_head_attends_by_itself(rng, batch, length, heads, width):
    layer, x = draw(rng, batch, length, heads, width)
    model_width = heads * width
    weight, bias = layer.query_key_value.weight, layer.query_key_value.bias
    contexts = []
    for head in range(heads):
        query, key, value = (
            x @ weight[:, columns] + bias[columns]
            for start in range(0, 3 * model_width, model_width)
            for columns in [slice(start + head * width, start + (head + 1) * width)]
        )
        contexts.append(attention(query, key, value)[0])
    merged = np.concatenate(contexts, axis=-1)
    y, _ = layer.forward(x)
    expected = merged @ layer.output.weight + layer.output.bias
    assert np.allclose(y, expected, rtol=1e-10, atol=1e-10)


@given(generators, sizes, sizes, sizes, sizes)
def test_a_query_without_keys_gives_the_bias_and_no_nan(rng, batch, length, heads, width):
    layer, x = draw(rng, batch, length, heads, width)
    keep = broadcastable(rng, batch, heads, length, length)
    full = np.broadcast_to(keep, (batch, heads, length, length))
    empty = ~full.any(axis=(1, 3))
    with np.errstate(invalid="raise", divide="raise"):
        y, cache = layer.forward(x, keep)
        dx, grads = layer.backward(rng.normal(size=y.shape), cache)
    assert np.array_equal(y[empty], np.tile(layer.output.bias, (empty.sum(), 1)))
    assert np.array_equal(cache.attention.weights > 0, full)
    assert all(np.isfinite(gradient).all() for gradient in (dx, *grads.values()))


def test_the_bias_of_the_keys_gets_no_gradient(rng):
    layer, x = draw(rng, 2, 5, 2, 3)
    y, cache = layer.forward(x)
    _, grads = layer.backward(rng.normal(size=y.shape), cache)
    dquery, dkey, dvalue = np.split(grads["query_key_value.bias"], 3)
    assert np.abs(dkey).max() < 1e-13  # it shifts all scores of a row alike
    assert np.abs(dquery).min() > 1e-3 and np.abs(dvalue).min() > 1e-3


@pytest.mark.equation("eq:gauge-query-key")
@pytest.mark.equation("eq:gauge-value-output")
@pytest.mark.parametrize("bias", [False, True])
@given(generators, sizes, sizes, sizes, sizes, sizes, sizes)
def test_the_gradients_obey_the_gauge_laws(
    bias, rng, batch, length, heads, width, key_width, value_width
):
    spec = AttentionSpec(heads, key_width, value_width, bias)
    layer = randomise(MultiHeadSelfAttention(width, spec, rng, np.float64), rng)
    x = rng.normal(size=(batch, length, width))
    y, cache = layer.forward(x, broadcastable(rng, batch, heads, length, length))
    _, grads = layer.backward(rng.normal(size=y.shape), cache)
    weights = by_head(layer, layer.parameters())
    for (query, key, value, output), (dquery, dkey, dvalue, doutput) in zip(
        weights, by_head(layer, grads), strict=True
    ):
        dkey, key = dkey[:width], key[:width]  # their bias has the gradient 0
        assert_same_product((query.T, dquery), (dkey.T, key))
        assert_same_product((value.T, dvalue), (doutput, output.T))


def by_head(layer, arrays):
    """Cut the weights, a bias as their last row, into those of each head."""
    fused = [arrays["query_key_value.weight"]]
    if "query_key_value.bias" in arrays:
        fused.append(arrays["query_key_value.bias"][np.newaxis])
    parts = np.split(np.concatenate(fused), layer.edges, axis=-1)
    query, key, value = (np.split(part, layer.heads, axis=-1) for part in parts)
    return zip(query, key, value, np.split(arrays["output.weight"], layer.heads), strict=True)


def assert_same_product(one, other, tolerance=1e-12):
    """Compare two products of matrices; the lengths of their factors are the measure."""
    longest = max(np.prod([np.linalg.norm(a) for a in pair]) for pair in (one, other))
    difference = np.linalg.norm(one[0] @ one[1] - other[0] @ other[1])
    assert difference <= tolerance * longest


@pytest.mark.parametrize(
    "x, keep, message",
    [
        (np.ones((5, 6)), None, r"x: expected shape \(B, T, D\), got \(5, 6\)"),
        (np.ones((2, 5, 6)), np.ones((5, 5)), "keep: expected booleans, .* float64"),
        (np.ones((2, 5, 6)), np.ones((5, 4), bool), r"\(2, 2, 5, 5\), got \(5, 4\)"),
    ],
)
def test_bad_input_is_named(rng, x, keep, message):
    layer = MultiHeadSelfAttention(6, 2, rng, np.float64)
    with pytest.raises(ValueError, match=message):
        layer.forward(x, keep)


@pytest.mark.equation("eq:cached-attention")
@given(generators, sizes, sizes)
def test_of_several_new_positions_none_sees_those_after_it(rng, before, new):
    layer, x = draw(rng, 2, before + new, 2, 3)
    keep = rng.random((2, 2, before + new, before + new)) < 0.7
    expected, _ = layer.forward(x, keep & causal(before + new))
    _, past = layer.step(x[:, :before], layer.begin(2), keep[..., :before, :before])
    y, past = layer.step(x[:, before:], past, keep[..., before:, :])
    assert np.allclose(y, expected[:, before:], rtol=1e-9, atol=1e-9)
    assert past.length == before + new


def test_a_bad_mask_of_new_positions_is_named(rng):
    layer, x = draw(rng, 2, 3, 2, 3)
    with pytest.raises(ValueError, match=r"keep: .* broadcasts to \(2, 2, 3, 3\), got \(2, 2\)"):
        layer.step(x, layer.begin(2), np.ones((2, 2), bool))


def test_what_is_there_already_is_not_copied_at_every_step(rng):
    layer, x = draw(rng, 1, 40, 2, 3)
    past, arrays = layer.begin(1), set()
    for t in range(40):
        _, past = layer.step(x[:, t : t + 1], past)
        arrays.add(id(past.arrays[0]))
    assert len(arrays) <= 6  # 2, 6, 14, ... positions


def test_two_sequences_that_go_on_from_one_past_stay_apart(rng):
    layer, x = draw(rng, 1, 4, 2, 3)
    past = layer.begin(1)
    for t in range(3):
        _, past = layer.step(x[:, t : t + 1], past)
    _, one = layer.step(x[:, 3:], past)
    before = [array.copy() for array in one]
    _, other = layer.step(-x[:, 3:], past)
    assert all(map(np.array_equal, one, before))
    assert not np.array_equal(one.key, other.key)
    assert past.key.shape[2] == 3


@pytest.mark.equation("eq:cache-bytes")
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_a_cache_has_the_bytes_of_the_formula(rng, key_heads):
    spec = AttentionSpec(4, 6, 3, key_heads=key_heads)
    layer = MultiHeadSelfAttention(8, spec, rng, np.float32)
    past = layer.begin(5)
    for _ in range(7):
        _, past = layer.step(rng.normal(size=(5, 1, 8)).astype(np.float32), past)
    assert sum(array.nbytes for array in past) == 5 * 7 * key_heads * (6 + 3) * 4


@given(generators, sizes, sizes)
def test_stacked_windows_reach_their_depth_times_one_less_than_their_width(rng, depth, window):
    length = 14
    layers = [MultiHeadSelfAttention(6, 2, rng, np.float64) for _ in range(depth)]
    x, caches = rng.normal(size=(1, length, 6)), []
    for layer in layers:
        x, cache = layer.forward(x, window_keep(length, window))
        caches.append(cache)
    dx = np.zeros_like(x)
    dx[0, -1] = rng.normal(size=6)
    for layer, cache in zip(layers[::-1], caches[::-1], strict=True):
        dx, _ = layer.backward(dx, cache)
    (reached,) = np.nonzero(np.abs(dx[0]).sum(axis=-1))
    assert reached.tolist() == list(range(max(0, length - 1 - depth * (window - 1)), length))
