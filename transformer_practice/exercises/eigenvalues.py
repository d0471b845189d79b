"""Appendix 930: power iteration."""

from collections.abc import Callable

import numpy as np

from transformer_practice.engine.exercise import Exercise, Theorem
from transformer_practice.engine.points import Draws, Point, normal


def power_iteration(a: np.ndarray, start: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
    """Multiply by a symmetric matrix, and divide by the length, again and again."""
    v = start
    for _ in range(steps):
        v = v @ a
        v = v / np.linalg.norm(v)
    return float(v @ a @ v), v


def operator_norm(
    forward: Callable, backward: Callable, width: int, rng: np.random.Generator, steps: int = 200
) -> float:
    """Find the largest singular value of a linear map from its two passes."""
    v = rng.normal(size=width)
    for _ in range(steps):
        v = backward(forward(v))
        v = v / np.linalg.norm(v)
    return float(np.linalg.norm(forward(v)))


def matrix(seed: int, values: list) -> np.ndarray:
    """Return a symmetric matrix with given eigenvalues."""
    rotation, _ = np.linalg.qr(normal(seed, len(values), len(values)))
    return rotation @ np.diag(values) @ rotation.T


def power_points():
    def draw(name, values, steps):
        n = len(values)
        arguments = {"a": matrix(1, values), "start": 3 * normal(2, n), "steps": steps}
        return Point(name, arguments, sizes={"n": n, "steps": steps})

    generic = draw("generic", [2.0, -1.1, 0.7, 0.2], 3)
    return [
        generic,
        generic.variant("many steps", steps=60),
        generic.variant("one step", steps=1),
        generic.variant("a start of length 1", start=np.array([0.0, 0.6, 0.8, 0.0])),
        draw("many steps of a large matrix", [300.0, -110.0, 70.0, 20.0], 200),
        draw("the largest is negative", [-3.0, 1.5, 0.4], 5),
        draw("generic, other sizes", [1.5, 1.0, 0.3, 0.2, 0.1], 4),
    ]


def unit_length(point, outputs):
    return abs(np.linalg.norm(outputs["vector"]) - 1)


def norm_points():
    def draw(name, n, m):
        rank = min(n, m)
        left, _ = np.linalg.qr(normal(1, n, rank))
        right, _ = np.linalg.qr(normal(2, m, rank))
        weight = left @ np.diag(2.5 * 0.5 ** np.arange(rank)) @ right.T
        arguments = {
            "forward": lambda x: x @ weight,
            "backward": lambda y: y @ weight.T,
            "width": n,
            "rng": Draws(3),
            "steps": 200,
        }
        return Point(name, arguments, sizes={"n": n, "m": m})

    return [
        draw("generic", 4, 6),
        draw("square", 5, 5),
        draw("one output", 4, 1),
        draw("generic, other sizes", 7, 3),
    ]


EXERCISES = [
    Exercise(
        forward=power_iteration,
        returns=("value", "vector"),
        points=power_points,
        theorems=(Theorem("the vector has length 1", unit_length),),
    ),
    Exercise(forward=operator_norm, points=norm_points),
]
