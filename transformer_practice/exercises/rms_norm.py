"""Chapter 510: RMSNorm."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import RmsNorm
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.layer_norm import norm_layer_points
from transformer_practice.exercises.structure import same_products


def rms_norm_points():
    draw = sampler("B T D", x="B T D", gamma="D", eps=0.1, cotangent="B T D")
    generic = draw("generic", 3, 4, 7)
    x = generic.arguments["x"]
    zeros = x.copy()
    zeros[1, 2] = 0.0
    return [
        generic,
        generic.variant("gamma = 1", gamma=np.ones(7)),
        generic.sliced("one row", np.s_[:1, :1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        generic.variant("rows of mean 0", x=x - x.mean(axis=-1, keepdims=True)),
        generic.variant("a row of zeros", x=zeros),
        generic.variant("cotangent of ones", cotangent=np.ones(x.shape)),
        generic.without("the eps of the signature", "eps"),
        draw("generic, other sizes", 2, 3, 5),
    ]


def along_the_squares(point, outputs):
    """Tell <dx, x> from eps / rms^3 <g, x>, row by row."""
    x, gamma = point.arguments["x"], point.arguments["gamma"]
    _, (_, inv_rms, _) = ops.rms_norm(**point.arguments)
    eps = point.arguments.get("eps", 1e-5)
    g_along = (point.cotangent * gamma * x).sum(axis=-1)
    dx_along = (outputs["dx"] * x).sum(axis=-1)
    return np.abs(dx_along - eps * inv_rms[..., 0] ** 3 * g_along).max() / np.abs(g_along).max()


def rms_norm_terms(point):
    _, (x_hat, inv_rms, gamma) = ops.rms_norm(**point.arguments)
    g = point.cotangent * gamma
    return {
        "the scale term": inv_rms * g,
        "the square term": -inv_rms * x_hat * (g * x_hat).mean(axis=-1, keepdims=True),
    }


def layer_points():
    return norm_layer_points(RmsNorm, "a fresh layer: gamma = 1")


EXERCISES = [
    OpExercise(
        forward=ops.rms_norm,
        inputs=("x", "gamma"),
        points=rms_norm_points,
        theorems=(
            Theorem("<dx, x> = eps / rms^3 <g, x> in every row: nearly 0", along_the_squares),
            same_products(
                "<dgamma, gamma> = <dy, y>: y is linear in gamma", "gamma", of=ops.rms_norm
            ),
        ),
        terms={"dx": rms_norm_terms},
    ),
    LayerExercise(forward=RmsNorm.forward, inputs=("x",), points=layer_points),
]
