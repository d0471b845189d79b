"""Every op and every layer at a generic point."""

from itertools import product
from typing import NamedTuple

import numpy as np
from witnesses import causal, normal, padding, randomise, scattered

from transformer_core import ops
from transformer_core.layers import (
    EncoderLayer,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    Linear,
    MultiHeadSelfAttention,
    Residual,
)
from transformer_core.models import Encoder


class Op(NamedTuple):
    forward: callable
    backward: callable
    shapes: dict
    settings: dict = {}

    def draw(self, rng, dtype):
        """Draw real arrays of a dtype, which may be complex."""
        return {
            name: normal(rng, shape).astype(dtype)
            for name, shape in self.shapes.items()
        }

    def gradients(self, dy, cache):
        """Run the backward pass and name what it returns."""
        gradients = self.backward(dy, cache)
        if isinstance(gradients, np.ndarray):
            gradients = (gradients,)
        return dict(zip(self.shapes, gradients, strict=True))


class LayerCase(NamedTuple):
    build: callable
    shape: tuple
    context: tuple = ()

    def draw(self, rng, dtype):
        """Build the layer at a generic point, and draw an input for it."""
        layer = randomise(self.build(np.random.default_rng(1), dtype), rng)
        return layer, normal(rng, self.shape).astype(dtype)


class Restarted:
    """A layer in training mode that draws the same dropout masks at every call."""

    def __init__(self, layer):
        self.layer = layer
        self.parameters, self.backward = layer.parameters, layer.backward

    def forward(self, x, *context):
        return self.layer.forward(x, *context, rng=np.random.default_rng(3))


def restarted(build):
    return lambda rng, dtype: Restarted(build(rng, dtype))


def dropout(x):
    return ops.dropout(x, 0.3, np.random.default_rng(3))


def attention_with_dropout(query, key, value, keep):
    return ops.attention(query, key, value, keep, 0.3, np.random.default_rng(3))


def mean_squared_error_backward(dloss, cache):
    """Give both gradients: the target's is the negative of the prediction's."""
    dprediction = ops.mean_squared_error_backward(dloss, cache)
    return dprediction, -dprediction


MASKS = {
    "no mask": None,
    "padding": padding([4, 2], 4),
    "causal": causal(4)[:3],
    "a query without keys": scattered(np.random.default_rng(2), 2, 3, 3, 4),
}
ATTENTION = Op(
    ops.attention,
    ops.attention_backward,
    {"query": (2, 3, 3, 5), "key": (2, 3, 4, 5), "value": (2, 3, 4, 2)},
)
SOFTMAX = Op(ops.softmax, ops.softmax_backward, {"x": (2, 3, 3, 4)})

IDS = np.array([[3, 0, 3, 5], [3, 1, 0, 1]])  # repeated in a row and over the batch
TARGETS = np.array([[0, 4, 2], [2, 2, 1]])
TOKEN_WEIGHTS = np.array([[0.5, 0.0, 2.0], [1.0, 0.0, 3.0]])
CROSS_ENTROPY = Op(ops.cross_entropy, ops.cross_entropy_backward, {"logits": (2, 3, 5)})

OPS = {
    "cross_entropy": CROSS_ENTROPY._replace(settings={"targets": TARGETS}),
    "cross_entropy, weights": CROSS_ENTROPY._replace(
        settings={"targets": TARGETS, "weights": TOKEN_WEIGHTS}
    ),
    "embedding": Op(
        lambda table, ids: ops.embedding(ids, table),
        ops.embedding_backward,
        {"table": (7, 3)},
        {"ids": IDS},
    ),
    "layer_norm": Op(
        ops.layer_norm,
        ops.layer_norm_backward,
        {"x": (2, 3, 5), "gamma": (5,), "beta": (5,)},
        {"eps": 0.1},
    ),
    "linear": Op(
        ops.linear,
        ops.linear_backward,
        {"x": (2, 3, 4), "weight": (4, 5), "bias": (5,)},
    ),
    "mean_squared_error": Op(
        ops.mean_squared_error,
        mean_squared_error_backward,
        {"prediction": (2, 3, 4), "target": (2, 3, 4)},
    ),
    "tied_readout": Op(
        ops.tied_readout,
        ops.tied_readout_backward,
        {"h": (2, 4, 3), "table": (7, 3), "bias": (7,)},
    ),
    "relu": Op(ops.relu, ops.relu_backward, {"x": (2, 3, 4)}),
    "gelu": Op(ops.gelu, ops.gelu_backward, {"x": (2, 3, 4)}),
    "gelu_tanh": Op(ops.gelu_tanh, ops.gelu_tanh_backward, {"x": (2, 3, 4)}),
    "dropout": Op(dropout, ops.dropout_backward, {"x": (2, 3, 4)}),
}
for mask, keep in MASKS.items():
    OPS[f"softmax, {mask}"] = SOFTMAX._replace(settings={"keep": keep})
    OPS[f"attention, {mask}"] = ATTENTION._replace(settings={"keep": keep})
    OPS[f"attention with dropout, {mask}"] = ATTENTION._replace(
        forward=attention_with_dropout, settings={"keep": keep}
    )

KEEP = padding([5, 3], 5) & causal(5)
KEEP[1, 0, 2] = False  # a query that may attend to nothing


def residual(norm, dropout=0.0):
    return lambda rng, dtype: Residual(
        FeedForward(6, 7, rng, dtype), 6, norm, dtype, dropout
    )


def encoder_layer(norm, dropout=0.0):
    return lambda rng, dtype: EncoderLayer(6, 2, 7, norm, rng, dtype, dropout)


def encoder(norm, final_norm, readout):
    return lambda rng, dtype: Encoder(
        2,
        6,
        2,
        7,
        norm=norm,
        final_norm=final_norm,
        readout=readout,
        rng=rng,
        dtype=dtype,
    )


LAYERS = {
    "Linear": LayerCase(lambda rng, dtype: Linear(4, 3, rng, dtype), (2, 5, 4)),
    "LayerNorm": LayerCase(lambda rng, dtype: LayerNorm(6, dtype), (2, 5, 6)),
    "FeedForward": LayerCase(
        lambda rng, dtype: FeedForward(6, 7, rng, dtype), (2, 5, 6)
    ),
    "LearnedPositions": LayerCase(
        lambda rng, dtype: LearnedPositions(7, 6, rng, dtype=dtype), (2, 5, 6)
    ),
    "MultiHeadSelfAttention": LayerCase(
        lambda rng, dtype: MultiHeadSelfAttention(6, 2, rng, dtype), (2, 5, 6), (KEEP,)
    ),
    "MultiHeadSelfAttention, dropout": LayerCase(
        restarted(lambda rng, dtype: MultiHeadSelfAttention(6, 2, rng, dtype, 0.3)),
        (2, 5, 6),
        (KEEP,),
    ),
    "Residual, post": LayerCase(residual("post"), (2, 5, 6)),
    "Residual, pre": LayerCase(residual("pre"), (2, 5, 6)),
    "EncoderLayer, post": LayerCase(encoder_layer("post"), (2, 5, 6), (KEEP,)),
    "EncoderLayer, pre": LayerCase(encoder_layer("pre"), (2, 5, 6), (KEEP,)),
}
for activation in ("gelu", "gelu_tanh"):
    LAYERS[f"FeedForward, {activation}"] = LayerCase(
        lambda rng, dtype, activation=activation: FeedForward(
            6, 7, rng, dtype, activation
        ),
        (2, 5, 6),
    )
for norm in ("post", "pre"):
    LAYERS[f"Residual, {norm}, dropout"] = LayerCase(
        restarted(residual(norm, 0.3)), (2, 5, 6)
    )
    LAYERS[f"EncoderLayer, {norm}, dropout"] = LayerCase(
        restarted(encoder_layer(norm, 0.3)), (2, 5, 6), (KEEP,)
    )
ENCODERS = {
    f"Encoder, {norm}" + ", final norm" * final_norm + ", readout" * readout: LayerCase(
        encoder(norm, final_norm, readout), (2, 5, 6), (KEEP,)
    )
    for norm, final_norm, readout in product(
        ["post", "pre"], [False, True], [False, True]
    )
}
