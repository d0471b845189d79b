"""The vocabulary over ranks: embedding, output layer and cross-entropy."""

from typing import Any, NamedTuple

import numpy as np

from transformer_core.distributed.pieces import Cut, CutLayer
from transformer_core.distributed.tensor_parallel import Collective, check_enough
from transformer_core.foundation.checks import (
    check_floats,
    check_ids,
    check_scalar,
    check_shape,
)
from transformer_core.layers.embedding import Embedding, OwnReadout, TiedReadout
from transformer_core.ops.embedding import EmbeddingCache, embedding, embedding_backward
from transformer_core.ops.linear import LinearCache
from transformer_core.ranks.communicator import Communicator


class VocabularyEmbeddingCache(NamedTuple):
    own: np.ndarray  # (..., 1): whether the id is one of this rank's
    rows: EmbeddingCache


class VocabularyEmbedding(CutLayer):
    r"""g of the rows that this rank has, and 0 for other ids (eq:vocabulary-parallel).

    Parameters
    ----------
    embedding : Embedding
        The whole one, of V tokens. Not modified.
    g : Collective
    communicator : Communicator

    Raises
    ------
    ValueError
        If there are fewer tokens than ranks.

    Source: Shoeybi et al. 2019.
    """

    def __init__(self, embedding: Embedding, g: Collective, communicator: Communicator):
        self.vocabulary, self.g = len(embedding.table), g
        self.communicator = communicator
        check_enough("vocabulary", self.vocabulary, communicator)
        super().__init__(embedding, {"table": Cut(0)}, communicator)

    def forward(self, ids: np.ndarray) -> tuple[np.ndarray, Any]:
        """Map ids (...) of the whole vocabulary to rows (..., D)."""
        check_ids("ids", ids, self.vocabulary)
        local, own = locate(ids, self.vocabulary, self.communicator)
        rows, cache = embedding(local, self.table)
        own = own[..., np.newaxis]
        return self.g.forward(rows * own), VocabularyEmbeddingCache(own, cache)

    def backward(self, drows: np.ndarray, cache: Any) -> tuple[None, dict]:
        """Return None and the gradient of this rank's rows, of drows (..., D)."""
        check_floats("drows", drows, *cache.own.shape[:-1], self.table.shape[1])
        drows = self.g.backward(drows) * cache.own
        return None, {"table": embedding_backward(drows, cache.rows)}


class ParallelReadout(CutLayer):
    """An output layer behind f: the logits of the tokens that are this rank's (eq:column-parallel).

    Parameters
    ----------
    readout : TiedReadout or OwnReadout
        The whole one. Not modified.
    f : Collective
    communicator : Communicator
    """

    def __init__(
        self,
        readout: TiedReadout | OwnReadout,
        f: Collective,
        communicator: Communicator,
    ):
        super().__init__(readout, {"weight": Cut(1), "bias": Cut(0)}, communicator)
        self.f = f

    def forward(
        self, h: np.ndarray, table: np.ndarray
    ) -> tuple[np.ndarray, LinearCache]:
        """Map h (..., D) and this rank's rows of the table to this rank's logits."""
        return self.layer.forward(self.f.forward(h), table)

    def backward(self, dlogits: np.ndarray, cache: LinearCache) -> tuple:
        """Return dh, of all ranks' tokens, and the gradients of this rank's parameters."""
        dh, dtable, grads = self.layer.backward(dlogits, cache)
        return self.f.backward(dh), dtable, grads


class VocabularyCrossEntropyCache(NamedTuple):
    p: np.ndarray  # of this rank's tokens
    targets: np.ndarray  # counted from this rank's first token
    own: np.ndarray  # whether the target is one of them


def vocabulary_cross_entropy(
    logits: np.ndarray, targets: np.ndarray, vocabulary: int, communicator: Communicator
) -> tuple[float, VocabularyCrossEntropyCache]:
    r"""Average the surprise, of logits that are cut by tokens (eq:vocabulary-cross-entropy).

    .. math::
        c_n = \max_r \max_{v \in r} z_{nv}, \qquad
        \mathcal{L} = \frac1M \sum_n \Bigl(\ln \sum_r \sum_{v \in r} e^{z_{nv} - c_n}
            - \sum_r \sum_{v \in r} [v = t_n] (z_{nv} - c_n)\Bigr)

    The ranks r tell each other three numbers per position: the maximum, the sum of the
    exponentials, and the target's logit, which one of them has.

    Parameters
    ----------
    logits : ndarray (..., V_r)
        The scores of this rank's tokens, range r of ``communicator.bounds(vocabulary)``.
    targets : ndarray of int (...)
        The right token t of each of the M positions, 0 to V - 1.
    vocabulary : int
        V, of all ranks.
    communicator : Communicator

    Returns
    -------
    loss : scalar
        In nats per position, the same on every rank.
    cache : VocabularyCrossEntropyCache
        The probabilities of this rank's tokens, and which of them are targets.

    Source: Shoeybi et al. 2019.
    """
    words = communicator.bounds(vocabulary)[communicator.rank]
    check_floats("logits", logits, ..., words.stop - words.start)
    check_ids("targets", targets, vocabulary)
    check_shape("targets", targets, *logits.shape[:-1])
    top = logits.real.max(axis=-1, initial=np.finfo(logits.dtype).min)
    top = communicator.all_reduce(top, np.maximum)
    z = logits - top[..., np.newaxis]
    local, own = locate(targets, vocabulary, communicator)
    z_target = np.take_along_axis(z, local[..., np.newaxis], axis=-1)[..., 0]
    z_target = np.where(own, z_target, 0)  # one rank has it
    p = np.exp(z, out=z)
    total, z_target = communicator.all_reduce(np.stack([p.sum(axis=-1), z_target]))
    total += total == 0  # of a row of -inf
    loss = (np.log(total) - z_target).mean()
    p /= total[..., np.newaxis]
    return loss, VocabularyCrossEntropyCache(p, local, own)


def vocabulary_cross_entropy_backward(
    dloss: float, cache: VocabularyCrossEntropyCache
) -> np.ndarray:
    r"""Backward pass of :func:`vocabulary_cross_entropy` (eq:vocabulary-cross-entropy-backward).

    .. math:: \bar{z}_{nv} = \frac{\bar{\mathcal{L}}}{M} \bigl(p_{nv} - [v = t_n]\bigr)

    Each rank has what it needs for its own tokens.

    Parameters
    ----------
    dloss : scalar
        Cotangent of ``loss``; the same on every rank.
    cache : VocabularyCrossEntropyCache

    Returns
    -------
    dlogits : ndarray (..., V_r)

    Source: Shoeybi et al. 2019.
    """
    check_scalar("dloss", dloss)
    p, targets, own = cache
    share = dloss / own.size
    dlogits = p * share
    dlogits[(*np.nonzero(own), targets[own])] -= share
    return dlogits


def locate(ids, vocabulary, communicator):
    """Return ids counted from this rank's first token, or 0, and whether they are its tokens."""
    words = communicator.bounds(vocabulary)[communicator.rank]
    own = (ids >= words.start) & (ids < words.stop)
    return np.where(own, ids - words.start, 0), own
