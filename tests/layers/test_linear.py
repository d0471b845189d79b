import numpy as np
import pytest
from helpers.cases import LAYERS

from transformer_core.layers import Linear


@pytest.mark.equation("eq:linear-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["Linear"])


def test_weights_start_uniform_and_the_bias_at_zero(rng):
    layer = Linear(100, 200, rng)
    assert np.abs(layer.weight).max() <= 0.1
    assert np.isclose(layer.weight.std(), 0.1 / 3**0.5, rtol=0.02)
    assert not layer.bias.any()
    assert layer.weight.dtype == layer.bias.dtype == np.float32


def test_the_same_seed_gives_the_same_weights_in_every_dtype():
    single, double = (Linear(4, 3, np.random.default_rng(5), dtype) for dtype in ("f4", "f8"))
    assert np.array_equal(single.weight, double.weight.astype(np.float32))


@pytest.mark.parametrize(
    "widths, message", [((0, 3), "width_in: expected .* got 0"), ((4, -1), "width_out: .* got -1")]
)
def test_bad_widths_are_named(rng, widths, message):
    with pytest.raises(ValueError, match=message):
        Linear(*widths, rng)
