"""Every op and every layer at a generic point."""

from itertools import product
from typing import NamedTuple

import numpy as np
from helpers.witnesses import causal, normal, padding, randomise, scattered

from transformer_core import ops
from transformer_core.layers import (
    AttentionSpec,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    GatedFeedForward,
    HeadTransform,
    LayerNorm,
    LayerSpec,
    LearnedPositions,
    Linear,
    LoraLinear,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    OwnReadout,
    PairTable,
    Pooler,
    QkNorm,
    Residual,
    RmsNorm,
    TiedReadout,
)
from transformer_core.models import Decoder, Encoder
from transformer_core.tasks.reconstruction import Reconstructor


class Op(NamedTuple):
    forward: callable
    backward: callable
    shapes: dict
    settings: dict = {}

    def draw(self, rng, dtype):
        """Draw real arrays of a dtype, which may be complex."""
        return {name: normal(rng, shape).astype(dtype) for name, shape in self.shapes.items()}

    def gradients(self, dy, cache):
        """Run the backward pass and name what it returns."""
        gradients = self.backward(dy, cache)
        if isinstance(gradients, np.ndarray):
            gradients = (gradients,)
        return dict(zip(self.shapes, gradients, strict=True))


class LayerCase(NamedTuple):
    """A layer with the shape of x and, where it has one, of its second input."""

    build: callable
    shape: tuple = (2, 5, 6)
    context: tuple = ()
    second: tuple | None = None

    def draw(self, rng, dtype):
        """Build the layer at a generic point, and draw its inputs."""
        layer = randomise(self.build(np.random.default_rng(1), dtype), rng)
        shapes = [self.shape] if self.second is None else [self.shape, self.second]
        return layer, *(normal(rng, shape).astype(dtype) for shape in shapes)


class Restarted:
    """A layer in training mode that draws the same dropout masks at every call."""

    def __init__(self, layer):
        self.layer = layer
        self.parameters, self.backward = layer.parameters, layer.backward

    def forward(self, *inputs):
        return self.layer.forward(*inputs, rng=np.random.default_rng(3))


class WithoutTable:
    """An output layer with weights of its own, without the table that it makes no use of."""

    def __init__(self, layer):
        self.layer = layer
        self.parameters = layer.parameters

    def forward(self, h):
        return self.layer.forward(h, None)

    def backward(self, dlogits, cache):
        dh, _, grads = self.layer.backward(dlogits, cache)
        return dh, grads


def restarted(build):
    return lambda rng, dtype: Restarted(build(rng, dtype))


def dropout(x):
    return ops.dropout(x, 0.3, np.random.default_rng(3))


def attention_with_dropout(query, key, value, keep):
    return ops.attention(query, key, value, keep, 0.3, np.random.default_rng(3))


def contrastive_loss_backward(dloss, cache):
    """Give the gradients of the arrays: that of the temperature has a test of its own."""
    return ops.contrastive_loss_backward(dloss, cache)[:2]


def mean_squared_error_backward(dloss, cache):
    """Give both gradients: the target's is the negative of the prediction's."""
    dprediction = ops.mean_squared_error_backward(dloss, cache)
    return dprediction, -dprediction


MASKS = {
    "no mask": None,
    "padding": padding([4, 2], 4),
    "causal": causal(4)[:3],
    "padding and causal": padding([4, 2], 4) & causal(4)[:3],
    "a query without keys": scattered(np.random.default_rng(2), 2, 3, 3, 4),
}


def op(forward, shapes, **settings):
    """A case of an op whose backward pass has its name."""
    return Op(forward, getattr(ops, f"{forward.__name__}_backward"), shapes, settings)


ATTENTION = op(ops.attention, {"query": (2, 3, 3, 5), "key": (2, 3, 4, 5), "value": (2, 3, 4, 2)})
ROTARY = op(
    ops.rotary,
    {"x": (2, 3, 4, 6)},
    positions=np.array([3, 0, 7, 8]),
    frequencies=np.array([1.0, 0.3, 0.02]),
)
CONTRASTIVE_LOSS = Op(
    ops.contrastive_loss,
    contrastive_loss_backward,
    {"query": (3, 5), "key": (4, 5)},
    {"temperature": 0.5},
)
SOFTMAX = op(ops.softmax, {"x": (2, 3, 3, 4)})

IDS = np.array([[3, 0, 3, 5], [3, 1, 0, 1]])  # repeated in a row and over the batch
TARGETS = np.array([[0, 4, 2], [2, 2, 1]])
TOKEN_WEIGHTS = np.array([[0.5, 0.0, 2.0], [1.0, 0.0, 3.0]])
SMOOTHED = {"targets": TARGETS, "weights": TOKEN_WEIGHTS, "smoothing": 0.3}
CROSS_ENTROPY = op(ops.cross_entropy, {"logits": (2, 3, 5)})

OPS = {
    "contrastive_loss": CONTRASTIVE_LOSS,
    "contrastive_loss, as many keys": CONTRASTIVE_LOSS._replace(
        shapes=CONTRASTIVE_LOSS.shapes | {"key": (3, 5)}
    ),
    "cross_entropy": CROSS_ENTROPY._replace(settings={"targets": TARGETS}),
    "cross_entropy, weights": CROSS_ENTROPY._replace(
        settings={"targets": TARGETS, "weights": TOKEN_WEIGHTS}
    ),
    "cross_entropy, smoothing": CROSS_ENTROPY._replace(settings=SMOOTHED),
    "embedding": Op(
        lambda table, ids: ops.embedding(ids, table),
        ops.embedding_backward,
        {"table": (7, 3)},
        {"ids": IDS},
    ),
    "layer_norm": op(ops.layer_norm, {"x": (2, 3, 5), "gamma": (5,), "beta": (5,)}, eps=0.1),
    "rms_norm": op(ops.rms_norm, {"x": (2, 3, 5), "gamma": (5,)}, eps=0.1),
    "l2_normalize": op(ops.l2_normalize, {"x": (2, 3, 5)}),
    "linear": op(ops.linear, {"x": (2, 3, 4), "weight": (4, 5), "bias": (5,)}),
    "low_rank": op(ops.low_rank, {"x": (2, 3, 4), "a": (4, 2), "b": (2, 5)}, alpha=3.4),
    "mean_pool": op(ops.mean_pool, {"x": (2, 3, 4)}),
    "mean_pool, padding": op(
        ops.mean_pool,
        {"x": (3, 4, 5)},
        keep=np.array([[True, True, True, False], [False, True, False, True], [False] * 4]),
    ),
    "mean_squared_error": Op(
        ops.mean_squared_error,
        mean_squared_error_backward,
        {"prediction": (2, 3, 4), "target": (2, 3, 4)},
    ),
    "tied_readout": op(ops.tied_readout, {"h": (2, 4, 3), "table": (7, 3), "bias": (7,)}),
    "relu": op(ops.relu, {"x": (2, 3, 4)}),
    "gelu": op(ops.gelu, {"x": (2, 3, 4)}),
    "gelu_tanh": op(ops.gelu_tanh, {"x": (2, 3, 4)}),
    "soft_cap": op(ops.soft_cap, {"x": (2, 3, 4)}, cap=1.5),
    "tanh": op(ops.tanh, {"x": (2, 3, 4)}),
    "silu": op(ops.silu, {"x": (2, 3, 4)}),
    "gated_product": op(ops.gated_product, {"gate": (2, 3, 4), "value": (2, 3, 4)}),
    "grouped_attention": op(
        ops.attention,
        {"query": (2, 6, 3, 5), "key": (2, 2, 4, 5), "value": (2, 2, 4, 3)},
        keep=scattered(np.random.default_rng(2), 2, 6, 3, 4),
    ),
    "rotary, pairs": ROTARY,
    "rotary, halves": ROTARY._replace(settings=ROTARY.settings | {"halves": True}),
    "dropout": Op(dropout, ops.dropout_backward, {"x": (2, 3, 4)}),
}
for mask, keep in MASKS.items():
    OPS[f"softmax, {mask}"] = SOFTMAX._replace(settings={"keep": keep})
    OPS[f"attention, {mask}"] = ATTENTION._replace(settings={"keep": keep})
    OPS[f"tiled_attention, {mask}"] = ATTENTION._replace(
        forward=ops.tiled_attention,
        backward=ops.tiled_attention_backward,
        settings={"keep": keep, "tile": 2},
    )
    OPS[f"attention with dropout, {mask}"] = ATTENTION._replace(
        forward=attention_with_dropout, settings={"keep": keep}
    )

KEEP = padding([5, 3], 5) & causal(5)
TOKENS = np.array([[3, 1, 3, 1, 2], [0, 2, 2, 2, 1]])
KEEP[1, 0, 2] = False  # a query that may attend to nothing
SOURCE_KEEP = scattered(np.random.default_rng(2), 2, 2, 5, 4)  # and another one


UNEQUAL = AttentionSpec(2, key_width=5, value_width=4)  # H * d_v is not D
WIDTH = 6


def split_variant(width, heads, hidden_width, variant, placement="pre", dtype=float):
    """Take what belongs to the layers from the settings of a model: a spec, and the others."""
    of_layers = {"attention": heads, "placement": placement}
    others = {}
    for name, value in variant.items():
        place = of_layers if name in LayerSpec.__dataclass_fields__ else others
        place[name] = value
    return LayerSpec(width, hidden_width=hidden_width, dtype=dtype, **of_layers), others


def layer(kind, placement, attention=2, **settings):
    """Build an encoder layer or a decoder layer."""
    return lambda rng, dtype: kind(
        LayerSpec(WIDTH, attention, 7, placement, dtype=dtype, **settings), rng
    )


def residual(placement, dropout=0.0):
    return lambda rng, dtype: Residual(
        FeedForward(6, 7, rng, dtype), LayerNorm(6, dtype), placement, dropout
    )


def cross_residual(placement):
    return lambda rng, dtype: Residual(
        MultiHeadCrossAttention(6, 2, rng, dtype), LayerNorm(6, dtype), placement
    )


def stack(kind, placement, final_norm, recompute=False, dropout=0.0):
    """Build an encoder or a decoder of two layers."""
    return lambda rng, dtype: kind(
        LayerSpec(WIDTH, 2, 7, placement, dropout=dropout, dtype=dtype),
        2,
        rng,
        final_norm,
        recompute,
    )


def reconstructor(placement, final_norm, readout):
    return lambda rng, dtype: Reconstructor(
        LayerSpec(WIDTH, 2, 7, placement, dtype=dtype), 2, rng, final_norm, readout
    )


def attention(kind, spec, dropout=0.0):
    return lambda rng, dtype: kind(WIDTH, spec, rng, dtype, dropout)


def masked(build):
    """A case of a layer that attends to its own input."""
    return LayerCase(build, context=(KEEP,))


def with_source(build, *context):
    """A case of a layer that attends to a second input, too."""
    return LayerCase(build, (2, 5, 6), (*context, SOURCE_KEEP), (2, 4, 6))


LAYERS = {
    "Linear": LayerCase(lambda rng, dtype: Linear(4, 3, rng, dtype), (2, 5, 4)),
    "LoraLinear": LayerCase(
        lambda rng, dtype: LoraLinear(randomise(Linear(4, 3, rng, dtype), rng), 2, 5.0, rng),
        (2, 5, 4),
    ),
    "LayerNorm": LayerCase(lambda rng, dtype: LayerNorm(6, dtype)),
    "RmsNorm": LayerCase(lambda rng, dtype: RmsNorm(6, dtype)),
    "FeedForward": LayerCase(lambda rng, dtype: FeedForward(6, 7, rng, dtype)),
    "GatedFeedForward": LayerCase(lambda rng, dtype: GatedFeedForward(6, 7, rng, dtype)),
    "LearnedPositions": LayerCase(lambda rng, dtype: LearnedPositions(7, 6, rng, dtype=dtype)),
    "PairTable": LayerCase(lambda rng, dtype: PairTable(4, 6, dtype), (2, 5, 6), (TOKENS,)),
    "TiedReadout": LayerCase(lambda rng, dtype: TiedReadout(7, dtype), (2, 5, 6), second=(7, 6)),
    "Residual, post": LayerCase(residual("post")),
    "Residual, pre": LayerCase(residual("pre")),
    "EncoderLayer, post": masked(layer(EncoderLayer, "post")),
    "EncoderLayer, pre": masked(layer(EncoderLayer, "pre")),
    "QkNorm": LayerCase(lambda rng, dtype: QkNorm(6, dtype), (2, 3, 5, 6)),
    "QkNorm, halves": LayerCase(lambda rng, dtype: QkNorm(6, dtype, True), (2, 3, 5, 6)),
    "Pooler": LayerCase(lambda rng, dtype: Pooler(6, rng, dtype)),
    "HeadTransform": LayerCase(
        lambda rng, dtype: HeadTransform(
            LayerSpec(6, 2, 7, "post", feed_forward="gelu_tanh", dtype=dtype), rng
        )
    ),
    "OwnReadout": LayerCase(lambda rng, dtype: WithoutTable(OwnReadout(6, 7, rng, dtype))),
}
OF_ANY = {"": 2, ", tiled": AttentionSpec(2, tile=2), ", unequal widths": UNEQUAL}
OF_SELF = {
    ", rotary": AttentionSpec(3, 4, 3, transform="rotary"),
    ", normalised": AttentionSpec(3, 4, 3, transform="qk_norm_rotary_halves"),
    ", windowed": AttentionSpec(2, window=3),
}
for kind, specs, case in (
    (MultiHeadSelfAttention, OF_ANY | OF_SELF, masked),
    (MultiHeadCrossAttention, OF_ANY, with_source),
):
    LAYERS[f"{kind.__name__}, dropout"] = case(restarted(attention(kind, 2, 0.3)))
    for variant, spec in specs.items():
        LAYERS[kind.__name__ + variant] = case(attention(kind, spec))
for kind, activation in product((FeedForward, GatedFeedForward), ("gelu", "gelu_tanh")):
    LAYERS[f"{kind.__name__}, {activation}"] = LayerCase(
        lambda rng, dtype, kind=kind, activation=activation: kind(6, 7, rng, dtype, activation)
    )
for norm in ("post", "pre"):
    LAYERS[f"Residual, {norm}, dropout"] = LayerCase(restarted(residual(norm, 0.3)))
    LAYERS[f"Residual, {norm}, cross-attention"] = with_source(cross_residual(norm))
    LAYERS[f"EncoderLayer, {norm}, dropout"] = masked(
        restarted(layer(EncoderLayer, norm, dropout=0.3))
    )
    for variant, build in {
        norm: layer(DecoderLayer, norm),
        f"{norm}, GELU": layer(DecoderLayer, norm, feed_forward="gelu"),
        f"{norm}, unequal widths": layer(DecoderLayer, norm, UNEQUAL),
        f"{norm}, dropout": restarted(layer(DecoderLayer, norm, dropout=0.3)),
    }.items():
        LAYERS[f"DecoderLayer, {variant}"] = with_source(build, KEEP)
STACKS = {
    "Encoder, pre, recompute": masked(restarted(stack(Encoder, "pre", True, True, 0.3))),
    "Decoder, post, recompute": with_source(
        restarted(stack(Decoder, "post", False, True, 0.3)), KEEP
    ),
}
for norm, final_norm in product(["post", "pre"], [False, True]):
    variant = norm + ", final norm" * final_norm
    STACKS[f"Encoder, {variant}"] = masked(stack(Encoder, norm, final_norm))
    STACKS[f"Decoder, {variant}"] = with_source(stack(Decoder, norm, final_norm), KEEP)
    for readout in (False, True):
        STACKS[f"Reconstructor, {variant}" + ", readout" * readout] = masked(
            reconstructor(norm, final_norm, readout)
        )
