"""BERT without its head: the vector of every token, and one of the whole sequence."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_ids, check_kind, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.embedding import Embedding
from transformer_core.layers.layer import Layer
from transformer_core.layers.pooler import Pooler, PoolerCache
from transformer_core.layers.positions import LearnedPositions
from transformer_core.layers.spec import LayerSpec
from transformer_core.models.stack import Encoder, StackCache
from transformer_core.models.stack_spec import StackSpec
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.embedding import EmbeddingCache


class BertInputCache(NamedTuple):
    tokens: EmbeddingCache
    segments: EmbeddingCache | None
    positions: EmbeddingCache
    norm: tuple | None
    dropout: DropoutCache


class BertEncoderCache(NamedTuple):
    input: BertInputCache
    encoder: StackCache
    pooled: np.ndarray | None = None  # (B, D), where there is a pooler
    pooler: PoolerCache | None = None


class BertEncoder(Layer):
    """Embeddings and an encoder (eq:bert-input).

    Parameters
    ----------
    spec : LayerSpec
        Of every layer. Dropout acts on the embeddings, too.
    stack : StackSpec
        V, the longest sequence, and L.
    rng : numpy.random.Generator
    segments : int
        How many kinds of segment there are. 0: no segment embeddings.
    embedding_norm, final_norm : bool
        A normalisation after the sum of the embeddings, and one after the encoder.
    pooler : bool
        Make one vector of each sequence too: ``pooled`` of the cache.

    Source: Devlin et al. 2019.
    """

    def __init__(
        self,
        spec: LayerSpec,
        stack: StackSpec,
        rng: np.random.Generator,
        segments: int = 0,
        embedding_norm: bool = False,
        final_norm: bool = True,
        pooler: bool = False,
    ):
        check_kind("spec", spec, LayerSpec)
        check_kind("stack", stack, StackSpec)
        width, dtype = spec.width, spec.dtype
        self.spec, self.stack, self.dropout = spec, stack, spec.dropout
        self.tokens = Embedding(stack.vocabulary, width, rng, dtype=dtype)
        self.segments = (
            Embedding(segments, width, rng, dtype=dtype) if segments else None
        )
        self.positions = LearnedPositions(stack.length, width, rng, dtype=dtype)
        self.embedding_norm = spec.make_norm() if embedding_norm else None
        self.encoder = Encoder(spec, stack.layers, rng, final_norm, stack.recompute)
        self.pooler = Pooler(width, rng, dtype) if pooler else None

    def forward(
        self,
        ids: np.ndarray,
        keep: np.ndarray | None = None,
        segment_ids: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, BertEncoderCache]:
        """Map ids (B, T) to a vector of each token (B, T, D).

        Parameters
        ----------
        ids : ndarray of int (B, T)
        keep : ndarray of bool, broadcastable to (B, H, T, T), optional
        segment_ids : ndarray of int (B, T), optional
            The kind of segment that each token belongs to; needed if the model has segments.
        rng : numpy.random.Generator, optional
            Draws what is dropped in training. Default: evaluation.

        Returns
        -------
        h : ndarray (B, T, D)
        cache : BertEncoderCache

        Raises
        ------
        ValueError
            If an id is unknown, a sequence too long, or the shapes do not fit together.
        """
        check_shape("ids", ids, "B", "T")
        x, input_cache = self.embed(ids, segment_ids, rng)
        h, encoder_cache = self.encoder.forward(x, keep, rng)
        pooled = self.pooler.forward(h) if self.pooler else (None, None)
        return h, BertEncoderCache(input_cache, encoder_cache, *pooled)

    def embed(
        self,
        ids: np.ndarray,
        segment_ids: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, BertInputCache]:
        """Map ids (B, T) to what the encoder is given (B, T, D) (eq:bert-input)."""
        x, tokens_cache = self.tokens.forward(ids)
        segments_cache = norm_cache = None
        if self.segments:
            check_ids("segment_ids", segment_ids, len(self.segments.table))
            check_shape("segment_ids", segment_ids, *ids.shape)
            rows, segments_cache = self.segments.forward(segment_ids)
            x = x + rows
        elif segment_ids is not None:
            raise ValueError("segment_ids: expected None, the model has no segments")
        x, positions_cache = self.positions.forward(x)
        if self.embedding_norm:
            x, norm_cache = self.embedding_norm.forward(x)
        x, dropout_cache = dropout(x, self.dropout, rng)
        return x, BertInputCache(
            tokens_cache, segments_cache, positions_cache, norm_cache, dropout_cache
        )

    def backward(
        self, dh: np.ndarray, cache: BertEncoderCache, dpooled: np.ndarray | None = None
    ) -> tuple[None, dict]:
        """Return None, for the ids, and the gradient of every parameter.

        ``dpooled`` (B, D) is the cotangent of the pooled vector. Default: 0.
        """
        grads = {}
        if self.pooler:
            dpooled = np.zeros_like(cache.pooled) if dpooled is None else dpooled
            dfirst, grads["pooler"] = self.pooler.backward(dpooled, cache.pooler)
            dh = dh + dfirst
        elif dpooled is not None:
            raise ValueError("dpooled: expected None, the model has no pooler")
        dx, grads["encoder"] = self.encoder.backward(dh, cache.encoder)
        return None, join(grads | self.embed_backward(dx, cache.input))

    def embed_backward(self, dx: np.ndarray, cache: BertInputCache) -> dict:
        """Hand the gradient of a sum to each of its tables (eq:bert-input-backward)."""
        grads = {}
        dx = dropout_backward(dx, cache.dropout)
        if self.embedding_norm:
            dx, grads["embedding_norm"] = self.embedding_norm.backward(dx, cache.norm)
        dx, grads["positions"] = self.positions.backward(dx, cache.positions)
        if self.segments:
            _, grads["segments"] = self.segments.backward(dx, cache.segments)
        _, grads["tokens"] = self.tokens.backward(dx, cache.tokens)
        return grads
