"""Chapter 310: the loss, an encoder layer, the stack, and a baseline."""

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_core import ops
from transformer_core.layers import EncoderLayer, LayerSpec
from transformer_core.models import Encoder
from transformer_practice.engine.exercise import Exercise, LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import Draws, Point, normal, sampler
from transformer_practice.judges.checks import randomised


def mean_squared_error_points():
    draw = sampler("B T D", prediction="B T D", target="B T D", cotangent=0.7)
    generic = draw("generic", 2, 3, 5)
    error = generic.arguments["prediction"] - generic.arguments["target"]
    return [
        generic,
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant(
            "one number", **{name: array[:1, :1, :1] for name, array in generic.arguments.items()}
        ),
        generic.variant(
            "another order in memory",
            **{name: np.asfortranarray(array) for name, array in generic.arguments.items()},
        ),
        generic.variant("targets of 0", prediction=error, target=np.zeros(error.shape)),
        draw("generic, other sizes", 3, 4, 2),
    ]


def euler(point, outputs):
    """The loss is of degree 2 in the error, so <dy, y - t> is twice the loss."""
    prediction, target = point.arguments.values()
    loss, _ = ops.mean_squared_error(prediction, target)
    slope = (outputs["dprediction"] * (prediction - target)).sum()
    return abs(slope - 2 * loss * point.cotangent) / abs(2 * loss * point.cotangent)


def at_random_point(
    kind: Callable, *sizes: int, placement: str = "pre", dropout: float = 0.0, **settings: Any
) -> Callable:
    """Return what builds a layer or a model, in a dtype, with random parameters.

    ``sizes`` are D, H and F, then what ``kind`` takes between its spec and its generator.
    """
    width, heads, hidden, *rest = sizes

    def build(dtype):
        spec = LayerSpec(
            width, heads, hidden, placement, dropout=dropout, dtype=np.dtype(dtype).name
        )
        rng = np.random.default_rng(0)
        return randomised(kind(spec, *rest, rng, **settings))

    return build


def one_hidden(B: int, T: int) -> np.ndarray:
    """Return a mask that hides the last position of the first sequence."""
    return ops.padding_keep(T - (np.arange(B) == 0), T)


def encoder_points(kind: Callable, layers: tuple, **settings: Any) -> list[Point]:
    def build(D=10, H=2, F=7, *, layers=layers, **changed):
        return at_random_point(kind, D, H, F, *layers, **settings, **changed)

    draw = sampler("B T D H F", self=build, x="B T D", keep=one_hidden, rng=None, cotangent="B T D")
    generic = draw("generic", 3, 4, 10, 2, 7)
    one_layer = generic.variant("one layer", self=build(layers=(1,)))
    return [
        generic,
        generic.variant("post-LN", self=build(placement="post")),
        generic.variant("dropout", self=build(dropout=0.3), rng=Draws(5)),
        generic.variant("one head", self=build(H=1)),
        generic.variant("no mask", keep=None),
        generic.sliced("one sequence", np.s_[1:], "x", "keep"),
        *([one_layer] if layers else []),
        draw("generic, other sizes", 2, 5, 4, 2, 3),
    ]


def encoder_layer_points():
    return encoder_points(EncoderLayer, ())


def stack_points():
    points = encoder_points(Encoder, (2,), final_norm=True)
    without = at_random_point(Encoder, 10, 2, 7, 2, final_norm=False)
    return [*points, points[0].variant("no final norm", self=without)]


def linear_baseline(inputs: np.ndarray, targets: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Predict the targets of unseen inputs by the best linear layer of the known ones."""

    def with_one(rows):
        return np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)

    width = inputs.shape[-1]
    weight, *_ = np.linalg.lstsq(
        with_one(inputs.reshape(-1, width)), targets.reshape(-1, width), rcond=None
    )
    return with_one(unseen) @ weight


def baseline_points():
    draw = sampler(
        "B T D", inputs="B T D", targets=lambda B, T, D: 2 + normal(2, B, T, D), unseen=("2 T D", 3)
    )
    generic = draw("generic", 5, 4, 3)
    targets = generic.arguments["targets"]
    return [
        generic,
        generic.variant("targets of mean 0", targets=targets - targets.mean(axis=(0, 1))),
        generic.variant("the inputs themselves", unseen=generic.arguments["inputs"]),
        draw("generic, other sizes", 4, 7, 5),
    ]


EXERCISES = [
    OpExercise(
        forward=ops.mean_squared_error,
        inputs=("prediction",),
        points=mean_squared_error_points,
        theorems=(Theorem("<dprediction, error> is twice the loss times dloss", euler),),
    ),
    LayerExercise(forward=EncoderLayer.forward, inputs=("x",), points=encoder_layer_points),
    LayerExercise(forward=Encoder.forward, inputs=("x",), points=stack_points),
    Exercise(forward=linear_baseline, points=baseline_points),
]
