"""Chapter 330: the decoder."""

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_core.layers import DecoderLayer
from transformer_core.models import Decoder
from transformer_core.ops import causal_keep
from transformer_practice.engine.exercise import LayerExercise, fresh
from transformer_practice.engine.points import Draws, Point, sampler
from transformer_practice.exercises.train_encoder import at_random_point, one_hidden


def decoder_points(kind: Callable, layers: tuple, **settings: Any) -> list[Point]:
    def build(D=8, H=2, F=7, *, layers=layers, **changed):
        return at_random_point(kind, D, H, F, *layers, **settings, **changed)

    draw = sampler(
        "B T S D H F",
        self=build,
        x="B T D",
        source="B S D",
        keep=lambda T: causal_keep(T),
        source_keep=lambda B, S: one_hidden(B, S),
        rng=None,
        cotangent="B T D",
    )
    generic = draw("generic", 3, 4, 5, 8, 2, 7)
    source, keep = generic.arguments["source"], generic.arguments["source_keep"]
    one_layer = generic.variant("one layer", self=build(layers=(1,)))
    return [
        generic,
        generic.variant("post-LN", self=build(placement="post")),
        generic.variant("dropout", self=build(dropout=0.3), rng=Draws(5)),
        generic.variant("T = S", source=source[:, :4], source_keep=keep[..., :4]),
        generic.variant("no masks", keep=None, source_keep=None),
        generic.sliced("one sequence", np.s_[1:2], "x", "source", "source_keep"),
        *([one_layer] if layers else []),
        draw("generic, other sizes", 2, 5, 3, 4, 2, 6),
    ]


def decoder_layer_points():
    return decoder_points(DecoderLayer, ())


def stack_points():
    points = decoder_points(Decoder, (2,), final_norm=True)
    without = at_random_point(Decoder, 8, 2, 7, 3, final_norm=False)
    return [*points, points[0].variant("three layers, no final norm", self=without)]


def terms_of_the_source(point):
    """What each layer returns for the source."""
    build, *inputs = map(fresh, point.arguments.values())
    decoder = build(np.float64)
    _, cache = decoder.forward(*inputs)
    dy, terms = point.cotangent, {}
    if decoder.final_norm:
        dy, _ = decoder.final_norm.backward(dy, cache.final_norm)
    for i in reversed(range(len(decoder.layers))):
        dy, dsource, _ = decoder.layers[i].backward(dy, cache.layers[i])
        terms[f"the term of layer {i}"] = dsource
    return terms


EXERCISES = [
    LayerExercise(
        forward=DecoderLayer.forward, inputs=("x", "source"), points=decoder_layer_points
    ),
    LayerExercise(
        forward=Decoder.forward,
        inputs=("x", "source"),
        points=stack_points,
        terms={"dsource": terms_of_the_source},
    ),
]
