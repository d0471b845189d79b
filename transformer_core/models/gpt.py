"""A GPT: a decoder without a source, which scores the next token at every position."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_kind,
    check_positive_int,
    check_shape,
    check_whole,
)
from transformer_core.foundation.names import join
from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.embedding import Embedding, OwnReadout, TiedReadout
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.layers.pair_table import PairTable
from transformer_core.layers.positions import LearnedPositions
from transformer_core.layers.spec import LayerSpec
from transformer_core.models.encoder_decoder import check_length
from transformer_core.models.stack import Encoder, StackCache
from transformer_core.models.stack_spec import StackSpec
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.embedding import EmbeddingCache
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.masks import causal_keep
from transformer_core.ops.softmax import check_keep


class GptInputCache(NamedTuple):
    tokens: EmbeddingCache
    pairs: EmbeddingCache | None
    positions: EmbeddingCache | None
    dropout: DropoutCache


class GptCache(NamedTuple):
    input: GptInputCache
    decoder: StackCache
    readout: LinearCache


class GptState(NamedTuple):
    layers: tuple[KeyValue, ...]
    ids: np.ndarray  # (B, N), that have been read

    @property
    def length(self) -> int:
        """How many positions have been read."""
        return self.ids.shape[1]

    def select(self, rows: np.ndarray) -> "GptState":
        """Return the state of some sequences, in another order, some of them several times."""
        layers = tuple(layer.select(rows) for layer in self.layers)
        return GptState(layers, self.ids[rows])

    def first(self, length: int) -> "GptState":
        """Return the state after the first positions alone: what came later is not read."""
        layers = tuple(layer.first(length) for layer in self.layers)
        return GptState(layers, self.ids[:, :length])


class Gpt(Layer):
    """Embeddings, an encoder with a causal mask, and an output layer of V logits per position.

    The specification alone says what it is made of. If attention has a transform, such as a
    rotation, that encodes the positions; if not, a table of positions is learnt. Pre-LN stacks end
    in a normalisation. The output layer has no bias. The last two tokens may have a row
    of their own beside that of the last.

    Parameters
    ----------
    spec : LayerSpec
        Of every layer. Dropout acts on the embeddings, too.
    stack : StackSpec
        V, the longest sequence, and L.
    rng : numpy.random.Generator
    tied : bool
        True: the output layer shares the table of the token embeddings (eq:tied-readout).
    pairs : int
        R: how many rows there are for pairs of tokens (eq:pair-table). 0: there is no such table.

    ``LayerSpec(D, H, 4 * D, "pre", feed_forward="gelu_tanh")`` is GPT-2. RMSNorm, rotary positions,
    grouped queries and SwiGLU make a Llama of it.

    Source: Radford et al. 2019; Touvron et al. 2023.
    """

    def __init__(
        self,
        spec: LayerSpec,
        stack: StackSpec,
        rng: np.random.Generator,
        tied: bool = True,
        pairs: int = 0,
    ):
        check_kind("spec", spec, LayerSpec)
        check_kind("stack", stack, StackSpec)
        width, dtype = spec.width, spec.dtype
        self.loss, self.loss_backward = cross_entropy, cross_entropy_backward
        self.spec, self.stack = spec, stack
        self.vocabulary, self.longest = stack.vocabulary, stack.length
        attention = AttentionSpec.of(spec.attention)
        self.heads, self.dropout = attention.heads, spec.dropout
        self.tokens = Embedding(stack.vocabulary, width, rng, dtype=dtype)
        check_whole("pairs", pairs)
        self.pairs = PairTable(pairs, width, dtype) if pairs else None
        self.positions = (
            None
            if attention.transform
            else LearnedPositions(stack.length, width, rng, dtype=dtype)
        )
        final_norm = spec.placement == "pre"
        self.decoder = Encoder(spec, stack.layers, rng, final_norm, stack.recompute)
        self.readout = (
            TiedReadout(stack.vocabulary, dtype, bias=False)
            if tied
            else OwnReadout(width, stack.vocabulary, rng, dtype, bias=False)
        )

    def forward(
        self,
        ids: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, GptCache]:
        """Score what may follow each token, which sees itself and those before it (eq:gpt).

        Parameters
        ----------
        ids : ndarray of int (B, T)
        keep : ndarray of bool, broadcastable to (B, H, T, T), optional
            What a position may attend to of those that it sees (eq:causal-keep).
        rng : numpy.random.Generator, optional
            Draws what is dropped in training. Default: evaluation.

        Returns
        -------
        logits : ndarray (B, T, V)
        cache : GptCache

        Raises
        ------
        ValueError
            If an id is unknown, a sequence too long, or the shapes do not fit together.
        """
        check_length("ids", ids, self.longest)
        batch, length = ids.shape
        causal = causal_keep(length)
        if keep is not None:
            check_keep(keep, (batch, self.heads, length, length))
            causal = causal & keep
        x, input_cache = self.embed(ids, rng)
        h, decoder_cache = self.decoder.forward(x, causal, rng)
        logits, readout_cache = self.readout.forward(h, self.tokens.table)
        return logits, GptCache(input_cache, decoder_cache, readout_cache)

    def embed(
        self,
        ids: np.ndarray,
        rng: np.random.Generator | None = None,
        first: int = 0,
        before: np.ndarray | None = None,
    ) -> tuple[np.ndarray, GptInputCache]:
        """Look up ids (B, T), from position ``first`` on: what the decoder is given (B, T, D).

        ``before`` (B,) has the tokens at the position before it, if there is one.
        """
        x, tokens_cache = self.tokens.forward(ids)
        pairs_cache = positions_cache = None
        if self.pairs:
            x, pairs_cache = self.pairs.forward(x, ids, before)
        if self.positions:
            x, positions_cache = self.positions.forward(x, first)
        x, dropout_cache = dropout(x, self.dropout, rng)
        return x, GptInputCache(
            tokens_cache, pairs_cache, positions_cache, dropout_cache
        )

    def backward(self, dlogits: np.ndarray, cache: GptCache) -> tuple[None, dict]:
        """Return None, for the ids, and the gradient of every parameter (eq:gpt-backward).

        A tied table gets the terms of both its uses (eq:tied-embedding-backward).
        """
        grads = {}
        dh, dtable, grads["readout"] = self.readout.backward(dlogits, cache.readout)
        del dlogits  # makes room, unless the caller keeps it
        dx, grads["decoder"] = self.decoder.backward(dh, cache.decoder)
        dx = dropout_backward(dx, cache.input.dropout)
        if self.positions:
            dx, grads["positions"] = self.positions.backward(dx, cache.input.positions)
        if self.pairs:
            dx, grads["pairs"] = self.pairs.backward(dx, cache.input.pairs)
        _, grads["tokens"] = self.tokens.backward(dx, cache.input.tokens)
        if dtable is not None and grads["tokens"]:  # a frozen table has none
            grads["tokens"]["table"] += dtable
        return None, join(grads)

    def loss_and_gradients(
        self,
        ids: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
        dloss: float = 1,
    ) -> tuple[float, dict]:
        """Return the mean cross-entropy per counted token (eq:gpt-loss) and every gradient.

        Each position is given the right tokens up to it, and has to score the next one
        (teacher forcing, eq:teacher-forcing).

        Parameters
        ----------
        ids : ndarray of int (B, T)
        targets : ndarray of int (B, T)
            What follows each token: the same text, one token later.
        weights : ndarray (B, T), optional
            How much each target counts, see :func:`cross_entropy`. Default: 1 everywhere.
        keep, rng
            As for :meth:`forward`.
        dloss : float
            The cotangent of the loss: what every gradient is multiplied by (eq:loss-scaling).
        """
        logits, cache = self.forward(ids, keep, rng)
        loss, loss_cache = self.loss(logits, targets, weights)
        del logits  # they, the probabilities and the gradient are the largest arrays
        dlogits = [self.loss_backward(dloss, loss_cache)]
        del loss_cache
        # which alone has it, and frees it
        _, grads = self.backward(dlogits.pop(), cache)
        return loss, grads

    def begin(self, batch: int) -> GptState:
        """Return the state before the first token of ``batch`` sequences."""
        return GptState(self.decoder.begin(batch), np.empty((batch, 0), int))

    def prefill(
        self, ids: np.ndarray, state: GptState | None = None
    ) -> tuple[np.ndarray, GptState]:
        """Read several tokens of each sequence at once, in evaluation (eq:cached-attention).

        Parameters
        ----------
        ids : ndarray of int (B, N)
            The next N tokens of each sequence.
        state : GptState, optional
            What has been read of them. Default: nothing.

        Returns
        -------
        logits : ndarray (B, V)
            Of what may follow the last ones: the last row of :meth:`forward`.
        state : GptState
        """
        logits, state = self.score(ids, state, 1)
        return logits[:, 0], state

    def score(
        self, ids: np.ndarray, state: GptState | None, rows: int
    ) -> tuple[np.ndarray, GptState]:
        """Read as :meth:`prefill` does: the logits (B, rows, V) of the last rows, and the state."""
        check_shape("ids", ids, "B", "N")
        check_ids("ids", ids, self.vocabulary)
        check_positive_int("rows", rows)
        if rows > ids.shape[1]:
            raise ValueError(f"rows: expected at most {ids.shape[1]}, got {rows}")
        state = self.begin(len(ids)) if state is None else state
        first = check_kind("state", state, GptState).length
        if first + ids.shape[1] > self.longest:
            raise ValueError(
                f"ids: expected at most {self.longest} positions, got {first + ids.shape[1]}"
            )
        before = state.ids[:, -1] if first else None
        x, _ = self.embed(ids, first=first, before=before)
        h, layers = self.decoder.step(x, state.layers)
        logits, _ = self.readout.forward(h[:, -rows:], self.tokens.table)
        return logits, GptState(layers, np.append(state.ids, ids, axis=1))

    def step(self, tokens: np.ndarray, state: GptState) -> tuple[np.ndarray, GptState]:
        """Read the newest token of each sequence (B,), as :meth:`prefill` reads several."""
        check_shape("tokens", tokens, "B")
        return self.prefill(tokens[:, np.newaxis], state)
