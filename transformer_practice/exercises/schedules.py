"""Chapter 250: clipping, schedules and accumulation."""

from functools import partial

import numpy as np

from transformer_core.ops import linear, linear_backward
from transformer_core.optim import clip_by_global_norm, warmup_stable_decay
from transformer_core.training.accumulation import combine
from transformer_practice.engine.exercise import Exercise, Theorem
from transformer_practice.engine.points import Point, normal
from transformer_practice.exercises.structure import given


def clipping_points():
    grads = {"weight": normal(1, 3, 5), "bias": normal(2, 5)}
    generic = Point("generic", {"grads": grads, "max_norm": 2.0})
    small = {name: 0.01 * grad for name, grad in grads.items()}
    return [
        generic,
        generic.variant("a short gradient", grads=small),
        generic.variant("one array", grads={"weight": grads["weight"]}),
        generic.variant("no gradient", grads={"weight": np.zeros((3, 5))}),
        Point(
            "generic, other sizes",
            {"grads": {"weight": normal(4, 2, 4), "bias": normal(5, 3)}, "max_norm": 0.7},
        ),
    ]


def schedule_points():
    draw = given("step steps peak warmup decay")
    return [
        draw("generic", 3, 40, 0.7, 8, 11),
        draw("the first step", 1, 40, 0.7, 8, 11),
        draw("the end of the warm-up", 8, 40, 0.7, 8, 11),
        draw("on the peak", 20, 40, 0.7, 8, 11),
        draw("the first step below the peak", 31, 40, 0.7, 8, 11),
        draw("falling", 35, 40, 0.7, 8, 11),
        draw("the last step", 40, 40, 0.7, 8, 11),
        draw("no warm-up", 1, 40, 0.7, 0, 11),
        draw("no decay", 40, 40, 0.7, 8, 0),
        draw("the rise and the fall meet", 6, 10, 0.7, 9, 7),
        draw("the fall within the rise", 8, 10, 0.7, 9, 7),
        draw("generic, other sizes", 27, 30, 0.3, 5, 13),
    ]


def in_micro_batches(loss_and_gradients, size, *batch):
    """Return the loss and the gradients of a batch, of pieces of a size."""

    def parts():
        for i in range(0, len(batch[0]), size):
            piece = [array[i : i + size] for array in batch]
            loss, grads = loss_and_gradients(*piece)
            yield len(piece[0]), loss, grads

    _, loss, grads = combine(parts())
    return loss, grads


def squared_error(weight, bias, room, x, target):
    """Half the mean squared length of the errors of a linear layer, and its gradients."""
    if len(x) > room:
        raise ValueError(f"loss_and_gradients: {len(x)} rows, and there is room for {room}")
    prediction, cache = linear(x, weight, bias)
    error = prediction - target
    _, dweight, dbias = linear_backward(error / len(x), cache)
    return (error**2).sum() / 2 / len(x), {"weight": dweight, "bias": dbias}


def micro_points():
    def draw(name, batch, size, width, outputs):
        arguments = {
            "loss_and_gradients": partial(
                squared_error, normal(1, width, outputs), normal(2, outputs), size
            ),
            "size": size,
            "x": normal(3, batch, width),
            "target": normal(4, batch, outputs),
        }
        sizes = {"B": batch, "size": size, "D": width, "pieces": -(-batch // size)}
        return Point(name, arguments, sizes=sizes)

    return [
        draw("generic", 11, 4, 5, 2),
        draw("one piece", 11, 20, 5, 2),
        draw("one by one", 11, 1, 5, 2),
        draw("pieces of the same size", 12, 4, 5, 2),
        draw("generic, other sizes", 7, 5, 4, 3),
    ]


def direction(point, outputs):
    """Every array is shortened by the same factor."""
    ratios = [
        (outputs[f"clipped, {name}"] * grad).sum() / (grad**2).sum()
        for name, grad in point.arguments["grads"].items()
        if grad.any()
    ]
    return max(ratios) - min(ratios) if ratios else 0.0


def square_of_the_norm(point, outputs):
    total = sum((grad**2).sum() for grad in point.arguments["grads"].values())
    return abs(float(outputs["norm"]) ** 2 - total) / (total or 1.0)


EXERCISES = [
    Exercise(
        forward=clip_by_global_norm,
        returns=("clipped", "norm"),
        points=clipping_points,
        theorems=(
            Theorem("the gradient keeps its direction", direction),
            Theorem(
                "the square of the norm is the sum of the squares of all entries",
                square_of_the_norm,
            ),
        ),
    ),
    Exercise(forward=warmup_stable_decay, points=schedule_points),
    Exercise(forward=in_micro_batches, returns=("loss", "gradients"), points=micro_points),
]
