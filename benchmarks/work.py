"""The work that every contender does: one training step of seed 004's Mini-BERT."""

import numpy as np

LAYERS, WIDTH, HEADS, HIDDEN = 3, 192, 4, 768
LENGTH, VOCABULARY, MASKED = 64, 8192, 0.15
PARAMETERS = 4_498_880
MAX_NORM, LEARNING_RATE = 1.0, 1e-3
BATCHES = 4


def draw_ids(rng, vocabulary, *shape):
    """Draw ids: the k-th most frequent turns up about 1/k times as often as the first."""
    return (vocabulary ** rng.random(shape)).astype(np.int64) - 1


def draw_batches(batch):
    """Draw batches of ids, targets and masks (B, T), the same ones for every contender."""
    rng = np.random.default_rng(0)
    shape = BATCHES, batch, LENGTH
    ids, targets = (draw_ids(rng, VOCABULARY, *shape) for _ in range(2))
    masked = rng.random(shape) < MASKED
    return list(zip(ids, targets, masked, strict=True))
