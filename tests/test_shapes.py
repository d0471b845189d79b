"""Gradients of whole layers at every shape from 1 up, along a random direction of everything."""

from typing import NamedTuple

import numpy as np
import pytest
from helpers.witnesses import (
    broadcastable,
    generators,
    gradients_of,
    named,
    normal,
    randomise,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import (
    AttentionSpec,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    LayerSpec,
    LearnedPositions,
    Linear,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    TiedReadout,
)
from transformer_core.tasks.reconstruction import Reconstructor

COMPLEX = np.complex128


class Sizes(NamedTuple):
    """The letters of the book."""

    B: int
    T: int
    S: int
    H: int
    K: int
    F: int
    V: int

    @property
    def D(self):
        return self.H * self.K

    def shape(self, letters):
        return [getattr(self, letter) for letter in letters]


class AnyShape(NamedTuple):
    """How to build a layer, and the axes of its inputs and of its masks."""

    build: callable
    inputs: list
    masks: list = []


def attention(kind):
    return lambda n, rng: kind(n.D, n.H, rng, COMPLEX)


def spec(n, placement):
    """The heads have widths of their own."""
    attention = AttentionSpec(n.H, key_width=n.K, value_width=n.V)
    return LayerSpec(n.D, attention, n.F, placement, dtype=COMPLEX)


def layer(kind, placement):
    return lambda n, rng: kind(spec(n, placement), rng)


def encoder(placement):
    return lambda n, rng: Reconstructor(spec(n, placement), 2, rng, final_norm=True)


LAYERS = {
    "Linear": AnyShape(lambda n, rng: Linear(n.D, n.F, rng, COMPLEX), ["BTD"]),
    "LayerNorm": AnyShape(lambda n, rng: LayerNorm(n.D, COMPLEX), ["BTD"]),
    "FeedForward": AnyShape(lambda n, rng: FeedForward(n.D, n.F, rng, COMPLEX, "gelu"), ["BTD"]),
    "LearnedPositions": AnyShape(
        lambda n, rng: LearnedPositions(n.T + 1, n.D, rng, dtype=COMPLEX), ["BTD"]
    ),
    "TiedReadout": AnyShape(lambda n, rng: TiedReadout(n.V, COMPLEX), ["BTD", "VD"]),
    "MultiHeadSelfAttention": AnyShape(attention(MultiHeadSelfAttention), ["BTD"], ["BHTT"]),
    "MultiHeadCrossAttention": AnyShape(
        attention(MultiHeadCrossAttention), ["BTD", "BSD"], ["BHTS"]
    ),
}
for norm in ("post", "pre"):
    LAYERS |= {
        f"EncoderLayer, {norm}": AnyShape(layer(EncoderLayer, norm), ["BTD"], ["BHTT"]),
        f"DecoderLayer, {norm}": AnyShape(
            layer(DecoderLayer, norm), ["BTD", "BSD"], ["BHTT", "BHTS"]
        ),
        f"Reconstructor, {norm}": AnyShape(encoder(norm), ["BTD"], ["BHTT"]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
@given(generators, st.builds(Sizes, *[sizes] * 7))
def test_gradients_agree_with_the_complex_step(case, rng, n):
    layer = randomise(case.build(n, rng), rng)
    inputs = [normal(rng, n.shape(axes)).astype(COMPLEX) for axes in case.inputs]
    masks = [broadcastable(rng, *n.shape(axes)) for axes in case.masks]
    y, cache = layer.forward(*inputs, *masks)
    dy = normal(rng, y.shape)
    gradients = gradients_of(layer, dy, cache)

    expected = size = 0
    for name, array in (named(inputs) | layer.parameters()).items():
        direction = normal(rng, array.shape)
        array += 1e-20j * direction
        expected += (gradients[name].real * direction).sum()
        size += np.abs(gradients[name] * direction).sum()
    change = (dy * layer.forward(*inputs, *masks)[0]).sum().imag / 1e-20
    assert abs(change - expected) <= 1e-10 * size
