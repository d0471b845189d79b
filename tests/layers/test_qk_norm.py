import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import generators, normal, randomise
from hypothesis import given

from transformer_core.layers import AttentionSpec, MultiHeadSelfAttention, QkNorm
from transformer_core.ops import attention, causal_keep

CASES = "QkNorm", "QkNorm, halves", "MultiHeadSelfAttention, normalised"


@pytest.mark.equation("eq:qk-norm-backward")
@pytest.mark.parametrize("case", CASES)
def test_gradients_agree_with_the_witnesses(check, case):
    check.layer(LAYERS[case])


@pytest.mark.equation("eq:qk-norm")
@given(generators)
def test_at_first_a_score_is_at_most_the_root_of_the_width(rng):
    query, key = (QkNorm(8, np.float64).forward(50 * normal(rng, (2, 3, 5, 8)))[0] for _ in "qk")
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(8)
    assert np.abs(scores).max() <= np.sqrt(8)
    _, cache = attention(query, key, key)
    assert cache.weights.max() < 1


def test_a_longer_row_has_the_same_query(rng):
    layer, x = randomise(QkNorm(6, np.float64, eps=1e-30), rng), normal(rng, (2, 3, 5, 6))
    np.testing.assert_allclose(layer.forward(1000 * x)[0], layer.forward(x)[0], rtol=1e-12)


def test_norm_and_rotation_do_not_commute_at_a_generic_gamma(rng):
    layer, x = randomise(QkNorm(6, np.float64), rng), normal(rng, (1, 1, 4, 6))

    def rotated_first():
        return layer.norm.forward(layer.rotary.forward(x)[0])[0]

    y, _ = layer.forward(x)
    assert np.abs(rotated_first() - y).max() > 0.1
    layer.norm.gamma[...] = np.repeat(rng.normal(size=3), 2)  # alike within each pair
    np.testing.assert_allclose(rotated_first(), layer.forward(x)[0], rtol=1e-12)


def test_step_by_step_it_is_the_forward_pass(rng):
    spec = AttentionSpec(4, 6, key_heads=2, transform="qk_norm_rotary")
    layer = randomise(MultiHeadSelfAttention(8, spec, rng, np.float64), rng)
    x = normal(rng, (2, 5, 8))
    whole, _ = layer.forward(x, causal_keep(5))
    past = layer.begin(2)
    for t in range(5):
        y, past = layer.step(x[:, t : t + 1], past)
        np.testing.assert_allclose(y[:, 0], whole[:, t], rtol=1e-10)
