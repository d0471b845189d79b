"""One layer of the Transformer decoder."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_kind
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import (
    KeyValue,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
)
from transformer_core.layers.residual import ResidualCache
from transformer_core.layers.spec import LayerSpec


class DecoderLayerCache(NamedTuple):
    self_attention: ResidualCache
    cross_attention: ResidualCache
    feed_forward: ResidualCache


class DecoderLayerState(NamedTuple):
    past: KeyValue  # of the target so far
    source: KeyValue

    def select(self, rows: np.ndarray) -> "DecoderLayerState":
        """Return the state of some sequences, in another order, some of them several times."""
        return DecoderLayerState(self.past.select(rows), self.source.select(rows))


class DecoderLayer(Layer):
    """Self-attention, cross-attention to a source, then the feed-forward layer (eq:decoder-layer).

    Each has its residual connection.

    Parameters
    ----------
    spec : LayerSpec
        Its normalisations are for the target: the source is not normalised here.
    rng : numpy.random.Generator
    """

    def __init__(self, spec: LayerSpec, rng: np.random.Generator):
        settings = spec.width, spec.attention, rng, spec.dtype, spec.dropout
        self.self_attention = spec.make_residual(MultiHeadSelfAttention(*settings))
        self.cross_attention = spec.make_residual(MultiHeadCrossAttention(*settings))
        self.feed_forward = spec.make_residual(spec.make_feed_forward(rng))

    def forward(
        self,
        x: np.ndarray,
        source: np.ndarray,
        keep: np.ndarray | None = None,
        source_keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, DecoderLayerCache]:
        """Map x (B, T, D) and source (B, S, D) to y (B, T, D).

        ``keep`` broadcasts to (B, H, T, T), ``source_keep`` to (B, H, T, S). ``rng`` draws what
        is dropped in training; None: evaluation.
        """
        x, self_cache = self.self_attention.forward(x, keep, rng=rng)
        x, cross_cache = self.cross_attention.forward(x, source, source_keep, rng=rng)
        y, feed_forward_cache = self.feed_forward.forward(x, rng=rng)
        return y, DecoderLayerCache(self_cache, cross_cache, feed_forward_cache)

    def backward(
        self, dy: np.ndarray, cache: DecoderLayerCache
    ) -> tuple[np.ndarray, np.ndarray, dict]:
        """Return dx, dsource and the gradients (eq:decoder-layer-backward)."""
        dx, dfeed_forward = self.feed_forward.backward(dy, cache.feed_forward)
        dx, dsource, dcross = self.cross_attention.backward(dx, cache.cross_attention)
        dx, dself = self.self_attention.backward(dx, cache.self_attention)
        grads = {"self_attention": dself, "cross_attention": dcross}
        return dx, dsource, join(grads | {"feed_forward": dfeed_forward})

    def begin(self, source: np.ndarray) -> DecoderLayerState:
        """Return the state before the first position, of a source (B, S, D) that is read here."""
        read = self.cross_attention.branch.read(source)
        return DecoderLayerState(self.self_attention.branch.begin(len(source)), read)

    def step(
        self,
        x: np.ndarray,
        state: DecoderLayerState,
        source_keep: np.ndarray | None = None,
    ) -> tuple[np.ndarray, DecoderLayerState]:
        """Map N new positions x (B, N, D) to y, in evaluation (eq:cached-attention).

        ``source_keep`` broadcasts to (B, H, N, S). The state is returned with the new positions.
        """
        check_kind("state", state, DecoderLayerState)
        x, past = self.self_attention.step(x, state.past)
        x, _ = self.cross_attention.step(x, state.source, source_keep)
        y, _ = self.feed_forward.forward(x)
        return y, state._replace(past=past)
