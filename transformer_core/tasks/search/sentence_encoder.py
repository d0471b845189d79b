"""One vector for a text: an encoder, the mean of its positions, and the length 1."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_positive, check_positive_int
from transformer_core.models import BertEncoder
from transformer_core.models.bert_encoder import BertEncoderCache
from transformer_core.ops.contrastive_loss import (
    contrastive_loss,
    contrastive_loss_backward,
)
from transformer_core.ops.l2_normalize import (
    L2NormalizeCache,
    l2_normalize,
    l2_normalize_backward,
)
from transformer_core.ops.mean_pool import MeanPoolCache, mean_pool, mean_pool_backward
from transformer_core.tasks.texts.wordpiece import PAD


class SentenceCache(NamedTuple):
    encoder: BertEncoderCache
    pooling: MeanPoolCache
    length: L2NormalizeCache


class SentenceEncoder:
    """Map ids (B, T), 0 at padding, to vectors (B, D) of length 1 (eq:sentence).

    Parameters
    ----------
    encoder : BertEncoder
        Its parameters are the only ones.
    temperature : float
        Of the contrastive loss.

    Source: Reimers & Gurevych 2019.
    """

    def __init__(self, encoder: BertEncoder, temperature: float = 0.05):
        check_positive("temperature", temperature)
        self.encoder, self.temperature = encoder, temperature
        self.parameters = encoder.parameters

    def forward(
        self, ids: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, SentenceCache]:
        keep = ids != PAD
        segments = np.zeros_like(ids) if self.encoder.segments else None
        h, encoder = self.encoder.forward(
            ids, keep[:, np.newaxis, np.newaxis], segments, rng
        )
        pooled, pooling = mean_pool(h, keep)
        y, length = l2_normalize(pooled)
        return y, SentenceCache(encoder, pooling, length)

    def backward(self, dy: np.ndarray, cache: SentenceCache) -> tuple[None, dict]:
        """Return None, for the ids, and the gradient of every parameter."""
        dpooled = l2_normalize_backward(dy, cache.length)
        dh = mean_pool_backward(dpooled, cache.pooling)
        return self.encoder.backward(dh, cache.encoder)

    def loss_and_gradients(
        self,
        query_ids: np.ndarray,
        key_ids: np.ndarray,
        rng: np.random.Generator | None = None,
    ) -> tuple[float, dict]:
        """Return the contrastive loss of a batch and every parameter's gradient.

        Parameters
        ----------
        query_ids : ndarray of int (B, T)
        key_ids : ndarray of int (S, U)
            The first B are those that belong to the queries.
        rng : numpy.random.Generator, optional
            Draws what is dropped in training.
        """
        query, query_cache = self.forward(query_ids, rng)
        key, key_cache = self.forward(key_ids, rng)
        loss, cache = contrastive_loss(query, key, self.temperature)
        dquery, dkey, _ = contrastive_loss_backward(1, cache)
        _, grads = self.backward(dquery, query_cache)
        add(grads, self.backward(dkey, key_cache)[1])
        return loss, grads

    def loss_and_gradients_in_parts(
        self,
        query_ids: np.ndarray,
        key_ids: np.ndarray,
        size: int,
        rng: np.random.Generator | None = None,
    ) -> tuple[float, dict]:
        """Return the same as :meth:`loss_and_gradients` with the caches of one part at a time.

        All vectors come first, without caches, then the loss of the whole batch and its
        gradient at the vectors, then the passes of each part anew (eq:contrastive-parts).

        Parameters
        ----------
        query_ids, key_ids, rng
            As there. What is dropped is drawn part by part.
        size : int
            Texts of a part.

        Source: Gao et al. 2021.
        """
        parts = [*cut(query_ids, size), *cut(key_ids, size)]
        texts = len(parts)
        seeds = [None] * texts if rng is None else rng.integers(2**63, size=texts)

        def pass_of(part, seed):
            """Drop the same each time."""
            return self.forward(part, rng and np.random.default_rng(seed))

        vectors = np.concatenate(
            [pass_of(*part)[0] for part in zip(parts, seeds, strict=True)]
        )
        query, key = np.split(vectors, [len(query_ids)])
        loss, cache = contrastive_loss(query, key, self.temperature)
        dquery, dkey, _ = contrastive_loss_backward(1, cache)
        cotangents = [*cut(dquery, size), *cut(dkey, size)]
        grads: dict = {}
        for part, seed, dy in zip(parts, seeds, cotangents, strict=True):
            _, part_cache = pass_of(part, seed)
            add(grads, self.backward(dy, part_cache)[1])
        return loss, grads


def cut(array: np.ndarray, size: int) -> Iterator[np.ndarray]:
    check_positive_int("size", size)
    return (array[start : start + size] for start in range(0, len(array), size))


def add(total: dict, grads: dict) -> None:
    """Add gradients to a total, which may be empty, in place."""
    for name, grad in grads.items():
        total[name] = total[name] + grad if name in total else grad
