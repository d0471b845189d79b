"""One layer of the Transformer encoder."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.names import join
from transformer_core.layers.feed_forward import FeedForward
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import MultiHeadSelfAttention
from transformer_core.layers.residual import Residual, ResidualCache


class EncoderLayerCache(NamedTuple):
    attention: ResidualCache
    feed_forward: ResidualCache


class EncoderLayer(Layer):
    """Self-attention, then the feed-forward layer, each with its residual connection.

    Parameters
    ----------
    width, heads, hidden_width : int
        D, H (a divisor of D) and F.
    norm : {"post", "pre"}
        Where the normalisation stands, see ``Residual``.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    dropout : float
        Rate, on the attention weights and on the output of both branches.
    activation : {"relu", "gelu", "gelu_tanh"}
        Of the feed-forward layer.
    attention_bias : bool
        False: the projections of the attention have no bias.
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
        attention_bias=True,
    ):
        attention = MultiHeadSelfAttention(
            width, heads, rng, dtype, dropout, attention_bias
        )
        feed_forward = FeedForward(width, hidden_width, rng, dtype, activation)
        self.attention = Residual(attention, width, norm, dtype, dropout)
        self.feed_forward = Residual(feed_forward, width, norm, dtype, dropout)
        self.sublayers = {
            "attention": self.attention,
            "feed_forward": self.feed_forward,
        }

    def forward(self, x, keep=None, rng=None):
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        attended, attention_cache = self.attention.forward(x, keep, rng, rng=rng)
        y, feed_forward_cache = self.feed_forward.forward(attended, rng=rng)
        return y, EncoderLayerCache(attention_cache, feed_forward_cache)

    def backward(self, dy, cache):
        dattended, dfeed_forward = self.feed_forward.backward(dy, cache.feed_forward)
        dx, dattention = self.attention.backward(dattended, cache.attention)
        return dx, join({"attention": dattention, "feed_forward": dfeed_forward})
