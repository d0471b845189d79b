"""Chapter 270: residual connections."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import Layer, LayerNorm, Linear, MultiHeadCrossAttention, Residual
from transformer_practice.engine.exercise import LayerExercise, Theorem, fresh
from transformer_practice.engine.points import Point, drawn, normal, sampler
from transformer_practice.exercises.attention import relative
from transformer_practice.exercises.structure import filled


def residual(kind, placement, width, dropout=0.0, inner=None, seed=9):
    """Return a builder of a residual connection around a layer of a width and an ``inner`` size."""

    def make(dtype):
        branch = kind(width, inner or width, np.random.default_rng(0), dtype)
        return Residual(branch, LayerNorm(width, dtype), placement, dropout)

    return drawn(make, seed)


def draw_across(name, placement, dropout=0.0):
    """Draw a residual connection around an attention that reads a source, and its inputs."""
    across = {
        "self": residual(MultiHeadCrossAttention, placement, 6, dropout, inner=2),
        "x": normal(1, 2, 3, 6) / 3,
        "source": normal(3, 2, 4, 6) / 3,
    }
    return Point(name, across, normal(2, 2, 3, 6), {"B": 2, "T": 3, "S": 4, "D": 6})


def draw_residual(name, placement, *sizes, dropout=0.0):
    """Draw a residual connection around a linear layer, and its input."""
    draw = sampler(
        "B T D",
        self=lambda D: residual(Linear, placement, D, dropout),
        x="B T D",
        cotangent="B T D",
    )
    return draw(name, *sizes)


def silent_branch(placement):
    """A branch whose weights are 0, as some start it."""
    return filled(residual(Linear, placement, 5), "branch.weight", 0)


def residual_points():
    post = draw_residual("generic", "post", 2, 3, 5)
    pre = draw_residual("Pre-LN", "pre", 2, 3, 5)
    return [
        post,
        post.variant("a branch of weight 0, Post-LN", self=silent_branch("post")),
        pre,
        pre.variant("a branch of weight 0, Pre-LN", self=silent_branch("pre")),
        draw_across("a branch that reads a source, Post-LN", "post"),
        draw_across("a branch that reads a source, Pre-LN", "pre"),
        draw_residual("generic, other sizes", "pre", 3, 2, 7),
    ]


def ways(point):
    """What returns past the branch, and what returns through it and the mask."""
    make, x, *others = map(fresh, point.arguments.values())
    rng = others.pop() if "rng" in point.arguments else None
    layer, dy = make(np.float64), point.cotangent
    _, cache = layer.forward(x, *others, rng=rng)
    skip = dy if layer.pre else layer.norm.backward(dy, cache.norm)[0]
    through, *_ = layer.branch.backward(ops.dropout_backward(skip, cache.dropout), cache.branch)
    if layer.pre:
        through, _ = layer.norm.backward(through, cache.norm)
    return {"the skip connection": skip, "the path through the branch": through}


class ReZero(Layer):
    """y = x + rho * branch(x), with one learnt number rho."""

    def __init__(self, branch, dtype):
        self.branch = branch
        self.rho = np.zeros(1, dtype)

    def forward(self, x):
        out, cache = self.branch.forward(x)
        return x + self.rho * out, (out, cache)

    def backward(self, dy, cache):
        out, branch_cache = cache
        dthrough, dbranch = self.branch.backward(self.rho * dy, branch_cache)
        grads = {f"branch.{name}": grad for name, grad in dbranch.items()}
        return dy + dthrough, grads | {"rho": np.array([(dy * out).sum()])}


def rezero(D):
    rng = np.random.default_rng(0)
    return drawn(lambda dtype: ReZero(Linear(D, D, rng, dtype), dtype), seed=9)


def rezero_points():
    draw = sampler("B T D", self=rezero, x="B T D", cotangent="B T D")
    generic = draw("generic", 2, 3, 5)
    return [
        generic,
        generic.variant("rho = 0", self=filled(rezero(5), "rho", 0)),
        draw("generic, other sizes", 3, 2, 7),
    ]


def rezero_ways(point):
    make, x = point.arguments.values()
    layer, dy = make(np.float64), point.cotangent
    _, (_, cache) = layer.forward(x)
    through, _ = layer.branch.backward(layer.rho * dy, cache)
    return {"the skip connection": dy, "the path through the branch": through}


def gain(point, outputs):
    """Returned to rho: what the branch has added to the output, times the cotangent."""
    make, x = point.arguments.values()
    out, _ = make(np.float64).branch.forward(x)
    expected = (out * point.cotangent).sum()
    return relative(outputs["drho"] - expected, expected)


EXERCISES = [
    LayerExercise(
        forward=Residual.forward, inputs=("x", "source"), points=residual_points, terms={"dx": ways}
    ),
    LayerExercise(
        forward=ReZero.forward,
        inputs=("x",),
        points=rezero_points,
        theorems=(
            Theorem("the gradient of rho is what the branch adds, times the cotangent", gain),
        ),
        terms={"dx": rezero_ways},
    ),
]
