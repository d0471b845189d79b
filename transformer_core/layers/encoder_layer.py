"""One layer of the Transformer encoder."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import (
    KeyValue,
    MultiHeadSelfAttention,
)
from transformer_core.layers.residual import ResidualCache
from transformer_core.layers.spec import LayerSpec


class EncoderLayerCache(NamedTuple):
    attention: ResidualCache
    feed_forward: ResidualCache


class EncoderLayer(Layer):
    """Self-attention, then the feed-forward layer, each with its residual connection.

    Parameters
    ----------
    spec : LayerSpec
    rng : numpy.random.Generator
    """

    def __init__(self, spec: LayerSpec, rng: np.random.Generator):
        attention = MultiHeadSelfAttention(
            spec.width, spec.attention, rng, spec.dtype, spec.dropout
        )
        self.attention = spec.make_residual(attention)
        self.feed_forward = spec.make_residual(spec.make_feed_forward(rng))

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, EncoderLayerCache]:
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        attended, attention_cache = self.attention.forward(x, keep, rng=rng)
        y, feed_forward_cache = self.feed_forward.forward(attended, rng=rng)
        return y, EncoderLayerCache(attention_cache, feed_forward_cache)

    def backward(
        self, dy: np.ndarray, cache: EncoderLayerCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx (B, T, D) and the gradients: the last branch first (eq:chain-backward)."""
        dattended, dfeed_forward = self.feed_forward.backward(dy, cache.feed_forward)
        dx, dattention = self.attention.backward(dattended, cache.attention)
        return dx, join({"attention": dattention, "feed_forward": dfeed_forward})

    def begin(self, batch: int) -> KeyValue:
        """Return the state before the first position of ``batch`` sequences."""
        return self.attention.branch.begin(batch)

    def step(
        self, x: np.ndarray, past: KeyValue, keep: np.ndarray | None = None
    ) -> tuple[np.ndarray, KeyValue]:
        """Map N new positions x (B, N, D) to y, in evaluation (eq:cached-attention).

        ``keep`` broadcasts to (B, H, N, T + N). The past is returned with the new positions.
        """
        x, past = self.attention.step(x, past, keep)
        y, _ = self.feed_forward.forward(x)
        return y, past
