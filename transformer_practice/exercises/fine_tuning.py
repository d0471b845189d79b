"""Chapter 620: the product that LoRA adds, its layer, and the mean of a sequence's rows."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import Linear, LoraLinear
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import randomise, sampler
from transformer_practice.exercises.structure import filled, same_products, seeded


def low_rank_points():
    draw = sampler(
        "B T D_in r D_out",
        x="B T D_in",
        a="D_in r",
        b="r D_out",
        alpha=9.0,
        cotangent="B T D_out",
        sizes={"alpha": lambda: 9.0},
    )
    generic = draw("generic", 4, 5, 6, 2, 7)
    a, b = generic.arguments["a"], generic.arguments["b"]
    return [
        generic,
        generic.variant("B = 0: a new adapter", b=0 * b),
        generic.variant("A = 0", a=0 * a),
        generic.variant("alpha = r: a scale of 1", alpha=2.0),
        generic.sliced("one sequence", np.s_[:1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        draw("r = 1", 4, 5, 6, 1, 7),
        draw("generic, other sizes", 2, 7, 5, 3, 4),
    ]


def lora_layer(D_in, r, D_out, alpha=9.0, bias=True):
    def make(rng, dtype):
        linear = randomise(Linear(D_in, D_out, rng, dtype, bias), rng)
        return LoraLinear(linear, r, alpha, rng)

    return seeded(make)


def layer_points():
    draw = sampler("B T D_in r D_out", self=lora_layer, x="B T D_in", cotangent=("B T D_out", 4))
    generic = draw("generic", 4, 5, 6, 2, 7)
    return [
        generic,
        generic.variant("B = 0: a new adapter", self=filled(lora_layer(6, 2, 7), "b", 0)),
        generic.variant("alpha = r: a scale of 1", self=lora_layer(6, 2, 7, alpha=2.0)),
        generic.variant("no bias", self=lora_layer(6, 2, 7, bias=False)),
        draw("generic, other sizes", 2, 7, 5, 3, 4),
    ]


def pool_points():
    draw = sampler("B T D", x="B T D", keep=kept, cotangent="B D")
    generic = draw("generic", 3, 5, 4)
    x = generic.arguments["x"]
    keep = generic.arguments["keep"]
    nothing = keep & (np.arange(3) != 1)[:, np.newaxis]
    return [
        generic,
        generic.variant("nothing is padding", keep=np.ones_like(keep)),
        generic.variant("a sequence that is padding alone", keep=nothing),
        generic.variant("padding in front", keep=keep[:, ::-1].copy()),
        generic.variant("one sequence", x=x[1:2], keep=keep[1:2], cotangent=generic.cotangent[1:2]),
        draw("generic, other sizes", 2, 6, 7),
    ]


def kept(B, T):
    """Sequence b has T - 1 - b of T positions."""
    return np.arange(T) < T - 1 - np.arange(B)[:, np.newaxis]


def rows_sum_to_the_cotangent(point, outputs):
    some = point.arguments["keep"].any(axis=1)[:, np.newaxis]
    return np.abs(outputs["dx"].sum(axis=1) - np.where(some, point.cotangent, 0)).max()


EXERCISES = [
    OpExercise(
        forward=ops.mean_pool,
        inputs=("x",),
        points=pool_points,
        theorems=(
            Theorem("the rows of dx of a sequence sum to its dy", rows_sum_to_the_cotangent),
        ),
    ),
    OpExercise(
        forward=ops.low_rank,
        inputs=("x", "a", "b"),
        points=low_rank_points,
        theorems=(
            same_products(
                "<da, A> = <db, B>: A B stays the same if A grows as B shrinks", "a", "b"
            ),
            same_products("<dx, x> = <dy, y>: y is linear in x", "x", of=ops.low_rank),
        ),
    ),
    LayerExercise(forward=LoraLinear.forward, inputs=("x",), points=layer_points),
]
