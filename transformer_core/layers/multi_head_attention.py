"""Multi-head attention with its parameters."""

from typing import NamedTuple

import numpy as np

from transformer_core.checks import check_positive_int
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.names import join
from transformer_core.ops.attention import AttentionCache, attention, attention_backward
from transformer_core.ops.heads import check_heads, merge_heads, split_heads
from transformer_core.ops.linear import LinearCache


class SelfAttentionCache(NamedTuple):
    query_key_value: LinearCache
    attention: AttentionCache
    output: LinearCache


class MultiHeadSelfAttention(Layer):
    """Every position attends to every position of its own sequence, in H heads (eq:multi-head).

    The three projections are one matrix product: columns 0 to D of ``query_key_value`` make the
    queries, D to 2D the keys, 2D to 3D the values.

    Parameters
    ----------
    width : int
        D.
    heads : int
        H, a divisor of D.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    """

    def __init__(self, width, heads, rng, dtype=np.float32):
        check_positive_int("width", width)
        check_heads(width, heads)
        self.heads = heads
        self.query_key_value = Linear(width, 3 * width, rng, dtype)
        self.output = Linear(width, width, rng, dtype)
        self.sublayers = {
            "query_key_value": self.query_key_value,
            "output": self.output,
        }

    def forward(self, x, keep=None):
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T)."""
        projected, projection_cache = self.query_key_value.forward(x)
        query, key, value = (
            split_heads(part, self.heads) for part in np.split(projected, 3, axis=-1)
        )
        context, attention_cache = attention(query, key, value, keep)
        y, output_cache = self.output.forward(merge_heads(context))
        return y, SelfAttentionCache(projection_cache, attention_cache, output_cache)

    def backward(self, dy, cache):
        dmerged, doutput = self.output.backward(dy, cache.output)
        dheads = attention_backward(split_heads(dmerged, self.heads), cache.attention)
        dprojected = np.concatenate([merge_heads(dhead) for dhead in dheads], axis=-1)
        dx, dprojection = self.query_key_value.backward(
            dprojected, cache.query_key_value
        )
        return dx, join({"query_key_value": dprojection, "output": doutput})
