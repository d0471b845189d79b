"""Chapter 560: every position scores the token after it."""

import numpy as np

from transformer_core import ops
from transformer_core.ops.cross_entropy import CrossEntropyCache
from transformer_practice.engine.exercise import OpExercise
from transformer_practice.engine.points import Point, normal
from transformer_practice.exercises.structure import zero_sums


def causal_loss(logits: np.ndarray, ids: np.ndarray) -> tuple[float, CrossEntropyCache]:
    """Average the surprise at the token after each position (eq:gpt-loss)."""
    return ops.cross_entropy(logits, ids[:, 1:])


def causal_loss_backward(dloss: float, cache: CrossEntropyCache) -> np.ndarray:
    """Return dlogits (B, T, V)."""
    return ops.cross_entropy_backward(dloss, cache)


def causal_loss_points():
    def draw(name, V, B, T):
        ids = np.random.default_rng(1).integers(0, V, (B, T + 1))
        arguments = {"logits": normal(2, B, T, V), "ids": ids}
        return Point(name, arguments, 0.7, {"B": B, "T": T, "V": V})

    generic = draw("generic", 7, 3, 5)
    logits, ids = generic.arguments.values()
    return [
        generic,
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant("one position", logits=logits[:, :1], ids=ids[:, :2]),
        generic.variant("one token throughout", ids=np.full((3, 6), 4)),
        generic.variant("large logits", logits=400 * logits),
        draw("generic, other sizes", 4, 2, 6),
    ]


EXERCISES = [
    OpExercise(
        forward=causal_loss,
        inputs=("logits",),
        points=causal_loss_points,
        theorems=(zero_sums("every row of dlogits sums to 0", "dlogits"),),
    )
]
