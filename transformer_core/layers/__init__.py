"""Small classes that own parameters and call the ops.

``y, cache = layer.forward(x, ...)`` and ``dx, grads = layer.backward(dy, cache)``, where ``grads``
has the names of ``layer.parameters()``, always all of them.
"""

from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.decoder_layer import DecoderLayer
from transformer_core.layers.embedding import Embedding, OwnReadout, TiedReadout
from transformer_core.layers.encoder_layer import EncoderLayer
from transformer_core.layers.feed_forward import FeedForward
from transformer_core.layers.gated_feed_forward import GatedFeedForward
from transformer_core.layers.head_transform import HeadTransform
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.linear import Linear
from transformer_core.layers.lora import LoraLinear, add_lora, merge_lora
from transformer_core.layers.multi_head_attention import (
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
)
from transformer_core.layers.pair_table import PairTable
from transformer_core.layers.pooler import Pooler
from transformer_core.layers.positions import LearnedPositions, SinusoidalPositions
from transformer_core.layers.qk_norm import QkNorm
from transformer_core.layers.residual import Residual
from transformer_core.layers.rms_norm import RmsNorm
from transformer_core.layers.rotary import Rotary
from transformer_core.layers.spec import FEED_FORWARDS, NORMS, LayerSpec, NormSpec

__all__ = [
    "FEED_FORWARDS",
    "NORMS",
    "AttentionSpec",
    "DecoderLayer",
    "Embedding",
    "EncoderLayer",
    "FeedForward",
    "GatedFeedForward",
    "HeadTransform",
    "Layer",
    "LayerNorm",
    "LayerSpec",
    "LearnedPositions",
    "Linear",
    "LoraLinear",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "NormSpec",
    "OwnReadout",
    "PairTable",
    "Pooler",
    "QkNorm",
    "Residual",
    "RmsNorm",
    "Rotary",
    "SinusoidalPositions",
    "TiedReadout",
    "add_lora",
    "merge_lora",
]
