"""Embeddings with their parameters."""

import numpy as np

from transformer_core.foundation.checks import check_positive_int
from transformer_core.ops.embedding import (
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)


class Embedding:
    """One row of D numbers for each of V ids (eq:embedding).

    Parameters
    ----------
    vocabulary, width : int
        V and D.
    rng : numpy.random.Generator
    std : float
        Standard deviation of the table at the start, normally distributed. The default is BERT's.
    dtype : NumPy dtype
    """

    def __init__(self, vocabulary, width, rng, std=0.02, dtype=np.float32):
        check_positive_int("vocabulary", vocabulary)
        check_positive_int("width", width)
        self.table = rng.normal(0, std, (vocabulary, width)).astype(dtype)

    def parameters(self):
        return {"table": self.table}

    def forward(self, ids):
        """Map ids (...) to rows (..., D)."""
        return embedding(ids, self.table)

    def backward(self, drows, cache):
        """Return None and the gradients: ids are whole numbers and have no gradient."""
        return None, {"table": embedding_backward(drows, cache)}


class TiedReadout:
    """z = h E^T + b, with the table E of an embedding (eq:tied-readout).

    The table is an input here, and a parameter of the embedding alone: a parameter that two
    layers own would be stepped twice.

    Parameters
    ----------
    vocabulary : int
        V.
    dtype : NumPy dtype

    b starts at 0.
    """

    def __init__(self, vocabulary, dtype=np.float32):
        check_positive_int("vocabulary", vocabulary)
        self.bias = np.zeros(vocabulary, dtype)

    def parameters(self):
        return {"bias": self.bias}

    def forward(self, h, table):
        """Map h (..., D) and the table (V, D) to logits (..., V)."""
        return tied_readout(h, table, self.bias)

    def backward(self, dlogits, cache):
        """Return the gradients of h, of the table and of the parameters.

        Add the table's to the one of the look-up (eq:tied-embedding-backward).
        """
        dh, dtable, dbias = tied_readout_backward(dlogits, cache)
        return dh, dtable, {"bias": dbias}
