"""Appendix 920: a Jacobian that is measured, and a test of adjoints."""

from collections.abc import Callable

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Draws, normal, sampler
from transformer_practice.exercises.structure import given


def jacobian(f: Callable, x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Measure the Jacobian of a function of n numbers by central differences.

    A row for each output, a column for each input (eq:jacobian-linear-map).
    """
    steps = h * np.eye(len(x))
    return np.stack([(f(x + d) - f(x - d)) / (2 * h) for d in steps], axis=1)


def is_adjoint(
    forward: Callable, backward: Callable, x_shape: tuple[int, ...], rng: np.random.Generator
) -> bool:
    """Test eq:jacobian-adjoint on random arrays."""
    x = rng.normal(size=x_shape)
    y = rng.normal(size=forward(x).shape)
    return bool(np.isclose((forward(x) * y).sum(), (x * backward(y)).sum()))


def bent(numbers: int, outputs: int) -> Callable:
    """Return a function from ``numbers`` numbers to ``outputs``."""
    weight = normal(3, numbers, outputs)
    return lambda x: np.sin(x @ weight) + (x @ weight) ** 2


def jacobian_points():
    draw = sampler("m n h", f=lambda m, n: bent(n, m), x="n", h=lambda h: h)
    return [
        draw("generic", 3, 5, 0.02),
        draw("as many outputs as inputs", 4, 4, 0.02),
        draw("one output", 1, 4, 0.02),
        draw("generic, other sizes", 6, 2, 0.05),
    ]


def adjoint_points():
    weight, keep = normal(1, 4, 6), np.random.default_rng(2).random((3, 4)) < 0.5
    ids = [2, 0, 2]

    def scatter(y):
        table = np.zeros((5, 4))
        np.add.at(table, ids, y)
        return table

    def overwrite(y):
        table = np.zeros((5, 4))
        table[ids] = y
        return table

    pairs = {
        "generic": (lambda x: x @ weight, lambda y: y @ weight.T, (3, 4)),
        "a pass twice too long": (lambda x: x @ weight, lambda y: 2 * y @ weight.T, (3, 4)),
        "a pass of the wrong sign": (lambda x: x @ weight, lambda y: -y @ weight.T, (3, 4)),
        "a pass a little too long": (lambda x: x @ weight, lambda y: 1.01 * y @ weight.T, (3, 4)),
        "a pass that is right for ones": (lambda x: x, lambda y: y[::-1, ::-1], (3, 4)),
        "an assignment for scatter-add": (lambda x: x[ids], overwrite, (5, 4)),
        "pick and scatter-add": (lambda x: x[ids], scatter, (5, 4)),
        "a mask": (lambda x: x * keep, lambda y: y * keep, (3, 4)),
        "a mask that is forgotten": (lambda x: x * keep, lambda y: y, (3, 4)),
        "copy and mean": (lambda x: np.broadcast_to(x, (3, 4)), lambda y: y.mean(axis=0), (4,)),
        "generic, other sizes": (
            lambda x: x.sum(axis=1),
            lambda y: np.broadcast_to(y[:, np.newaxis], (2, 5)),
            (2, 5),
        ),
    }
    point = given("forward backward x_shape rng")
    return [point(name, *pair, Draws(3)) for name, pair in pairs.items()]


EXERCISES = [
    Exercise(forward=jacobian, points=jacobian_points),
    Exercise(forward=is_adjoint, points=adjoint_points),
]
