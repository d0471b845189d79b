"""Chapter 120: the linear layer."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import Linear
from transformer_practice.engine.exercise import LayerExercise, OpExercise
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.structure import same_products, seeded


def linear_points():
    draw = sampler(
        "B T D_in D_out", x="B T D_in", weight="D_in D_out", bias="D_out", cotangent="B T D_out"
    )
    generic = draw("generic", 3, 4, 5, 7)
    x, cotangent = generic.arguments["x"], generic.cotangent
    return [
        generic,
        generic.sliced("one sequence", np.s_[:1], "x"),
        generic.sliced("one position", np.s_[:, :1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        generic.variant(
            "not in C order", x=np.asfortranarray(x), cotangent=np.asfortranarray(cotangent)
        ),
        generic.variant("cotangent of ones", cotangent=np.ones(cotangent.shape)),
        draw("generic, other sizes", 2, 5, 4, 3),
        draw("square weight", 3, 4, 5, 5),
    ]


def without_bias(x, weight, bias):
    return ops.linear(x, weight)


def linear_layer(D_in, D_out, bias=True):
    return seeded(lambda rng, dtype: Linear(D_in, D_out, rng, dtype, bias))


def layer_points():
    draw = sampler("B T D_in D_out", self=linear_layer, x="B T D_in", cotangent=("B T D_out", 4))
    rows = sampler("B D_in D_out", self=linear_layer, x="B D_in", cotangent=("B D_out", 4))
    generic = draw("generic", 3, 4, 5, 7)
    return [
        generic,
        rows("rows alone", 6, 5, 7),
        generic.variant("no bias", self=linear_layer(5, 7, bias=False)),
        draw("square weight", 3, 4, 5, 5),
        draw("one sequence", 1, 4, 5, 7),
        draw("generic, other sizes", 2, 5, 4, 3),
    ]


def three_linear(x, weights, biases):
    ys, caches = zip(
        *(ops.linear(x, *each) for each in zip(weights, biases, strict=True)), strict=True
    )
    return np.stack(ys), caches


def three_linear_backward(dy, cache):
    dxs, dweights, dbiases = zip(
        *(ops.linear_backward(*each) for each in zip(dy, cache, strict=True)), strict=True
    )
    return sum(dxs), np.stack(dweights), np.stack(dbiases)


def three_points():
    draw = sampler(
        "B T D_in D_out",
        x="B T D_in",
        weights="3 D_in D_out",
        biases="3 D_out",
        cotangent="3 B T D_out",
    )
    generic = draw("generic", 2, 4, 5, 7)
    x, weights, biases = generic.arguments.values()
    return [
        generic,
        generic.variant("one sequence", x=x[:1], cotangent=generic.cotangent[:, :1]),
        generic.variant("no batch axis", x=x[0], cotangent=generic.cotangent[:, 0]),
        generic.variant("three equal maps", weights=weights[[0, 0, 0]], biases=biases[[0, 0, 0]]),
        generic.variant("three equal cotangents", cotangent=generic.cotangent[[0, 0, 0]]),
        draw("generic, other sizes", 5, 2, 4, 6),
        draw("square weights", 2, 4, 5, 5),
    ]


def three_terms(point):
    weights = point.arguments["weights"]
    return {
        f"the {name} map's term": dy @ weight.T
        for name, dy, weight in zip(
            ("first", "second", "third"), point.cotangent, weights, strict=True
        )
    }


EXERCISES = [
    OpExercise(
        forward=ops.linear,
        inputs=("x", "weight", "bias"),
        points=linear_points,
        theorems=(
            same_products(
                "<dy, x W> = <dx, x>: the backward pass is the adjoint", "x", of=without_bias
            ),
            same_products(
                "<dy, x W> = <dweight, W>, for the same reason", "weight", of=without_bias
            ),
        ),
    ),
    LayerExercise(forward=Linear.forward, inputs=("x",), points=layer_points),
    OpExercise(
        forward=three_linear,
        inputs=("x", "weights", "biases"),
        points=three_points,
        theorems=(same_products("<dweights, W> = <dx, x>: both are <dy, x W>", "weights", "x"),),
        terms={"dx": three_terms},
    ),
]
