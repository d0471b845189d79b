"""Chapter 160: the feed-forward layer."""

from math import pi, sqrt

import numpy as np

from transformer_core import ops
from transformer_core.layers import FeedForward
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.structure import filled, same_products, seeded


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


def feed_forward(D, F, activation="relu"):
    return seeded(lambda rng, dtype: FeedForward(D, F, rng, dtype, activation))


def feed_forward_points():
    draw = sampler("B T D F", self=feed_forward, x="B T D", cotangent=("B T D", 4))
    generic = draw("generic", 2, 3, 4, 7)
    return [
        generic,
        generic.variant("GELU with tanh", self=feed_forward(4, 7, "gelu_tanh")),
        draw("F = D", 2, 3, 5, 5),
        generic.variant("every unit on", self=filled(feed_forward(4, 7), "hidden.bias", 100)),
        generic.variant("every unit off", self=filled(feed_forward(4, 7), "hidden.bias", -100)),
        draw("one sequence", 1, 3, 4, 7),
        draw("generic, other sizes", 3, 2, 5, 6),
    ]


def without_output_bias(self, x):
    layer = self(np.float64)
    y, cache = layer.forward(x)
    return y - layer.output.bias, cache


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
            same_products(
                "<dW_2, W_2> = <dy, y - b_2>: y is linear in W_2",
                "output.weight",
                of=without_output_bias,
            ),
            same_products("<dW_1, W_1> = <dx, x>: both are <dh, x W_1>", "hidden.weight", "x"),
        ),
    ),
]
