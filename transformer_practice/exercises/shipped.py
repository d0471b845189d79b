"""Chapter 595: a cross-entropy whose targets need not sum to 1."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import OpExercise
from transformer_practice.exercises.cross_entropy import soft_target_points, soft_target_terms
from transformer_practice.exercises.structure import zero_sums


def soft_cross_entropy(logits, q):
    return -(q * ops.log_softmax(logits)).sum(axis=-1).mean(), (logits, q)


def soft_cross_entropy_backward(dloss, cache):
    logits, q = cache
    mass = q.sum(axis=-1, keepdims=True)
    return (mass * np.exp(ops.log_softmax(logits)) - q) * dloss * (q.shape[-1] / q.size)


def points():
    def masses(B, T, V):
        rng = np.random.default_rng(2)
        q = ops.softmax(rng.normal(size=(B, T, V)))[0]
        return q * rng.uniform(0.2, 1.4, (B, T, 1))

    def special(q):
        whole = q / q.sum(axis=-1, keepdims=True)
        return {
            "targets that sum to 1": whole,
            "half of every target": whole / 2,
            "a position that counts nothing": q * (np.arange(4)[:, None] > 0),
        }

    return soft_target_points(masses, special)


EXERCISES = [
    OpExercise(
        forward=soft_cross_entropy,
        inputs=("logits",),
        points=points,
        theorems=(zero_sums("every row of dlogits sums to 0", "dlogits"),),
        terms={"dlogits": soft_target_terms},
    )
]
