"""Chapter 610: weights that come and go."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import HeadTransform, LayerSpec, NormSpec, Pooler
from transformer_practice.engine.exercise import LayerExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.feed_forward import activation
from transformer_practice.exercises.structure import seeded


def even_slope(point, outputs):
    """The slope is that of the mirrored input: dx(x) + dx(-x) = 2 dx(x)."""
    _, cache = ops.tanh(-point.arguments["x"])
    return np.abs(outputs["dx"] - ops.tanh_backward(point.cotangent, cache)).max()


def pooler(D):
    return seeded(lambda rng, dtype: Pooler(D, rng, dtype))


def pooler_points():
    draw = sampler("B T D", self=pooler, h="B T D", cotangent=("B D", 4))
    return [
        draw("generic", 3, 4, 5),
        draw("one token", 3, 1, 5),
        draw("one sequence", 1, 4, 5),
        draw("generic, other sizes", 2, 6, 3),
    ]


def first_alone(point, outputs):
    return np.abs(outputs["dh"][:, 1:]).max(initial=0)


def head_transform(D, activation="gelu"):
    def make(rng, dtype):
        norm = NormSpec("layer_norm", 0.1)
        spec = LayerSpec(D, 1, D, "post", norm, activation, dtype=np.dtype(dtype).name)
        return HeadTransform(spec, rng)

    return seeded(make)


def head_transform_points():
    draw = sampler("B T D", self=head_transform, h="B T D", cotangent=("B T D", 4))
    generic = draw("generic", 3, 4, 5)
    return [
        generic,
        generic.variant("ReLU", self=head_transform(5, "relu")),
        draw("one row", 1, 1, 5),
        draw("generic, other sizes", 2, 3, 6),
    ]


EXERCISES = [
    activation("tanh", theorems=(Theorem("x and -x have the same slope", even_slope),)),
    LayerExercise(
        forward=Pooler.forward,
        inputs=("h",),
        points=pooler_points,
        theorems=(Theorem("dh is 0 but at the first token", first_alone),),
    ),
    LayerExercise(forward=HeadTransform.forward, inputs=("h",), points=head_transform_points),
]
