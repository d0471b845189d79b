"""Chapter 150: layer normalisation."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import LayerNorm
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import drawn, sampler
from transformer_practice.exercises.structure import same_products, zero_sums


def layer_norm_points():
    draw = sampler("B T D", x="B T D", gamma="D", beta="D", eps=0.1, cotangent="B T D")
    generic = draw("generic", 3, 4, 7)
    x = generic.arguments["x"]
    constant = x.copy()
    constant[1, 2] = 3.0
    return [
        generic,
        generic.variant("gamma = 1", gamma=np.ones(7)),
        generic.sliced("one row", np.s_[:1, :1], "x"),
        generic.sliced("one sequence", np.s_[:1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        generic.variant("a constant row", x=constant),
        generic.variant("a large mean", x=x + 1e5),
        generic.variant("cotangent of ones", cotangent=np.ones(x.shape)),
        generic.without("the eps of the signature", "eps"),
        draw("generic, other sizes", 2, 3, 5),
    ]


def along_the_row(point, outputs):
    """Tell <dx, x_hat> from eps / (variance + eps)^(3/2) <g, x_hat>, row by row."""
    gamma, eps = point.arguments["gamma"], point.arguments.get("eps", 1e-5)
    _, (x_hat, inv_std, _) = ops.layer_norm(*point.arguments.values())
    g_along = (point.cotangent * gamma * x_hat).sum(axis=-1)
    dx_along = (outputs["dx"] * x_hat).sum(axis=-1)
    return (
        np.abs(dx_along - eps * inv_std[..., 0] ** 3 * g_along).max()
        / np.abs(point.cotangent).max()
    )


def layer_norm_terms(point):
    arguments = point.arguments
    _, (x_hat, inv_std, gamma) = ops.layer_norm(*arguments.values())
    g = point.cotangent * gamma
    return {
        "the scale term": inv_std * g,
        "the mean term": -inv_std * g.mean(axis=-1, keepdims=True) * np.ones_like(g),
        "the variance term": -inv_std * x_hat * (g * x_hat).mean(axis=-1, keepdims=True),
    }


def output_terms(point):
    gamma, beta = point.arguments["gamma"], point.arguments["beta"]
    _, (x_hat, *_) = ops.layer_norm(*point.arguments.values())
    return {"the normalised input times gamma": gamma * x_hat, "beta": beta * np.ones_like(x_hat)}


def norm_layer_points(kind, fresh):
    """Points of a layer that normalises; ``fresh`` is the name of the one with its first values."""

    def build(D):
        return drawn(lambda dtype: kind(D, dtype, eps=0.1), seed=5)

    draw = sampler("B T D", self=build, x="B T D", cotangent=("B T D", 4))
    generic = draw("generic", 3, 4, 7)
    return [
        generic,
        generic.variant(fresh, self=lambda dtype: kind(7, dtype, eps=0.1)),
        draw("one row", 1, 1, 7),
        draw("generic, other sizes", 2, 3, 5),
    ]


def layer_points():
    return norm_layer_points(LayerNorm, "a fresh layer: gamma = 1, beta = 0")


EXERCISES = [
    OpExercise(
        forward=ops.layer_norm,
        inputs=("x", "gamma", "beta"),
        points=layer_norm_points,
        theorems=(
            zero_sums("every row of dx sums to 0", "dx"),
            Theorem(
                "<dx, x_hat> = eps / (variance + eps)^(3/2) <g, x_hat> in every row: nearly 0",
                along_the_row,
            ),
            same_products(
                "<dgamma, gamma> + <dbeta, beta> = <dy, y>: y is linear in both",
                "gamma beta",
                of=ops.layer_norm,
            ),
        ),
        terms={"y": output_terms, "dx": layer_norm_terms},
    ),
    LayerExercise(forward=LayerNorm.forward, inputs=("x",), points=layer_points),
]
