"""Small classes that own parameters and call the ops.

``y, cache = layer.forward(x, ...)`` and ``dx, grads = layer.backward(dy, cache)``, where ``grads``
has the names of ``layer.parameters()``, always all of them.
"""

from transformer_core.layers.decoder_layer import DecoderLayer
from transformer_core.layers.embedding import Embedding, TiedReadout
from transformer_core.layers.encoder_layer import EncoderLayer
from transformer_core.layers.feed_forward import FeedForward
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.linear import Linear
from transformer_core.layers.multi_head_attention import (
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
)
from transformer_core.layers.positions import LearnedPositions
from transformer_core.layers.residual import Residual

__all__ = [
    "DecoderLayer",
    "Embedding",
    "EncoderLayer",
    "FeedForward",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "Residual",
    "TiedReadout",
]
