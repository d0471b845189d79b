"""The loss and the gradients of one batch, on the ranks of a test."""

import numpy as np
from helpers.witnesses import randomise

from transformer_core.distributed import DataParallel
from transformer_core.layers import LayerSpec
from transformer_core.models import Bert, StackSpec

B, T, V = 7, 5, 23


def model_and_batch(dtype, dropout=0.0):
    """A model at a generic point, and sequences that count 1, 4, 0, 2, 3, 5 and 1 tokens."""
    rng = np.random.default_rng(11)
    spec = LayerSpec(8, 2, 12, "post", dropout=dropout, dtype=dtype)
    model = randomise(Bert(spec, StackSpec(V, T, 2), rng), rng)
    masked = np.arange(T) < np.array([1, 4, 0, 2, 3, 5, 1])[:, np.newaxis]
    batch = rng.integers(V, size=(B, T)), rng.integers(V, size=(B, T)), masked
    return model, batch


def masked_tokens(ids, targets, masked):
    return int(masked.sum())


def one_step(communicator, dtype, threads=1):
    """Return the loss and the gradients, with dropout, by name."""
    model, batch = model_and_batch(dtype, dropout=0.2)
    parallel = DataParallel(model, masked_tokens, threads, communicator)
    loss, grads = parallel.loss_and_gradients(*batch, rng=np.random.default_rng(5))
    return {"loss": np.array(loss)} | grads
