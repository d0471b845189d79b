"""The encoder-decoder Transformer."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_kind,
    check_positive_int,
    check_shape,
)
from transformer_core.foundation.names import join
from transformer_core.layers.decoder_layer import DecoderLayerState
from transformer_core.layers.embedding import Embedding, OwnReadout, TiedReadout
from transformer_core.layers.layer import Layer
from transformer_core.layers.positions import SinusoidalPositions
from transformer_core.layers.spec import LayerSpec
from transformer_core.models.stack import Decoder, Encoder, StackCache
from transformer_core.models.stack_spec import StackSpec
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.embedding import EmbeddingCache
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.masks import causal_keep, padding_keep


class EmbeddedCache(NamedTuple):
    embedding: EmbeddingCache
    dropout: DropoutCache


class EncodedCache(NamedTuple):
    embedded: EmbeddedCache
    encoder: StackCache


class DecodedCache(NamedTuple):
    embedded: EmbeddedCache
    decoder: StackCache
    readout: LinearCache


class EncoderDecoderCache(NamedTuple):
    encoded: EncodedCache
    decoded: DecodedCache


class DecodingState(NamedTuple):
    layers: tuple[DecoderLayerState, ...]
    source_keep: np.ndarray

    def select(self, rows: np.ndarray) -> "DecodingState":
        """Return the state of some sequences, in another order, some of them several times."""
        layers = tuple(layer.select(rows) for layer in self.layers)
        return DecodingState(layers, self.source_keep[rows])


class EncoderDecoder(Layer):
    """An encoder reads the source, a decoder writes the target (eq:encoder-decoder).

    Pre-LN stacks end in a LayerNorm, Post-LN stacks with the one of their last layer. Positions
    are sinusoidal.

    Parameters
    ----------
    spec : LayerSpec
        Of every layer; D is even. Dropout acts on the embeddings, too.
    source, target : StackSpec
        The vocabulary, the longest sequence and the layers of the encoder and of the decoder.
    rng : numpy.random.Generator
    tied : bool
        True: the output layer shares the table of the target's embeddings.
    shared : bool
        True: source and target share one embedding table, and so one vocabulary.

    Embeddings start with the standard deviation 1 / sqrt(D), so that logits of a tied output layer
    start near variance 1. They are multiplied by sqrt(D) before positions are added, whose
    entries are then about as large.

    Source: Vaswani et al. 2017; text 003, equations 4 to 9, where the LN of the source in equation
    8 is the encoder's last one, the same for all layers.
    """

    def __init__(
        self,
        spec: LayerSpec,
        source: StackSpec,
        target: StackSpec,
        rng: np.random.Generator,
        tied: bool = True,
        shared: bool = False,
    ):
        check_positive_int("source length", source.length)
        check_positive_int("target length", target.length)
        if shared and source.vocabulary != target.vocabulary:
            raise ValueError(
                "shared: expected vocabularies of one size, got "
                f"{source.vocabulary} and {target.vocabulary}"
            )
        width, dtype = spec.width, spec.dtype
        self.vocabulary, self.longest = target.vocabulary, target.length
        self.longest_source = source.length
        self.dropout = spec.dropout
        longest = max(source.length, target.length)
        self.positions = SinusoidalPositions(longest, width, dtype)
        self.scale = sqrt(width)
        std = width**-0.5
        self.target_embedding = Embedding(target.vocabulary, width, rng, std, dtype)
        self.source_embedding = (
            self.target_embedding
            if shared
            else Embedding(source.vocabulary, width, rng, std, dtype)
        )
        final_norm = spec.placement == "pre"
        self.encoder = Encoder(spec, source.layers, rng, final_norm, source.recompute)
        self.decoder = Decoder(spec, target.layers, rng, final_norm, target.recompute)
        self.readout = (
            TiedReadout(target.vocabulary, dtype)
            if tied
            else OwnReadout(width, target.vocabulary, rng, dtype)
        )

    def forward(
        self,
        source: np.ndarray,
        shifted: np.ndarray,
        source_keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, EncoderDecoderCache]:
        """Score, at each position of the target, every token that might stand there.

        Parameters
        ----------
        source : ndarray of int (B, S)
        shifted : ndarray of int (B, T)
            The target, one position later: position t holds the token before the one it scores.
        source_keep : ndarray of bool, broadcastable to (B, H, 1, S), optional
            False for the padding of the source.
        rng : numpy.random.Generator, optional
            Draws what is dropped in training. Default: evaluation.

        Returns
        -------
        logits : ndarray (B, T, V)
        cache : EncoderDecoderCache
        """
        encoded, encoded_cache = self.encode(source, source_keep, rng)
        logits, decoded_cache = self.decode(shifted, encoded, source_keep, rng)
        return logits, EncoderDecoderCache(encoded_cache, decoded_cache)

    def encode(
        self,
        source: np.ndarray,
        source_keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, EncodedCache]:
        """Map source (B, S) to what the decoder attends to (B, S, D)."""
        check_length("source", source, self.longest_source)
        x, embedded_cache = self.embed(source, self.source_embedding, rng)
        encoded, encoder_cache = self.encoder.forward(x, source_keep, rng)
        return encoded, EncodedCache(embedded_cache, encoder_cache)

    def decode(
        self,
        shifted: np.ndarray,
        encoded: np.ndarray,
        source_keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, DecodedCache]:
        """Map the shifted target (B, T) and the encoded source (B, S, D) to logits (B, T, V)."""
        check_length("shifted", shifted, self.longest)
        keep = causal_keep(shifted.shape[1])
        z, embedded_cache = self.embed(shifted, self.target_embedding, rng)
        z, decoder_cache = self.decoder.forward(z, encoded, keep, source_keep, rng)
        logits, readout_cache = self.readout.forward(z, self.target_embedding.table)
        return logits, DecodedCache(embedded_cache, decoder_cache, readout_cache)

    def begin(self, source: np.ndarray, source_lengths: np.ndarray) -> DecodingState:
        """Read sources, once for all that is written, in evaluation: the first state.

        Parameters
        ----------
        source : ndarray of int (B, S)
        source_lengths : ndarray of int (B,)
            How many tokens each source has, at least 1; padding follows them.
        """
        check_shape("source", source, "B", "S")
        check_shape("source_lengths", source_lengths, len(source))
        keep = padding_keep(source_lengths, source.shape[1])
        if source_lengths.min() < 1:
            raise ValueError("source_lengths: expected at least 1 token in each, got 0")
        encoded, _ = self.encode(source, keep)
        return DecodingState(self.decoder.begin(encoded), keep)

    def step(
        self, tokens: np.ndarray, state: DecodingState
    ) -> tuple[np.ndarray, DecodingState]:
        """Score what may follow the newest tokens: the last row of ``decode``, without the others.

        Parameters
        ----------
        tokens : ndarray of int (B,)
            The newest token of each target, the start token at first.
        state : DecodingState
            What the step before returned, ``begin`` at first.

        Returns
        -------
        logits : ndarray (B, V)
        state : DecodingState
        """
        check_kind("state", state, DecodingState)
        position = state.layers[0].past.length
        check_shape("tokens", tokens, len(state.source_keep))
        if position == self.longest:
            raise ValueError(
                f"tokens: expected at most {position} positions, got {position + 1}"
            )
        z, _ = self.embed(tokens[:, np.newaxis], self.target_embedding, first=position)
        z, layers = self.decoder.step(z, state.layers, state.source_keep)
        logits, _ = self.readout.forward(z, self.target_embedding.table)
        return logits[:, 0], state._replace(layers=layers)

    def embed(
        self,
        ids: np.ndarray,
        table: Embedding,
        rng: np.random.Generator | None = None,
        first: int = 0,
    ) -> tuple[np.ndarray, EmbeddedCache]:
        """Look up, scale, and add the positions from ``first`` on: (B, T) to (B, T, D)."""
        rows, cache = table.forward(ids)
        x, _ = self.positions.forward(self.scale * rows, first)
        x, dropout_cache = dropout(x, self.dropout, rng)
        return x, EmbeddedCache(cache, dropout_cache)

    def backward(
        self, dlogits: np.ndarray, cache: EncoderDecoderCache
    ) -> tuple[None, dict]:
        """Return None, for the ids, and the gradients (eq:encoder-decoder-backward).

        A table gets one term for each of its uses (eq:tied-embedding-backward).
        """
        decoded, encoded = cache.decoded, cache.encoded
        grads = {}
        dz, dtable, grads["readout"] = self.readout.backward(dlogits, decoded.readout)
        dz, dencoded, grads["decoder"] = self.decoder.backward(dz, decoded.decoder)
        grads["target_embedding"] = self.embed_backward(
            dz, self.target_embedding, decoded.embedded
        )
        dx, grads["encoder"] = self.encoder.backward(dencoded, encoded.encoder)
        dsource_table = self.embed_backward(dx, self.source_embedding, encoded.embedded)
        if self.source_embedding is self.target_embedding:
            grads["target_embedding"]["table"] += dsource_table["table"]
        else:
            grads["source_embedding"] = dsource_table
        if dtable is not None:
            grads["target_embedding"]["table"] += dtable
        return None, join(grads)

    def embed_backward(
        self, dx: np.ndarray, table: Embedding, cache: EmbeddedCache
    ) -> dict:
        """Return the gradient of a table from that of what was embedded by it."""
        check_floats("dx", dx, ...)
        drows = self.scale * dropout_backward(dx, cache.dropout)
        _, grads = table.backward(drows, cache.embedding)
        return grads

    def loss_and_gradients(
        self,
        source: np.ndarray,
        source_lengths: np.ndarray,
        target: np.ndarray,
        target_lengths: np.ndarray,
        rng: np.random.Generator | None = None,
        smoothing: float = 0,
    ) -> tuple[float, dict]:
        """Return the mean cross-entropy per target token and every parameter's gradient.

        The decoder is given the right target up to each token, and has to score the token
        (teacher forcing, eq:teacher-forcing).

        Parameters
        ----------
        source : ndarray of int (B, S)
        source_lengths : ndarray of int (B,)
            How many tokens each source has; padding follows them.
        target : ndarray of int (B, T + 1)
            From the start token to the end token.
        target_lengths : ndarray of int (B,)
            With both of them; padding follows.
        rng : numpy.random.Generator, optional
            As for :meth:`forward`.
        smoothing : float
            Of the labels, see :func:`cross_entropy`.
        """
        check_shape("source", source, "B", "S")
        check_shape("source_lengths", source_lengths, len(source))
        check_shape("target", target, len(source), "T + 1")
        check_shape("target_lengths", target_lengths, len(source))
        source_keep = padding_keep(source_lengths, source.shape[1])
        counted = padding_keep(target_lengths, target.shape[1])[:, 0, 0, 1:]
        logits, cache = self.forward(source, target[:, :-1], source_keep, rng)
        loss, loss_cache = cross_entropy(logits, target[:, 1:], counted, smoothing)
        _, grads = self.backward(cross_entropy_backward(1, loss_cache), cache)
        return loss, grads


def check_length(name, ids, longest):
    """Raise ``ValueError`` unless ``ids`` is (B, T) with at most ``longest`` positions."""
    check_shape(name, ids, "B", "T")
    if ids.shape[1] > longest:
        raise ValueError(
            f"{name}: expected at most {longest} positions, got {ids.shape[1]}"
        )
