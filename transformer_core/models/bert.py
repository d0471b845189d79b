"""BERT, trained to restore masked tokens."""

from typing import NamedTuple

import numpy as np

from transformer_core.checks import check_ids, check_shape
from transformer_core.layers.embedding import Embedding, TiedReadout
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.linear import Linear
from transformer_core.layers.positions import LearnedPositions
from transformer_core.models.encoder import Encoder, EncoderCache
from transformer_core.names import join
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.dropout import (
    DropoutCache,
    check_rate,
    dropout,
    dropout_backward,
)
from transformer_core.ops.embedding import (
    EmbeddingCache,
    embedding,
    embedding_backward,
)
from transformer_core.ops.layer_norm import LayerNormCache
from transformer_core.ops.linear import LinearCache


class BertCache(NamedTuple):
    tokens: EmbeddingCache
    segments: EmbeddingCache | None
    positions: EmbeddingCache
    embedding_norm: LayerNormCache | None
    dropout: DropoutCache
    encoder: EncoderCache
    hidden: np.ndarray  # (B, T, D), what the encoder made
    masked: EmbeddingCache | None  # None: every position was read out
    readout: LinearCache


class Bert(Layer):
    """Embeddings, an encoder, and a read-out of V logits a position (eq:bert).

    The defaults are the model of seed 004.

    Parameters
    ----------
    vocabulary, length : int
        V, and the longest sequence.
    layers, width, heads, hidden_width : int
        L, D, H (a divisor of D) and F.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    norm : {"post", "pre"}
    activation : {"relu", "gelu", "gelu_tanh"}
    tied : bool
        True: the read-out shares the table of the token embeddings.
    final_norm, embedding_norm : bool
        A LayerNorm after the encoder, and one after the sum of the embeddings.
    segments : int
        How many kinds of segment there are. 0: no segment embeddings.
    attention_bias : bool
    dropout : float
        Rate, on the embeddings, the attention weights and the output of every branch.
    """

    def __init__(
        self,
        vocabulary,
        length,
        layers,
        width,
        heads,
        hidden_width,
        *,
        rng,
        dtype=np.float32,
        norm="post",
        activation="relu",
        tied=False,
        final_norm=True,
        embedding_norm=False,
        segments=0,
        attention_bias=False,
        dropout=0.0,
    ):
        check_rate("dropout", dropout)
        self.tied = tied
        self.dropout = dropout
        self.tokens = Embedding(vocabulary, width, rng, dtype=dtype)
        self.segments = (
            Embedding(segments, width, rng, dtype=dtype) if segments else None
        )
        self.positions = LearnedPositions(length, width, rng, dtype=dtype)
        self.embedding_norm = LayerNorm(width, dtype) if embedding_norm else None
        self.encoder = Encoder(
            layers,
            width,
            heads,
            hidden_width,
            norm=norm,
            final_norm=final_norm,
            readout=False,
            rng=rng,
            dtype=dtype,
            dropout=dropout,
            activation=activation,
            attention_bias=attention_bias,
        )
        self.readout = (
            TiedReadout(vocabulary, dtype)
            if tied
            else Linear(width, vocabulary, rng, dtype)
        )
        sublayers = {
            "tokens": self.tokens,
            "segments": self.segments,
            "positions": self.positions,
            "embedding_norm": self.embedding_norm,
            "encoder": self.encoder,
            "readout": self.readout,
        }
        self.sublayers = {name: layer for name, layer in sublayers.items() if layer}

    def forward(self, ids, masked=None, keep=None, segment_ids=None, rng=None):
        """Score every word of the vocabulary at each position that is asked for.

        Parameters
        ----------
        ids : ndarray of int (B, T)
        masked : ndarray of bool (B, T), optional
            The positions to read out, N in all. Default: every one.
        keep : ndarray of bool, broadcastable to (B, H, T, T), optional
        segment_ids : ndarray of int (B, T), optional
            The kind of segment that each token belongs to; needed if the model has segments.
        rng : numpy.random.Generator, optional
            Draws what is dropped in training. Default: evaluation.

        Returns
        -------
        logits : ndarray (N, V), or (B, T, V) without ``masked``
        cache : BertCache
        """
        check_shape("ids", ids, "B", "T")
        x, tokens_cache = self.tokens.forward(ids)
        segments_cache = norm_cache = masked_cache = None
        if self.segments:
            if segment_ids is None:
                raise ValueError(
                    f"segment_ids: expected an array {ids.shape}, got None"
                )
            check_shape("segment_ids", segment_ids, *ids.shape)
            rows, segments_cache = self.segments.forward(segment_ids)
            x = x + rows
        elif segment_ids is not None:
            raise ValueError("segment_ids: expected None, the model has no segments")
        x, positions_cache = self.positions.forward(x)
        if self.embedding_norm:
            x, norm_cache = self.embedding_norm.forward(x)
        x, dropout_cache = dropout(x, self.dropout, rng)
        hidden, encoder_cache = self.encoder.forward(x, keep, rng)
        h = hidden
        if masked is not None:
            check_masked(masked, ids.shape)
            h, masked_cache = embedding(
                np.flatnonzero(masked), hidden.reshape(-1, hidden.shape[-1])
            )
        if self.tied:
            logits, readout_cache = self.readout.forward(h, self.tokens.table)
        else:
            logits, readout_cache = self.readout.forward(h)
        return logits, BertCache(
            tokens_cache,
            segments_cache,
            positions_cache,
            norm_cache,
            dropout_cache,
            encoder_cache,
            hidden,
            masked_cache,
            readout_cache,
        )

    def backward(self, dlogits, cache):
        """Return None, for the ids, and the gradient of every parameter (eq:bert-backward)."""
        grads = {}
        if self.tied:
            dh, dtable, grads["readout"] = self.readout.backward(dlogits, cache.readout)
        else:
            dh, grads["readout"] = self.readout.backward(dlogits, cache.readout)
        if cache.masked is not None:
            dh = embedding_backward(dh, cache.masked).reshape(cache.hidden.shape)
        dx, grads["encoder"] = self.encoder.backward(dh, cache.encoder)
        dx = dropout_backward(dx, cache.dropout)
        if self.embedding_norm:
            dx, grads["embedding_norm"] = self.embedding_norm.backward(
                dx, cache.embedding_norm
            )
        dx, grads["positions"] = self.positions.backward(dx, cache.positions)
        if self.segments:
            _, grads["segments"] = self.segments.backward(dx, cache.segments)
        _, grads["tokens"] = self.tokens.backward(dx, cache.tokens)
        if self.tied:
            grads["tokens"]["table"] += dtable  # the second way to the table
        return None, join(grads)

    def loss_and_gradients(
        self, ids, targets, masked, keep=None, segment_ids=None, rng=None
    ):
        """Return the mean cross-entropy of the masked positions and every parameter's gradient.

        Parameters
        ----------
        ids : ndarray of int (B, T)
            The tokens as the model sees them.
        targets : ndarray of int (B, T)
            The tokens as they were.
        masked : ndarray of bool (B, T)
            Where the model has to say what was there.
        keep, segment_ids, rng
            As for :meth:`forward`.
        """
        check_ids("targets", targets, len(self.tokens.table))
        check_shape("targets", targets, *ids.shape)
        logits, cache = self.forward(ids, masked, keep, segment_ids, rng)
        loss, loss_cache = cross_entropy(logits, targets[masked])
        _, grads = self.backward(cross_entropy_backward(1, loss_cache), cache)
        return loss, grads


def check_masked(masked, shape):
    """Raise ``ValueError`` unless ``masked`` is boolean, of a shape, and somewhere True."""
    check_shape("masked", masked, *shape)
    if masked.dtype != bool:
        raise ValueError(f"masked: expected booleans, got {masked.dtype}")
    if not masked.any():
        raise ValueError("masked: expected at least one masked token, got none")
