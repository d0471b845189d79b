"""Embeddings with their parameters."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_dtype,
    check_generator,
    check_not_negative,
    check_positive_int,
)
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.embedding import (
    EmbeddingCache,
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)
from transformer_core.ops.linear import LinearCache, linear, linear_backward


class Embedding(Layer):
    """One row of D numbers for each of V ids (eq:embedding).

    Parameters
    ----------
    vocabulary, width : int
        V and D.
    rng : numpy.random.Generator
    std : float
        Standard deviation of the initial table, normally distributed. The default is BERT's.
    dtype : NumPy dtype
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        rng: np.random.Generator,
        std: float = 0.02,
        dtype: DTypeLike = np.float32,
    ):
        check_positive_int("vocabulary", vocabulary)
        check_positive_int("width", width)
        check_not_negative("std", std)
        check_dtype("dtype", dtype)
        check_generator("rng", rng)
        self.table = rng.normal(0, std, (vocabulary, width)).astype(dtype)

    def forward(self, ids: np.ndarray) -> tuple[np.ndarray, EmbeddingCache]:
        """Map ids (...) to rows (..., D)."""
        return embedding(ids, self.table)

    def backward(self, drows: np.ndarray, cache: EmbeddingCache) -> tuple[None, dict]:
        """Return None and the gradients: ids are whole numbers and have no gradient."""
        return None, {"table": embedding_backward(drows, cache)}


class TiedReadout(Layer):
    """z = h E^T + b, with the table E of an embedding (eq:tied-readout).

    The table is an input here, and a parameter of the embedding alone: a parameter that two
    layers own would be stepped twice.

    Parameters
    ----------
    vocabulary : int
        V.
    dtype : NumPy dtype
    bias : bool
        False: there is no b.

    b starts at 0.
    """

    def __init__(
        self, vocabulary: int, dtype: DTypeLike = np.float32, bias: bool = True
    ):
        check_positive_int("vocabulary", vocabulary)
        check_dtype("dtype", dtype)
        self.bias = np.zeros(vocabulary, dtype) if bias else None

    def forward(
        self, h: np.ndarray, table: np.ndarray
    ) -> tuple[np.ndarray, LinearCache]:
        """Map h (..., D) and the table (V, D) to logits (..., V)."""
        return tied_readout(h, table, self.bias)

    def backward(
        self, dlogits: np.ndarray, cache: LinearCache
    ) -> tuple[np.ndarray, np.ndarray, dict]:
        """Return the gradients of h, of the table and of the parameters.

        Add the table's to the one of the look-up (eq:tied-embedding-backward).
        """
        dh, dtable, dbias = tied_readout_backward(dlogits, cache)
        return dh, dtable, {} if dbias is None else {"bias": dbias}


class OwnReadout(Layer):
    """z = h W + b, with weights of its own (eq:linear), called as :class:`TiedReadout` is.

    Parameters
    ----------
    width, vocabulary : int
        D and V.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    bias : bool
        False: there is no b.

    W and b start as those of :class:`Linear`.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        bias: bool = True,
    ):
        check_positive_int("vocabulary", vocabulary)
        start = Linear(width, vocabulary, rng, dtype, bias)
        self.weight, self.bias = start.weight, start.bias

    def forward(
        self, h: np.ndarray, table: np.ndarray
    ) -> tuple[np.ndarray, LinearCache]:
        """Map h (..., D) to logits (..., V); the table takes no part."""
        return linear(h, self.weight, self.bias)

    def backward(
        self, dlogits: np.ndarray, cache: LinearCache
    ) -> tuple[np.ndarray, None, dict]:
        """Return the gradients of h and of the parameters; the table has none."""
        dh, dweight, dbias = linear_backward(dlogits, cache)
        grads = {"weight": dweight}
        return dh, None, grads if dbias is None else grads | {"bias": dbias}
