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
        generic.variant("cotangent of ones", cotangent=np.ones(x.shape)),
        draw("generic, other sizes", 4, 2, 3),
    ]


def relu_points():
    points = activation_points()
    x = points[0].arguments["x"]
    return [*points, points[0]._replace(name="entries of 0", arguments={"x": x * (x > 0.5)})]


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


def gated(x, gate_weight, value_weight, output_weight):
    asked, asked_cache = ops.linear(x, gate_weight)
    value, value_cache = ops.linear(x, value_weight)
    gate, gate_cache = ops.gelu(asked)
    product, product_cache = ops.gated_product(gate, value)
    y, output_cache = ops.linear(product, output_weight)
    return y, (asked_cache, value_cache, gate_cache, product_cache, output_cache)


def gated_backward(dy, cache):
    asked_cache, value_cache, gate_cache, product_cache, output_cache = cache
    dproduct, doutput_weight, _ = ops.linear_backward(dy, output_cache)
    dgate, dvalue = ops.gated_product_backward(dproduct, product_cache)
    by_gate, dgate_weight, _ = ops.linear_backward(
        ops.gelu_backward(dgate, gate_cache), asked_cache
    )
    by_value, dvalue_weight, _ = ops.linear_backward(dvalue, value_cache)
    return by_gate + by_value, dgate_weight, dvalue_weight, doutput_weight


def gated_points():
    draw = sampler(
        "B T D F",
        x="B T D",
        gate_weight="D F",
        value_weight="D F",
        output_weight="F D",
        cotangent="B T D",
    )
    generic = draw("generic", 2, 3, 4, 7)
    gate_weight = generic.arguments["gate_weight"]
    return [
        generic,
        generic.sliced("one sequence", np.s_[:1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        generic.variant("gate and value alike", value_weight=gate_weight),
        generic.variant("a gate that asks nothing", gate_weight=0 * gate_weight),
        draw("F = D", 2, 3, 5, 5),
        draw("generic, other sizes", 3, 2, 5, 6),
    ]


def linear_in_value(point, outputs):
    x, _, value_weight, output_weight = point.arguments.values()
    y, _ = gated(**point.arguments)
    total = (point.cotangent * y).sum()
    return max(
        difference((outputs["dvalue_weight"] * value_weight).sum(), total),
        difference((outputs["doutput_weight"] * output_weight).sum(), total),
    )


def gated_terms(point):
    _, gate_weight, value_weight, output_weight = point.arguments.values()
    _, (*_, gate_cache, product_cache, _) = gated(**point.arguments)
    dproduct = point.cotangent @ output_weight.T
    dgate, dvalue = ops.gated_product_backward(dproduct, product_cache)
    return {
        "the gate's term": ops.gelu_backward(dgate, gate_cache) @ gate_weight.T,
        "the value's term": dvalue @ value_weight.T,
    }


def silu_terms(point):
    x = point.arguments["x"]
    _, (_, sigmoid) = ops.silu(x)
    return {
        "the open gate": point.cotangent * sigmoid,
        "the moving gate": point.cotangent * x * sigmoid * (1 - sigmoid),
    }


def activation(name, points=activation_points, **about):
    return OpExercise(forward=getattr(ops, name), inputs=("x",), points=points, **about)


EXERCISES = [
    activation(
        "relu",
        relu_points,
        theorems=(Theorem("dx * x = dy * y, entry by entry", through_the_origin),),
    ),
    activation("gelu", terms={"dx": gelu_terms}),
    activation("gelu_tanh", terms={"dx": gelu_tanh_terms}),
    activation("silu", terms={"dx": silu_terms}),
    LayerExercise(
        forward=FeedForward.forward,
        inputs=("x",),
        points=feed_forward_points,
        theorems=(
            Theorem("<dW_2, W_2> = <dy, y - b_2>: y is linear in W_2", second_map),
            Theorem("<dW_1, W_1> = <dx, x>: both are <dh, x W_1>", first_map),
        ),
    ),
    OpExercise(
        forward=gated,
        inputs=("x", "gate_weight", "value_weight", "output_weight"),
        points=gated_points,
        theorems=(
            Theorem("<dW_v, W_v> = <dW_2, W_2> = <dy, y>: y is linear in each", linear_in_value),
        ),
        terms={"dx": gated_terms},
    ),
]
