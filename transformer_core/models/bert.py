"""BERT, trained to restore masked tokens."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_booleans, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.embedding import OwnReadout, TiedReadout
from transformer_core.layers.head_transform import HeadTransform, HeadTransformCache
from transformer_core.layers.spec import LayerSpec
from transformer_core.models.bert_encoder import BertEncoder, BertInputCache
from transformer_core.models.stack import StackCache
from transformer_core.models.stack_spec import StackSpec
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.embedding import EmbeddingCache, embedding, embedding_backward
from transformer_core.ops.linear import LinearCache


class BertCache(NamedTuple):
    shape: tuple[int, ...]  # of the ids, (B, T)
    input: BertInputCache
    encoder: StackCache
    masked: EmbeddingCache | None  # None: every position was read out
    readout: LinearCache
    transform: HeadTransformCache | None = None


class Bert(BertEncoder):
    """Embeddings, an encoder, and an output layer of V logits per position (eq:bert).

    Parameters
    ----------
    spec : LayerSpec
        Of every layer. Dropout acts on the embeddings, too.
    stack : StackSpec
        V, the longest sequence, and L.
    rng : numpy.random.Generator
    tied : bool
        True: the output layer shares the table of the token embeddings.
    segments : int
        How many kinds of segment there are. 0: no segment embeddings.
    embedding_norm, final_norm : bool
        A normalisation after the sum of the embeddings, and one after the encoder.
    transform : bool
        Transform each vector before it is read out (eq:head-transform), as the published BERT does.

    With ``AttentionSpec(heads, bias=False)``, Post-LN and ReLU, the defaults are the model of
    text 004.

    Source: text 004, sections 1 and 2; Devlin et al. 2019.
    """

    def __init__(
        self,
        spec: LayerSpec,
        stack: StackSpec,
        rng: np.random.Generator,
        tied: bool = False,
        segments: int = 0,
        embedding_norm: bool = False,
        final_norm: bool = True,
        transform: bool = False,
    ):
        super().__init__(spec, stack, rng, segments, embedding_norm, final_norm)
        self.loss, self.loss_backward = cross_entropy, cross_entropy_backward
        width, dtype = spec.width, spec.dtype
        self.transform = HeadTransform(spec, rng) if transform else None
        self.readout = (
            TiedReadout(stack.vocabulary, dtype)
            if tied
            else OwnReadout(width, stack.vocabulary, rng, dtype)
        )

    def forward(  # type: ignore[override]
        self,
        ids: np.ndarray,
        masked: np.ndarray | None = None,
        keep: np.ndarray | None = None,
        segment_ids: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, BertCache]:
        """Score every token of the vocabulary at each position that is asked for.

        Parameters
        ----------
        ids : ndarray of int (B, T)
        masked : ndarray of bool (B, T), optional
            The positions to read out, M in all, row by row (eq:masked-rows). Default: every one.
        keep : ndarray of bool, broadcastable to (B, H, T, T), optional
        segment_ids : ndarray of int (B, T), optional
            The kind of segment that each token belongs to; needed if the model has segments.
        rng : numpy.random.Generator, optional
            Draws what is dropped in training. Default: evaluation.

        Returns
        -------
        logits : ndarray (M, V), or (B, T, V) without ``masked``
        cache : BertCache

        Raises
        ------
        ValueError
            If an id is unknown, a sequence too long, nothing is masked, or the shapes do not fit
            together.
        """
        check_shape("ids", ids, "B", "T")
        if masked is not None:
            check_masked(masked, ids.shape)
        x, input_cache = self.embed(ids, segment_ids, rng)
        h, encoder_cache = self.encoder.forward(x, keep, rng)
        logits, caches = self.read_out(h, masked)
        return logits, BertCache(ids.shape, input_cache, encoder_cache, *caches)

    def read_out(
        self, h: np.ndarray, masked: np.ndarray | None = None
    ) -> tuple[np.ndarray, tuple]:
        """Map the rows of h (B, T, D) that are asked for to logits (eq:masked-rows)."""
        masked_cache = None
        if masked is not None:
            h, masked_cache = embedding(
                np.flatnonzero(masked), h.reshape(-1, h.shape[-1])
            )
        transform_cache = None
        if self.transform:
            h, transform_cache = self.transform.forward(h)
        logits, readout_cache = self.readout.forward(h, self.tokens.table)
        return logits, (masked_cache, readout_cache, transform_cache)

    def backward(  # type: ignore[override]
        self, dlogits: np.ndarray, cache: BertCache
    ) -> tuple[None, dict]:
        """Return None, for the ids, and the gradient of every parameter (eq:bert-backward).

        A tied table gets the terms of both its uses (eq:bert-tied-backward).
        """
        dh, dtable, grads = self.read_out_backward(dlogits, cache)
        del dlogits  # makes room, unless the caller keeps it
        dx, grads["encoder"] = self.encoder.backward(dh, cache.encoder)
        grads |= self.embed_backward(dx, cache.input)
        if dtable is not None and grads["tokens"]:  # a frozen table has none
            grads["tokens"]["table"] += dtable
        return None, join(grads)

    def read_out_backward(self, dlogits: np.ndarray, cache: BertCache) -> tuple:
        """Return the gradients of h, of a tied table and of the parameters after the encoder.

        Rows that were not read out get 0 (eq:masked-rows-backward).
        """
        grads = {}
        dh, dtable, grads["readout"] = self.readout.backward(dlogits, cache.readout)
        if self.transform:
            dh, grads["transform"] = self.transform.backward(dh, cache.transform)
        if cache.masked is not None:
            dh = embedding_backward(dh, cache.masked)
            dh = dh.reshape(*cache.shape, -1)
        return dh, dtable, grads

    def loss_and_gradients(
        self,
        ids: np.ndarray,
        targets: np.ndarray,
        masked: np.ndarray,
        keep: np.ndarray | None = None,
        segment_ids: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[float, dict]:
        """Return the mean cross-entropy of the masked tokens and every parameter's gradient.

        The loss is eq:masked-loss.

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
        logits, cache = self.forward(ids, masked, keep, segment_ids, rng)
        check_shape("targets", targets, *ids.shape)
        loss, loss_cache = self.loss(logits, targets[masked])
        del logits  # they, the probabilities and the gradient are the largest arrays
        dlogits = [self.loss_backward(1, loss_cache)]
        del loss_cache
        # which alone has it, and frees it
        _, grads = self.backward(dlogits.pop(), cache)
        return loss, grads


def check_masked(masked, shape):
    """Raise ``ValueError`` unless ``masked`` is boolean, of a shape, and somewhere True."""
    check_booleans("masked", masked, *shape)
    if not masked.any():
        raise ValueError("masked: expected at least one masked token, got none")
