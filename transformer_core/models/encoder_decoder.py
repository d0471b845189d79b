"""The encoder-decoder Transformer."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_positive_int,
    check_rate,
    check_shape,
)
from transformer_core.foundation.names import join
from transformer_core.layers.decoder_layer import DecoderLayer, DecoderLayerCache
from transformer_core.layers.embedding import Embedding, TiedReadout
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.linear import Linear
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.models.encoder import Encoder, EncoderCache
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.embedding import EmbeddingCache
from transformer_core.ops.layer_norm import LayerNormCache
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.masks import causal_keep, padding_keep
from transformer_core.ops.positions import sinusoidal_positions


class EmbeddedCache(NamedTuple):
    embedding: EmbeddingCache
    dropout: DropoutCache


class EncodedCache(NamedTuple):
    embedded: EmbeddedCache
    encoder: EncoderCache


class DecodedCache(NamedTuple):
    embedded: EmbeddedCache
    layers: tuple[DecoderLayerCache, ...]
    final_norm: LayerNormCache | None
    readout: LinearCache


class EncoderDecoderCache(NamedTuple):
    encoded: EncodedCache
    decoded: DecodedCache


class DecodingState(NamedTuple):
    past: tuple[KeyValue, ...]  # of the target so far, one for each layer
    source: tuple[KeyValue, ...]  # one for each layer
    source_keep: np.ndarray | None


class EncoderDecoder(Layer):
    """An encoder reads the source, a decoder writes the target (eq:encoder-decoder).

    Pre-LN stacks end in a LayerNorm, Post-LN stacks with the one of their last layer. Positions
    are sinusoidal.

    Parameters
    ----------
    source_vocabulary, target_vocabulary : int
        Sizes V of the two vocabularies.
    source_length, target_length : int
        The longest source and the longest target.
    width, heads, hidden_width : int
        D (even), H (a divisor of D) and F.
    encoder_layers, decoder_layers : int
    rng : numpy.random.Generator
    dtype : NumPy dtype
    norm : {"pre", "post"}
    activation : {"relu", "gelu", "gelu_tanh"}
    tied : bool
        True: the read-out shares the table of the target's embeddings.
    shared : bool
        True: source and target share one embedding table, and so one vocabulary.
    dropout : float
        Rate, on the embeddings, the attention weights and the output of every branch.

    Embeddings start with the standard deviation 1 / sqrt(D), so that logits of a tied read-out
    start near variance 1. They are multiplied by sqrt(D) where positions are added, whose
    entries are as large.

    Source: Vaswani et al. 2017; seed 003, equations 4 to 9, where the LN of the source in equation
    8 is the encoder's last one, the same for all layers.
    """

    def __init__(
        self,
        source_vocabulary,
        target_vocabulary,
        source_length,
        target_length,
        width,
        heads,
        hidden_width,
        encoder_layers,
        decoder_layers,
        *,
        rng,
        dtype=np.float32,
        norm="pre",
        activation="relu",
        tied=True,
        shared=False,
        dropout=0.0,
    ):
        check_positive_int("decoder_layers", decoder_layers)
        check_positive_int("source_length", source_length)
        check_positive_int("target_length", target_length)
        check_rate("dropout", dropout)
        if shared and source_vocabulary != target_vocabulary:
            raise ValueError(
                "shared: expected vocabularies of one size, got "
                f"{source_vocabulary} and {target_vocabulary}"
            )
        self.source_length, self.target_length = source_length, target_length
        self.tied, self.shared = tied, shared
        self.dropout = dropout
        self.positions = sinusoidal_positions(
            max(source_length, target_length), width, dtype
        )
        self.scale = sqrt(width)
        self.target_embedding = Embedding(
            target_vocabulary, width, rng, width**-0.5, dtype
        )
        self.source_embedding = (
            self.target_embedding
            if shared
            else Embedding(source_vocabulary, width, rng, width**-0.5, dtype)
        )
        self.encoder = Encoder(
            encoder_layers,
            width,
            heads,
            hidden_width,
            norm=norm,
            final_norm=norm == "pre",
            readout=False,
            rng=rng,
            dtype=dtype,
            dropout=dropout,
            activation=activation,
        )
        self.decoder_layers = [
            DecoderLayer(
                width, heads, hidden_width, norm, rng, dtype, dropout, activation
            )
            for _ in range(decoder_layers)
        ]
        self.final_norm = LayerNorm(width, dtype) if norm == "pre" else None
        self.readout = (
            TiedReadout(target_vocabulary, dtype)
            if tied
            else Linear(width, target_vocabulary, rng, dtype)
        )
        sublayers = {
            "source_embedding": None if shared else self.source_embedding,
            "target_embedding": self.target_embedding,
            "encoder": self.encoder,
            **{f"decoder_{i}": layer for i, layer in enumerate(self.decoder_layers)},
            "final_norm": self.final_norm,
            "readout": self.readout,
        }
        self.sublayers = {name: layer for name, layer in sublayers.items() if layer}

    def forward(self, source, shifted, source_keep=None, rng=None):
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

    def encode(self, source, source_keep=None, rng=None):
        """Map source (B, S) to what the decoder attends to (B, S, D)."""
        check_length("source", source, self.source_length)
        x, embedded_cache = self.embed(source, self.source_embedding, rng)
        encoded, encoder_cache = self.encoder.forward(x, source_keep, rng)
        return encoded, EncodedCache(embedded_cache, encoder_cache)

    def decode(self, shifted, encoded, source_keep=None, rng=None):
        """Map the shifted target (B, T) and the encoded source (B, S, D) to logits (B, T, V)."""
        check_length("shifted", shifted, self.target_length)
        keep = causal_keep(shifted.shape[1])
        z, embedded_cache = self.embed(shifted, self.target_embedding, rng)
        caches = []
        for layer in self.decoder_layers:
            z, cache = layer.forward(z, encoded, keep, source_keep, rng)
            caches.append(cache)
        norm_cache = None
        if self.final_norm:
            z, norm_cache = self.final_norm.forward(z)
        logits, readout_cache = self.read_out(z)
        return logits, DecodedCache(
            embedded_cache, tuple(caches), norm_cache, readout_cache
        )

    def read(self, source, source_keep=None):
        """Read source (B, S), once for all that is written, in evaluation: the first state."""
        encoded, _ = self.encode(source, source_keep)
        read = tuple(
            layer.cross_attention.branch.read(encoded) for layer in self.decoder_layers
        )
        past = tuple(KeyValue(key[:, :, :0], value[:, :, :0]) for key, value in read)
        return DecodingState(past, read, source_keep)

    def step(self, tokens, state):
        """Score what may follow the newest tokens: the last row of ``decode``, without the others.

        Parameters
        ----------
        tokens : ndarray of int (B,)
            The newest token of each target, the start token at first.
        state : DecodingState
            What the step before returned, ``read`` at first.

        Returns
        -------
        logits : ndarray (B, V)
        state : DecodingState
        """
        batch, _, position, _ = state.past[0].key.shape
        check_shape("tokens", tokens, batch)
        if position == self.target_length:
            raise ValueError(
                f"tokens: expected at most {position} positions, got {position + 1}"
            )
        z, _ = self.embed(tokens[:, np.newaxis], self.target_embedding, first=position)
        past = []
        for layer, *pairs in zip(
            self.decoder_layers, state.past, state.source, strict=True
        ):
            z, extended = layer.step(z, *pairs, state.source_keep)
            past.append(extended)
        if self.final_norm:
            z, _ = self.final_norm.forward(z)
        logits, _ = self.read_out(z)
        return logits[:, 0], state._replace(past=tuple(past))

    def embed(self, ids, table, rng=None, first=0):
        """Look up, scale, and add the positions from ``first`` on: (B, T) to (B, T, D)."""
        rows, cache = table.forward(ids)
        x = self.scale * rows + self.positions[first : first + ids.shape[1]]
        x, dropout_cache = dropout(x, self.dropout, rng)
        return x, EmbeddedCache(cache, dropout_cache)

    def read_out(self, z):
        if self.tied:
            return self.readout.forward(z, self.target_embedding.table)
        return self.readout.forward(z)

    def backward(self, dlogits, cache):
        """Return None, for the ids, and the gradients (eq:encoder-decoder-backward).

        A table gets one term for each of its uses (eq:tied-embedding-backward).
        """
        decoded, encoded = cache.decoded, cache.encoded
        grads = {}
        if self.tied:
            dz, dtable, grads["readout"] = self.readout.backward(
                dlogits, decoded.readout
            )
        else:
            dz, grads["readout"] = self.readout.backward(dlogits, decoded.readout)
        if self.final_norm:
            dz, grads["final_norm"] = self.final_norm.backward(dz, decoded.final_norm)
        dencoded = 0
        for i in reversed(range(len(self.decoder_layers))):
            dz, dsource, grads[f"decoder_{i}"] = self.decoder_layers[i].backward(
                dz, decoded.layers[i]
            )
            dencoded = dencoded + dsource  # every layer attends to the same source
        grads["target_embedding"] = self.embed_backward(
            dz, self.target_embedding, decoded.embedded
        )
        dx, grads["encoder"] = self.encoder.backward(dencoded, encoded.encoder)
        dsource_table = self.embed_backward(dx, self.source_embedding, encoded.embedded)
        if self.shared:
            grads["target_embedding"]["table"] += dsource_table["table"]
        else:
            grads["source_embedding"] = dsource_table
        if self.tied:
            grads["target_embedding"]["table"] += dtable
        return None, join(grads)

    def embed_backward(self, dx, table, cache):
        drows = self.scale * dropout_backward(dx, cache.dropout)
        _, grads = table.backward(drows, cache.embedding)
        return grads

    def loss_and_gradients(
        self,
        source,
        source_lengths,
        target,
        target_lengths,
        rng=None,
        smoothing=0,
    ):
        """Return the mean cross-entropy a target token and every parameter's gradient.

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
