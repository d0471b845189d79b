import numpy as np
import pytest
from cases import LAYERS
from hypothesis import given
from witnesses import causal, generators, randomise, sizes

from transformer_core.layers import MultiHeadSelfAttention
from transformer_core.ops import attention


def draw(rng, batch, length, heads, width):
    """Build a layer of H heads of a width at a generic point, and draw an input."""
    layer = MultiHeadSelfAttention(heads * width, heads, rng, np.float64)
    return randomise(layer, rng), rng.normal(size=(batch, length, heads * width))


@pytest.mark.equation("eq:multi-head-backward")
def test_gradients_agree_with_the_witnesses(prove):
    prove.layer(LAYERS["MultiHeadSelfAttention"])


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
def test_the_outputs_follow_the_order_of_the_positions(
    rng, batch, length, heads, width
):
    layer, x = draw(rng, batch, length, heads, width)
    order = rng.permutation(length)
    y, _ = layer.forward(x)
    permuted, _ = layer.forward(x[:, order])
    assert np.allclose(permuted, y[:, order], rtol=1e-10, atol=1e-10)


@given(generators, sizes, sizes, sizes, sizes)
def test_sequences_of_a_batch_do_not_see_each_other(rng, batch, length, heads, width):
    layer, x = draw(rng, batch, length, heads, width)
    together, _ = layer.forward(x, causal(length))
    alone = [layer.forward(sequence[None], causal(length))[0][0] for sequence in x]
    assert np.allclose(together, alone, rtol=1e-10, atol=1e-10)


def test_the_bias_of_the_keys_gets_no_gradient(rng):
    layer, x = draw(rng, 2, 5, 2, 3)
    y, cache = layer.forward(x)
    _, grads = layer.backward(rng.normal(size=y.shape), cache)
    dquery, dkey, dvalue = np.split(grads["query_key_value.bias"], 3)
    assert np.abs(dkey).max() < 1e-13  # it shifts all scores of a row alike
    assert np.abs(dquery).min() > 1e-3 and np.abs(dvalue).min() > 1e-3


def test_a_mask_may_differ_from_head_to_head(rng):
    layer, x = draw(rng, 2, 4, 2, 3)
    keep = rng.random((2, 2, 4, 4)) < 0.5
    _, cache = layer.forward(x, keep)
    weights = cache.attention.weights
    assert (weights[~keep] == 0).all() and (weights[keep] > 0).all()


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
        MultiHeadSelfAttention(width, heads, rng)


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
