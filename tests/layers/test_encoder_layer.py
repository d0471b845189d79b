import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import causal, generators, randomise, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import EncoderLayer, LayerSpec


def draw(rng, batch, length, heads, width, norm):
    spec = LayerSpec(heads * width, heads, width + 3, norm, dtype=np.float64)
    return randomise(EncoderLayer(spec, rng), rng), rng.normal(size=(batch, length, heads * width))


norms = st.sampled_from(["post", "pre"])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_agree_with_the_witnesses(check, norm):
    check.layer(LAYERS[f"EncoderLayer, {norm}"])


@given(generators, sizes, sizes, sizes, sizes, norms)
def test_attention_comes_before_the_feed_forward_layer(rng, batch, length, heads, width, norm):
    layer, x = draw(rng, batch, length, heads, width, norm)
    attended, _ = layer.attention.forward(x)
    expected, _ = layer.feed_forward.forward(attended)
    assert np.array_equal(layer.forward(x)[0], expected)


@given(generators, sizes, sizes, sizes, sizes, norms)
def test_a_causal_output_does_not_see_the_future(rng, batch, length, heads, width, norm):
    layer, x = draw(rng, batch, length, heads, width, norm)
    y, cache = layer.forward(x, causal(length))
    now = rng.integers(length)
    dy = rng.normal(size=y.shape)
    dy[:, now + 1 :] = 0
    dx, _ = layer.backward(dy, cache)
    assert (dx[:, now + 1 :] == 0).all()
    x[:, now + 1 :] += rng.normal(size=x[:, now + 1 :].shape)
    changed, _ = layer.forward(x, causal(length))
    assert np.allclose(changed[:, : now + 1], y[:, : now + 1], rtol=1e-12, atol=1e-13)


def test_parameter_names(rng):
    arrays = {
        "attention.branch.query_key_value": ["weight", "bias"],
        "attention.branch.output": ["weight", "bias"],
        "attention.norm": ["gamma", "beta"],
        "feed_forward.branch.hidden": ["weight", "bias"],
        "feed_forward.branch.output": ["weight", "bias"],
        "feed_forward.norm": ["gamma", "beta"],
    }
    assert set(EncoderLayer(LayerSpec(4, 2, 5, "pre"), rng).parameters()) == {
        f"{part}.{name}" for part, names in arrays.items() for name in names
    }
