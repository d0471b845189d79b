import numpy as np
import pytest
from helpers.cases import LAYERS

from transformer_core.layers import LayerNorm


@pytest.mark.equation("eq:layer-norm-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["LayerNorm"])


def test_gamma_starts_at_one_and_beta_at_zero():
    layer = LayerNorm(4)
    assert np.array_equal(layer.gamma, np.ones(4))
    assert np.array_equal(layer.beta, np.zeros(4))
    assert layer.gamma.dtype == layer.beta.dtype == np.float32


@pytest.mark.parametrize("width", [0, 2.5, True])
def test_a_bad_width_is_named(width):
    with pytest.raises(ValueError, match=f"width: expected .* got {width}"):
        LayerNorm(width)
