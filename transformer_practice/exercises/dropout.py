"""Chapter 290: dropout."""

from dataclasses import dataclass

import numpy as np

from transformer_core import ops
from transformer_core.layers import Linear, Residual
from transformer_core.ops.dropout import DropoutCache
from transformer_practice.engine.exercise import LayerExercise, OpExercise, fresh
from transformer_practice.engine.points import Draws, sampler
from transformer_practice.exercises.attention import KEYS_SUM_TO_0, draw_attention
from transformer_practice.exercises.residual import draw_across, draw_residual, residual, ways
from transformer_practice.exercises.structure import same_products


def with_rate(point, rate):
    """Add a rate and a generator to the arguments of a point."""
    return point._replace(
        arguments=point.arguments | {"rate": rate, "rng": Draws(7)},
        sizes=point.sizes | {"1 - p": 1 - rate},
    )


draw_input = sampler("B T D", x="B T D", cotangent="B T D")


def dropout_points():
    def draw(name, rate, *sizes):
        point = with_rate(draw_input(name, *sizes), rate)
        return point._replace(sizes=point.sizes | {"p": rate})

    generic = draw("generic", 0.3, 3, 5, 11)
    return [
        generic,
        generic.variant("evaluation", rng=None),
        generic.variant("rate 0", rate=0.0),
        generic.variant("rate 1/2", rate=0.5),
        generic.variant("cotangent of ones", cotangent=np.ones((3, 5, 11))),
        generic.variant("entries of 0", x=np.maximum(generic.arguments["x"], 0)),
        draw("generic, other sizes", 0.6, 2, 7, 5),
    ]


def redrawn(x, rate, rng):
    return ops.dropout(x, rate, fresh(rng))


def attention_points():
    generic = with_rate(draw_attention("generic", 2, 3, 5, 7, 11, 13), 0.3)
    return [
        generic,
        generic.variant("evaluation", rng=None),
        generic.variant("rate 0", rate=0.0),
        generic.variant("no mask", keep=None),
        generic.variant("cotangent of ones", cotangent=np.ones(generic.cotangent.shape)),
        with_rate(draw_attention("generic, other sizes", 3, 2, 4, 3, 5, 7), 0.4),
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedLayerExercise(LayerExercise):
    """``forward(self, *inputs, rng=rng)``: the last argument of a point is the generator."""

    def by_position(self, function):
        return lambda *arguments: function(*arguments[:-1], rng=arguments[-1])


def residual_points():
    def draw(name, placement, rate, *sizes):
        return dropping(draw_residual(name, placement, *sizes, dropout=rate), rate)

    def dropping(point, rate):
        return point._replace(
            arguments=point.arguments | {"rng": Draws(7)}, sizes=point.sizes | {"1 - p": 1 - rate}
        )

    post = draw("generic", "post", 0.3, 2, 3, 5)
    pre = draw("Pre-LN", "pre", 0.3, 2, 3, 5)
    return [
        post,
        post.variant("evaluation, Post-LN", rng=None),
        pre,
        pre.variant("evaluation, Pre-LN", rng=None),
        post.variant(
            "a branch that drops as well", self=residual(Dropping, "post", 5, 0.3, seed=11)
        ),
        dropping(draw_across("a branch that reads a source", "post", 0.3), 0.3),
        draw("generic, other sizes", "pre", 0.4, 3, 2, 7),
    ]


class Dropping(Linear):
    """A linear layer as a branch that drops entries itself."""

    def forward(self, x, rng=None):
        y, cache = super().forward(x)
        dropped, mask = ops.dropout(y, 0.5, rng)
        return dropped, (cache, mask)

    def backward(self, dy, cache):
        inner, mask = cache
        return super().backward(ops.dropout_backward(dy, mask), inner)


def drop_branch(x, rate, rng):
    """Drop all entries of a sequence, or none."""
    mask = rng.random((len(x),) + (1,) * (x.ndim - 1)) >= rate
    return x * mask / (1 - rate), DropoutCache(np.broadcast_to(mask, x.shape), rate)


def drop_branch_backward(dy, cache):
    """Drop what was dropped."""
    return dy * cache.mask / (1 - cache.rate)


def branch_points():
    return [
        with_rate(draw_input("generic", 7, 3, 5), 0.3),
        with_rate(draw_input("rate 0", 7, 3, 5), 0.0),
        with_rate(draw_input("as many sequences as positions", 4, 4, 3), 0.4),
        with_rate(draw_input("generic, other sizes", 11, 2, 4), 0.6),
    ]


EXERCISES = [
    OpExercise(
        forward=ops.dropout,
        inputs=("x",),
        points=dropout_points,
        theorems=(same_products("<dx, x> = <dy, y>, with one mask in both", "x", of=redrawn),),
    ),
    OpExercise(
        name="attention_with_dropout",
        forward=ops.attention,
        inputs=("query", "key", "value"),
        points=attention_points,
        theorems=(KEYS_SUM_TO_0,),
    ),
    TrainedLayerExercise(
        name="ResidualWithDropout",
        forward=Residual.forward,
        inputs=("x", "source"),
        points=residual_points,
        terms={"dx": ways},
    ),
    OpExercise(forward=drop_branch, inputs=("x",), points=branch_points),
]
