"""Chapter 530: the gated feed-forward layer."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import GatedFeedForward
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.feed_forward import activation
from transformer_practice.exercises.structure import difference, same_products, seeded


def silu_terms(point):
    x = point.arguments["x"]
    _, (_, sigmoid) = ops.silu(x)
    return {
        "the open gate": point.cotangent * sigmoid,
        "the moving gate": point.cotangent * x * sigmoid * (1 - sigmoid),
    }


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


def gated_terms(point):
    _, gate_weight, value_weight, output_weight = point.arguments.values()
    _, (*_, gate_cache, product_cache, _) = gated(**point.arguments)
    dproduct = point.cotangent @ output_weight.T
    dgate, dvalue = ops.gated_product_backward(dproduct, product_cache)
    return {
        "the gate's term": ops.gelu_backward(dgate, gate_cache) @ gate_weight.T,
        "the value's term": dvalue @ value_weight.T,
    }


def gated_layer(D, F, activation="silu"):
    return seeded(lambda rng, dtype: GatedFeedForward(D, F, rng, dtype, activation))


def gated_layer_points():
    draw = sampler("B T D F", self=gated_layer, x="B T D", cotangent=("B T D", 4))
    generic = draw("generic", 2, 3, 4, 7)
    return [
        generic,
        generic.variant("GEGLU with tanh", self=gated_layer(4, 7, "gelu_tanh")),
        draw("F = D", 2, 3, 5, 5),
        draw("one sequence", 1, 3, 4, 7),
        draw("generic, other sizes", 3, 2, 5, 6),
    ]


def unit_by_unit(point, outputs):
    """Tell <dW_v, W_v> from <dW_2, W_2>, one unit after the other."""
    layer = point.arguments["self"](np.float64)
    return difference(
        (outputs["dvalue.weight"] * layer.value.weight).sum(axis=0),
        (outputs["doutput.weight"] * layer.output.weight).sum(axis=1),
    )


EXERCISES = [
    activation("silu", terms={"dx": silu_terms}),
    OpExercise(
        forward=gated,
        inputs=("x", "gate_weight", "value_weight", "output_weight"),
        points=gated_points,
        theorems=(
            same_products(
                "<dW_v, W_v> = <dW_2, W_2> = <dy, y>: y is linear in each",
                "value_weight",
                "output_weight",
                of=gated,
            ),
        ),
        terms={"dx": gated_terms},
    ),
    LayerExercise(
        forward=GatedFeedForward.forward,
        inputs=("x",),
        points=gated_layer_points,
        theorems=(
            Theorem("<dW_v, W_v> = <dW_2, W_2> for every unit", unit_by_unit),
            same_products(
                "<dx, x> = <dW_g, W_g> + <dW_v, W_v>: x acts through both",
                "x",
                "gate.weight value.weight",
            ),
        ),
    ),
]
