"""Chapter 590: rounding to few bits, and a step along gradients of a scaled loss."""

import numpy as np

from transformer_core import ops
from transformer_core.optim import clip_by_global_norm, unscale
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal
from transformer_practice.exercises.sampling import Given
from transformer_practice.exercises.structure import given


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Return the nearest numbers of bfloat16, of two the even one (eq:round-to)."""
    return ops.round_to(x, "bfloat16")


def to_bfloat16_at_random(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the upper neighbour where a number falls on its share (eq:stochastic-rounding)."""
    return ops.round_to(x, "bfloat16", Given(numbers))


def scaled_step(
    parameter: np.ndarray, grad: np.ndarray, scale: float, streak: int, max_norm: float
) -> tuple[np.ndarray, float, int]:
    """Step along the finite gradient of a scaled loss (eq:loss-scaling, eq:dynamic-scale)."""
    grads = unscale({"grad": grad}, scale)
    if grads is None:
        return parameter, scale / 2, 0
    clipped, _ = clip_by_global_norm(grads, max_norm)
    streak += 1
    if streak == 5:
        scale, streak = 2 * scale, 0
    return parameter - clipped["grad"], scale, streak


def rounding_points():
    x = normal(3, 4, 7) * 10.0 ** np.arange(-3, 4)
    steps = np.array([1.0, 3, 5, 7, 128, 200, 254])
    point = given("x")
    return [
        point("generic", x),
        point("numbers that bfloat16 has", ops.round_to(x, "bfloat16")),
        point("middles between neighbours", 1 + steps / 256),
        point("middles, negative", -(1 + steps / 256)),
        point(
            "just beside the middles", 1 + steps / 256 + 1e-4 * np.array([1, -1, 1, -1, 1, -1, 1])
        ),
        point("up to the next power of two", np.array([1.999, -3.999, 0.4999])),
        point("both zeros", np.array([0.0, -0.0])),
        point("generic, other sizes", normal(5, 11)),
    ]


def random_points():
    rng = np.random.default_rng(4)
    x = normal(6, 3, 5) * 10.0 ** np.arange(-2, 3)
    point = given("x numbers")
    return [
        point("generic", x, rng.random(x.shape)),
        point("all negative", -np.abs(x), rng.random(x.shape)),
        point("numbers that bfloat16 has", ops.round_to(x, "bfloat16"), rng.random(x.shape)),
        point("the number 0", x, np.zeros(x.shape)),
        point("nearly 1", x, np.full(x.shape, 1 - 2.0**-20)),
        point("generic, other sizes", normal(8, 9), rng.random(9)),
    ]


def step_points():
    parameter, grad = normal(1, 6), 256.0 * normal(2, 6)
    infinite, no_number = grad.copy(), grad.copy()
    infinite[3], no_number[4] = -np.inf, np.nan

    def point(name, grad, streak=1, max_norm=0.5, scale=256.0):
        arguments = {
            "parameter": parameter[: len(grad)], "grad": grad, "scale": scale,
            "streak": streak, "max_norm": max_norm,
        }  # fmt: skip
        return Point(name, arguments, sizes={"D": len(grad), "scale": scale})

    return [
        point("generic", grad),
        point("a gradient that is short enough", grad, max_norm=50.0),
        point("an infinite entry", infinite, streak=3),
        point("an entry that is not a number", no_number, streak=4),
        point("the fifth finite gradient", grad, streak=4),
        point("a gradient of zeros", np.zeros(6)),
        point("generic, other sizes", normal(5, 4), max_norm=0.01, scale=64.0),
    ]


def matrix_points():
    matrix = normal(7, 4, 9) * np.array([[1], [30], [0.02], [5]])
    with_zeros = matrix.copy()
    with_zeros[2] = 0
    point = given("matrix", lambda matrix: dict(zip("NM", matrix.shape, strict=True)))
    return [
        point("generic", matrix),
        point("rows of equal size", normal(9, 3, 5)),
        point("a row of zeros", with_zeros),
        point("the largest is negative", -np.abs(matrix)),
        point("generic, other sizes", normal(10, 7, 2)),
    ]


EXERCISES = [
    Exercise(forward=to_bfloat16, points=rounding_points),
    Exercise(forward=to_bfloat16_at_random, points=random_points),
    Exercise(forward=scaled_step, points=step_points, returns=("parameter", "scale", "streak")),
    Exercise(forward=ops.round_rows, points=matrix_points, returns=("whole", "scales")),
]
