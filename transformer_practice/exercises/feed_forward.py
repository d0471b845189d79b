"""Chapter 160: the feed-forward layer."""

from math import pi, sqrt

import numpy as np

from transformer_core import ops
from transformer_core.layers import FeedForward
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import randomise, sampler
from transformer_practice.exercises.structure import difference


def activation_points():
    draw = sampler("B T F", x="B T F", cotangent="B T F")
    generic = draw("generic", 2, 3, 5)
    x = generic.arguments["x"]
    return [
        generic,
        generic.variant("positive entries", x=np.abs(x)),
        generic.variant("negative entries", x=-np.abs(x)),
        generic.variant("large entries", x=30.0 * x),
        generic.variant("entries whose exponential overflows", x=2000.0 * x),
        generic.variant("entries of 0", x=x * (x > 0.5)),
        generic.variant("cotangent of ones", cotangent=np.ones(x.shape)),
        draw("generic, other sizes", 4, 2, 3),
    ]


def through_the_origin(point, outputs):
    x = point.arguments["x"]
    return np.abs(outputs["dx"] * x - point.cotangent * x * (x > 0)).max()


def gelu_terms(point):
    (x,) = point.arguments.values()
    _, (_, probability) = ops.gelu(x)
    density = np.exp(-x * x / 2) / sqrt(2 * pi)
    return {
        "the open gate": point.cotangent * probability,
        "the moving gate": point.cotangent * x * density,
    }


def gelu_tanh_terms(point):
    (x,) = point.arguments.values()
    _, (_, tanh) = ops.gelu_tanh(x)
    moving = point.cotangent * x * (1 - tanh * tanh) / 2 * sqrt(2 / pi)
    return {
        "the open gate": point.cotangent * (1 + tanh) / 2,
        "the moving gate, by x": moving,
        "the moving gate, by the cube of x": moving * 3 * 0.044715 * x * x,
    }


def feed_forward(D, F, activation="relu", bias=None):
    def build(dtype):
        rng = np.random.default_rng(5)
        layer = randomise(FeedForward(D, F, rng, dtype, activation), rng)
        if bias is not None:
            layer.hidden.bias[...] = bias
        return layer

    return build


def feed_forward_points():
    draw = sampler("B T D F", self=feed_forward, x="B T D", cotangent=("B T D", 4))
    generic = draw("generic", 2, 3, 4, 7)
    return [
        generic,
        generic.variant("GELU with tanh", self=feed_forward(4, 7, "gelu_tanh")),
        draw("F = D", 2, 3, 5, 5),
        generic.variant("every unit on", self=feed_forward(4, 7, bias=100.0)),
        generic.variant("every unit off", self=feed_forward(4, 7, bias=-100.0)),
        draw("one sequence", 1, 3, 4, 7),
        draw("generic, other sizes", 3, 2, 5, 6),
    ]


def second_map(point, outputs):
    build, x = point.arguments.values()
    layer = build(np.float64)
    y, _ = layer.forward(x)
    return difference(
        (outputs["doutput.weight"] * layer.output.weight).sum(),
        (point.cotangent * (y - layer.output.bias)).sum(),
    )


def first_map(point, outputs):
    build, x = point.arguments.values()
    return difference(
        (outputs["dhidden.weight"] * build(np.float64).hidden.weight).sum(),
        (outputs["dx"] * x).sum(),
    )


def activation(name, **about):
    return OpExercise(forward=getattr(ops, name), inputs=("x",), points=activation_points, **about)


EXERCISES = [
    activation("relu", theorems=(Theorem("dx * x = dy * y, entry by entry", through_the_origin),)),
    activation("gelu", terms={"dx": gelu_terms}),
    activation("gelu_tanh", terms={"dx": gelu_tanh_terms}),
    LayerExercise(
        forward=FeedForward.forward,
        inputs=("x",),
        points=feed_forward_points,
        theorems=(
            Theorem("<dW_2, W_2> = <dy, y - b_2>: y is linear in W_2", second_map),
            Theorem("<dW_1, W_1> = <dx, x>: both are <dh, x W_1>", first_map),
        ),
    ),
]
