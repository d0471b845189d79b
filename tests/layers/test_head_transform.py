import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import normal

from transformer_core.layers import HeadTransform, LayerNorm, LayerSpec


@pytest.mark.equation("eq:head-transform-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["HeadTransform"])


@pytest.mark.equation("eq:head-transform-identity")
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_far_to_the_right_it_is_the_norm_alone(rng, activation):
    spec = LayerSpec(6, 2, 7, "post", feed_forward=activation, dtype="float64")
    transform = HeadTransform(spec, rng)
    transform.set_parameters({"dense.weight": np.eye(6), "dense.bias": np.full(6, 50.0)})
    norm = LayerNorm(6, "float64")
    for array in ("gamma", "beta"):
        value = normal(rng, 6)
        transform.set_parameters({f"norm.{array}": value})
        norm.set_parameters({array: value})
    h = normal(rng, (2, 3, 6))
    np.testing.assert_allclose(transform.forward(h)[0], norm.forward(h)[0], atol=1e-12)


def test_a_gated_layer_has_no_activation_for_it(rng):
    with pytest.raises(ValueError, match="feed_forward: expected one of relu, gelu, .* 'swiglu'"):
        HeadTransform(LayerSpec(6, 2, 7, "pre", feed_forward="swiglu"), rng)
