import numpy as np
import pytest
from helpers.cases import LAYERS, LayerCase
from helpers.witnesses import generators, normal, randomise, sizes
from hypothesis import given

from transformer_core.layers import AttentionSpec, MultiHeadSelfAttention, Rotary
from transformer_core.ops import pairs_to_halves


@pytest.mark.equation("eq:rotary-backward")
@pytest.mark.parametrize("halves", [False, True], ids=["pairs", "halves"])
def test_gradients_agree_with_the_witnesses(check, halves):
    check.layer(LayerCase(lambda rng, dtype: Rotary(6, dtype, halves), (2, 3, 5, 6), (4,)))


@pytest.mark.equation("eq:rotary-backward")
def test_gradients_of_the_layer_around_it_agree_with_the_witnesses(check):
    check.layer(LAYERS["MultiHeadSelfAttention, rotary"])


@given(generators, sizes, sizes)
def test_later_positions_are_the_end_of_a_longer_sequence(rng, first, length):
    layer, x = Rotary(4, np.float64), normal(rng, (2, 3, first + length, 4))
    whole, _ = layer.forward(x)
    end, _ = layer.forward(x[:, :, first:], first)
    assert np.allclose(end, whole[:, :, first:], atol=1e-15)


def attending(transform, seed=1):
    spec = AttentionSpec(4, 6, key_heads=2, transform=transform)
    rng = np.random.default_rng(seed)
    return randomise(MultiHeadSelfAttention(8, spec, rng, np.float64), rng)


@pytest.mark.equation("eq:rotary-permutation")
def test_permuted_weights_take_a_layer_from_pairs_to_halves(rng):
    pairs, halves = attending("rotary"), attending("rotary_halves")
    order, heads = pairs_to_halves(6), 4 + 2  # of queries, then of keys
    columns = np.arange(pairs.query_key_value.weight.shape[1])
    columns[: heads * 6] = columns[: heads * 6].reshape(heads, 6)[:, order].ravel()
    parameters = pairs.parameters()
    for name in ("query_key_value.weight", "query_key_value.bias"):
        parameters[name] = parameters[name][..., columns]
    x = normal(rng, (2, 5, 8))
    expected, _ = pairs.forward(x)
    halves.set_parameters(pairs.parameters())
    assert not np.allclose(halves.forward(x)[0], expected)
    halves.set_parameters(parameters)
    np.testing.assert_allclose(halves.forward(x)[0], expected, rtol=1e-12)


def test_it_has_nothing_to_learn():
    layer = Rotary(4)
    assert layer.parameters() == {} and layer.frequencies.dtype == np.float64
    assert Rotary(4, base=100.0).frequencies.tolist() == [1, 0.1]
