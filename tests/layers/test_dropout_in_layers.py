import numpy as np
import pytest
from helpers.cases import KEEP, LAYERS, LayerCase, restarted
from helpers.witnesses import generators, normal, randomise, sizes
from hypothesis import given

from transformer_core.layers import (
    FeedForward,
    LayerNorm,
    LayerSpec,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    Residual,
)
from transformer_core.ops import mean_squared_error
from transformer_core.tasks.reconstruction import Reconstructor

RATE = 0.3


def encoder(rng, dtype, dropout=RATE):
    spec = LayerSpec(6, 2, 7, "pre", dropout=dropout, dtype=dtype)
    return Reconstructor(spec, 2, rng, final_norm=True)


@pytest.mark.equation("eq:dropout-backward")
@pytest.mark.parametrize("name", [name for name in LAYERS if "dropout" in name])
def test_gradients_agree_with_the_witnesses(check, name):
    check.layer(LAYERS[name])


@pytest.mark.equation("eq:dropout-backward")
def test_gradients_of_the_encoder_agree_with_the_witnesses(check):
    check.layer(LayerCase(restarted(encoder), (2, 5, 6), (KEEP,)))


@pytest.mark.equation("eq:attention-backward-dropout")
def test_gradients_of_cross_attention_agree_with_the_witnesses(check):
    check.layer(LAYERS["MultiHeadCrossAttention, dropout"])


@pytest.mark.parametrize("norm", ["post", "pre"])
@given(generators, sizes, sizes, sizes)
def test_the_branch_is_dropped_and_the_skip_connection_is_not(norm, rng, batch, length, width):
    branch = FeedForward(width, width + 1, rng, np.float64)
    norm_layer = LayerNorm(width, np.float64)
    layer = randomise(Residual(branch, norm_layer, norm, RATE), rng)
    x = rng.normal(size=(batch, length, width))
    y, cache = layer.forward(x, rng=rng)
    out, _ = branch.forward(layer.norm.forward(x)[0] if norm == "pre" else x)
    expected = x + out * cache.dropout.mask / (1 - RATE)
    if norm == "post":
        expected, _ = layer.norm.forward(expected)
    assert np.allclose(y, expected, rtol=1e-12)


def test_every_head_drops_weights_of_its_own(rng):
    layer = MultiHeadSelfAttention(6, 2, rng, np.float64, RATE)
    _, cache = layer.forward(normal(rng, (2, 5, 6)), rng=rng)
    first, second = cache.attention.dropout.mask.swapaxes(0, 1)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("dropout, seed", [(RATE, None), (0.0, 1)])
def test_evaluation_and_the_rate_0_change_nothing(rng, dropout, seed):
    x, target = normal(rng, (2, 2, 5, 6))
    plain = encoder(np.random.default_rng(1), np.float64, dropout=0.0)
    same = encoder(np.random.default_rng(1), np.float64, dropout)
    generator = None if seed is None else np.random.default_rng(seed)
    loss, grads = plain.loss_and_gradients(x, target, KEEP)
    same_loss, same_grads = same.loss_and_gradients(x, target, KEEP, generator)
    assert same_loss == loss
    assert all(np.array_equal(same_grads[name], grads[name]) for name in grads)


def test_training_is_repeatable_and_differs_from_evaluation(rng):
    model = encoder(rng, np.float64)
    x, target = normal(rng, (2, 2, 5, 6))
    first, again, other = (
        model.loss_and_gradients(x, target, rng=np.random.default_rng(seed))[0]
        for seed in (1, 1, 2)
    )
    evaluated, _ = mean_squared_error(model.forward(x)[0], target)
    assert first == again
    assert len({first, other, evaluated}) == 3


@pytest.mark.parametrize(
    "build",
    [
        lambda rng: MultiHeadSelfAttention(6, 2, rng, dropout=1.0),
        lambda rng: MultiHeadCrossAttention(6, 2, rng, dropout=1.0),
        lambda rng: Residual(FeedForward(6, 7, rng), LayerNorm(6), "pre", dropout=1.0),
    ],
)
def test_a_bad_rate_is_named(rng, build):
    with pytest.raises(ValueError, match=r"dropout: expected a number in \[0, 1\)"):
        build(rng)
