"""Chapter 595: a cross-entropy whose targets need not sum to 1."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import OpExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.cross_entropy import soft_target_terms
from transformer_practice.exercises.structure import row_sums


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

    draw = sampler(
        "B T V", logits="B T V", q=masses, cotangent=-1.7, sizes={"N": lambda B, T: B * T}
    )
    generic = draw("generic", 3, 4, 5)
    logits, q = generic.arguments.values()
    whole = q / q.sum(axis=-1, keepdims=True)
    return [
        generic,
        generic.variant("targets that sum to 1", q=whole),
        generic.variant("half of every target", q=whole / 2),
        generic.variant("a position that counts nothing", q=q * (np.arange(4)[:, None] > 0)),
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant("one position", logits=logits[:1, :1], q=q[:1, :1]),
        generic.variant("large logits", logits=800.0 * logits),
        draw("generic, other sizes", 2, 5, 4),
    ]


EXERCISES = [
    OpExercise(
        forward=soft_cross_entropy,
        inputs=("logits",),
        points=points,
        theorems=(Theorem("every row of dlogits sums to 0", row_sums("dlogits")),),
        terms={"dlogits": soft_target_terms},
    )
]
