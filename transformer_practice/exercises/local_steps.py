"""Chapter 480: the outer step of ranks that meet once in many steps."""

import numpy as np

from transformer_core.distributed import LocalSteps
from transformer_core.ranks import on_threads
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal


def outer_step(
    shared: np.ndarray,
    velocity: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    learning_rate: float,
    momentum: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Let the ranks meet, each in a thread (eq:diloco-outer)."""

    def work(communicator):
        parameters = {"theta": shared.copy()}
        local = LocalSteps(parameters, learning_rate, momentum)
        local.velocity += velocity.reshape(-1)
        parameters["theta"][...] = ends[communicator.rank]
        local.meet(communicator, float(weights[communicator.rank]))
        return parameters["theta"], local.velocity.reshape(velocity.shape)

    return on_threads(len(ends), work)[0]


def outer_points():
    def draw(name, weights, learning_rate, momentum, *shape):
        N = len(weights)
        sizes = {"N": N, "sum of the weights": sum(weights), "eta": learning_rate, "mu": momentum}
        arguments = {
            "shared": normal(1, *shape),
            "velocity": normal(2, *shape),
            "ends": normal(3, N, *shape),
            "weights": np.array(weights, float),
            "learning_rate": learning_rate,
            "momentum": momentum,
        }
        return Point(name, arguments, sizes=sizes)

    generic = draw("generic", (10, 3, 7), 0.7, 0.9, 4, 5)
    return [
        generic,
        generic.variant("equal weights", weights=np.full(3, 2.0)),
        generic.variant("a rank of weight 0", weights=np.array([10.0, 0.0, 7.0])),
        generic.variant("no momentum", momentum=0.0),
        generic.variant("the first meeting", velocity=np.zeros((4, 5))),
        draw("generic, other sizes", (5, 2), 0.4, 0.6, 3, 2),
    ]


def parts_of(point):
    """Return what goes into a step: the mean way back, and the velocity that is left of the old."""
    shared, velocity, ends, weights, _, momentum = point.arguments.values()
    way = shared - np.tensordot(weights / weights.sum(), ends, axes=1)
    return way, momentum * velocity


def shared_terms(point):
    way, left = parts_of(point)
    rate, momentum = point.arguments["learning_rate"], point.arguments["momentum"]
    return {
        "the old shared": point.arguments["shared"],
        "the step along Delta": -rate * (1 + momentum) * way,
        "the step along the old velocity": -rate * momentum * left,
    }


def velocity_terms(point):
    way, left = parts_of(point)
    return {"mu times the old velocity": left, "Delta": way}


EXERCISES = [
    Exercise(
        forward=outer_step,
        returns=("shared", "velocity"),
        points=outer_points,
        terms={"shared": shared_terms, "velocity": velocity_terms},
    )
]
