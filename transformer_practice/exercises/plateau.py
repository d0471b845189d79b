"""Chapter 360: a model with two parameters."""

from typing import NamedTuple

import numpy as np

from transformer_practice.engine.exercise import OpExercise, Theorem
from transformer_practice.engine.points import sampler


class NeighbourLossCache(NamedTuple):
    w: np.ndarray
    a: np.ndarray
    length: int


def neighbour_loss(
    u: np.ndarray, w: np.ndarray, length: int
) -> tuple[np.ndarray, NeighbourLossCache]:
    """Return the share of the variance that is not explained (eq:neighbour-loss).

    u is the score of the neighbour, w the strength with which the head's output is used.
    """
    a = np.exp(u) / (np.exp(u) + length - 1)
    loss = (1 - w * a) ** 2 + w**2 * (1 - a) ** 2 / (length - 1)
    return loss, NeighbourLossCache(w, a, length)


def neighbour_loss_backward(
    dloss: np.ndarray, cache: NeighbourLossCache
) -> tuple[np.ndarray, np.ndarray]:
    """Return du (...) and dw (...) (eq:neighbour-gradients)."""
    w, a, length = cache
    rest = (1 - a) / (length - 1)  # the weight of each other position
    du = -2 * w * a * (1 - a) * (1 - w * a + w * rest)
    dw = -2 * a * (1 - w * a) + 2 * w * (1 - a) * rest
    return dloss * du, dloss * dw


def points():
    draw = sampler("T N", u="N", w="N", length=lambda T: T, cotangent="N")
    generic = draw("generic", 6, 4)
    return [
        generic,
        generic.variant("at the start", u=np.zeros(4), w=np.zeros(4)),
        generic.variant("all scores equal", u=np.zeros(4)),
        generic.variant("two positions", length=2),
        generic.variant("cotangent of ones", cotangent=np.ones(4)),
        draw("generic, other sizes", 9, 3),
    ]


def by_the_strength(point, outputs):
    """The loss is quadratic in w: dw changes by twice the squared weights for a unit of w."""
    u, w, length = point.arguments.values()
    a = np.exp(u) / (np.exp(u) + length - 1)
    squares = a**2 + (1 - a) ** 2 / (length - 1)
    expected = 2 * (w * squares - a) * point.cotangent
    return np.abs(outputs["dw"] - expected).max() / np.abs(expected).max()


EXERCISES = [
    OpExercise(
        forward=neighbour_loss,
        inputs=("u", "w"),
        points=points,
        theorems=(
            Theorem(
                "dw is linear in w, with twice the sum of the squared weights as slope",
                by_the_strength,
            ),
        ),
    )
]
