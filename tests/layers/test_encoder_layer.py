import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import generators, randomise, sizes
from hypothesis import given

from transformer_core.layers import EncoderLayer, LayerSpec


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_agree_with_the_witnesses(check, norm):
    check.layer(LAYERS[f"EncoderLayer, {norm}"])


@pytest.mark.parametrize("norm", ["post", "pre"])
@given(generators, sizes, sizes, sizes, sizes)
def test_attention_comes_before_the_feed_forward_layer(norm, rng, batch, length, heads, width):
    spec = LayerSpec(heads * width, heads, width + 3, norm, dtype=np.float64)
    layer = randomise(EncoderLayer(spec, rng), rng)
    x = rng.normal(size=(batch, length, heads * width))
    attended, _ = layer.attention.forward(x)
    expected, _ = layer.feed_forward.forward(attended)
    assert np.array_equal(layer.forward(x)[0], expected)


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
