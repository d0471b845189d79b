"""One derivation a file: forward and backward side by side, no state.

``y, cache = op(x, ...)`` and ``dx, ... = op_backward(dy, cache)``.
"""

from transformer_core.ops.attention import attention, attention_backward
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.dropout import dropout, dropout_backward
from transformer_core.ops.embedding import (
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)
from transformer_core.ops.gelu import (
    gelu,
    gelu_backward,
    gelu_tanh,
    gelu_tanh_backward,
)
from transformer_core.ops.heads import merge_heads, split_heads
from transformer_core.ops.layer_norm import layer_norm, layer_norm_backward
from transformer_core.ops.linear import linear, linear_backward
from transformer_core.ops.masks import causal_keep, padding_keep
from transformer_core.ops.mean_squared_error import (
    mean_squared_error,
    mean_squared_error_backward,
)
from transformer_core.ops.positions import sinusoidal_positions
from transformer_core.ops.relu import relu, relu_backward
from transformer_core.ops.softmax import log_softmax, softmax, softmax_backward

__all__ = [
    "attention",
    "attention_backward",
    "causal_keep",
    "cross_entropy",
    "cross_entropy_backward",
    "dropout",
    "dropout_backward",
    "embedding",
    "embedding_backward",
    "gelu",
    "gelu_backward",
    "gelu_tanh",
    "gelu_tanh_backward",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_backward",
    "log_softmax",
    "mean_squared_error",
    "mean_squared_error_backward",
    "merge_heads",
    "padding_keep",
    "relu",
    "relu_backward",
    "sinusoidal_positions",
    "softmax",
    "softmax_backward",
    "split_heads",
    "tied_readout",
    "tied_readout_backward",
]
