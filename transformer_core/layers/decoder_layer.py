"""One layer of the Transformer decoder."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.names import join
from transformer_core.layers.feed_forward import FeedForward
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import (
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
)
from transformer_core.layers.residual import Residual, ResidualCache


class DecoderLayerCache(NamedTuple):
    self_attention: ResidualCache
    cross_attention: ResidualCache
    feed_forward: ResidualCache


class DecoderLayer(Layer):
    """Self-attention, cross-attention to a source, then the feed-forward layer (eq:decoder-layer).

    Each has its residual connection.

    Parameters
    ----------
    width, heads, hidden_width : int
        D, H (a divisor of D) and F.
    norm : {"post", "pre"}
        Where the normalisation stands, see ``Residual``. The source is not normalised here.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    dropout : float
        Rate, on the attention weights and on the output of the three branches.
    activation : {"relu", "gelu", "gelu_tanh"}
        Of the feed-forward layer.
    """

    def __init__(
        self,
        width,
        heads,
        hidden_width,
        norm,
        rng,
        dtype=np.float32,
        dropout=0.0,
        activation="relu",
    ):
        self_attention = MultiHeadSelfAttention(width, heads, rng, dtype, dropout)
        cross_attention = MultiHeadCrossAttention(width, heads, rng, dtype, dropout)
        feed_forward = FeedForward(width, hidden_width, rng, dtype, activation)
        self.self_attention = Residual(self_attention, width, norm, dtype, dropout)
        self.cross_attention = Residual(cross_attention, width, norm, dtype, dropout)
        self.feed_forward = Residual(feed_forward, width, norm, dtype, dropout)
        self.sublayers = {
            "self_attention": self.self_attention,
            "cross_attention": self.cross_attention,
            "feed_forward": self.feed_forward,
        }

    def forward(self, x, source, keep=None, source_keep=None, rng=None):
        """Map x (B, T, D) and source (B, S, D) to y (B, T, D).

        ``keep`` broadcasts to (B, H, T, T), ``source_keep`` to (B, H, T, S). ``rng`` draws what
        is dropped in training; None: evaluation.
        """
        x, self_cache = self.self_attention.forward(x, keep, rng, rng=rng)
        x, cross_cache = self.cross_attention.forward(
            x, source, source_keep, rng, rng=rng
        )
        y, feed_forward_cache = self.feed_forward.forward(x, rng=rng)
        return y, DecoderLayerCache(self_cache, cross_cache, feed_forward_cache)

    def backward(self, dy, cache):
        """Return dx, dsource and the gradients (eq:decoder-layer-backward)."""
        dx, dfeed_forward = self.feed_forward.backward(dy, cache.feed_forward)
        dx, dsource, dcross = self.cross_attention.backward(dx, cache.cross_attention)
        dx, dself = self.self_attention.backward(dx, cache.self_attention)
        grads = {
            "self_attention": dself,
            "cross_attention": dcross,
            "feed_forward": dfeed_forward,
        }
        return dx, dsource, join(grads)

    def step(self, x, past, source, source_keep=None):
        """Map one new position x (B, 1, D) to y, in evaluation.

        Parameters
        ----------
        x : ndarray (B, 1, D)
        past, source : KeyValue
            Of the positions before it, and of the source.
        source_keep : ndarray of bool, broadcastable to (B, H, 1, S), optional

        Returns
        -------
        y : ndarray (B, 1, D)
        past : KeyValue
            With the new position's.
        """
        x, past = self.self_attention.step(x, past)
        x, _ = self.cross_attention.step(x, source, source_keep)
        y, _ = self.feed_forward.forward(x)
        return y, past
