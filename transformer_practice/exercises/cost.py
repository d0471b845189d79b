"""Chapter 410: parameters, operations and bytes, and an encoder that computes twice."""

from collections.abc import Callable

from transformer_core.foundation.names import join
from transformer_core.models import Encoder
from transformer_practice.engine.exercise import Exercise, LayerExercise
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.structure import given
from transformer_practice.exercises.train_encoder import at_random_point


def count_bert_parameters(
    vocabulary: int, length: int, width: int, hidden: int, layers: int
) -> int:
    """Count those of the Mini-BERT of text 004 (eq:cost-parameters)."""
    layer = 4 * width**2 + 2 * width * hidden + hidden + width + 4 * width
    readout = width * vocabulary + vocabulary
    return (vocabulary + length) * width + layers * layer + 2 * width + readout


def count_operations(
    batch: int, length: int, width: int, hidden: int, layers: int, vocabulary: int, masked: int
) -> int:
    """Count those of the matrix products of a forward pass (eq:cost-forward)."""
    positions = batch * length
    projections = 8 * positions * width**2
    feed_forward = 4 * positions * width * hidden
    pairs = 4 * positions * length * width
    readout = 2 * masked * width * vocabulary
    return layers * (projections + feed_forward + pairs) + readout


def count_bytes(
    batch: int,
    length: int,
    width: int,
    heads: int,
    hidden: int,
    layers: int,
    vocabulary: int,
    masked: int,
) -> int:
    """Count those that a forward pass in float32 keeps for its backward pass.

    The four lines of eq:cost-activations.
    """
    n = batch * length
    layer = 4 * (8 * n * width + n * hidden + n * heads * length + 2 * n) + n * hidden
    after = 4 * (2 * n * width + n)
    readout = 4 * (masked * width + masked * vocabulary + masked)
    return layers * layer + after + readout + 8 * (n + length + 2 * masked)


def counts(names: str, generic: tuple, other: tuple, special: dict) -> Callable:
    """Return points of whole numbers."""
    point = given(names, lambda *values: dict(zip(names.split(), values, strict=True)))

    def make():
        first = point("generic", *generic)
        variants = (first.variant(name, **new) for name, new in special.items())
        return [first, *variants, point("generic, other sizes", *other)]

    return make


class RecomputingEncoder(Encoder):
    """An encoder that keeps the input of each layer, and computes the rest again."""

    def forward(self, x):
        """Map x (B, T, D) to y (B, T, D)."""
        inputs = []
        for layer in self.layers:
            inputs.append(x)
            x, _ = layer.forward(x)
        y, norm_cache = self.final_norm.forward(x)
        return y, (inputs, norm_cache)

    def backward(self, dy, cache):
        """Return dx and the gradients (eq:chain-backward)."""
        inputs, norm_cache = cache
        grads = {}
        dy, grads["final_norm"] = self.final_norm.backward(dy, norm_cache)
        for i in reversed(range(len(self.layers))):
            _, layer_cache = self.layers[i].forward(inputs[i])
            dy, grads[f"layer_{i}"] = self.layers[i].backward(dy, layer_cache)
        return dy, join(grads)


def recomputing_points():
    def encoder(D, F, L, placement="post"):
        return at_random_point(RecomputingEncoder, D, 2, F, L, placement=placement, final_norm=True)

    draw = sampler("B T D F L", self=encoder, x="B T D", cotangent="B T D")
    generic = draw("generic", 2, 4, 6, 7, 3)
    return [
        generic,
        draw("one layer", 2, 4, 6, 7, 1),
        generic.variant("pre-LN", self=encoder(6, 7, 3, "pre")),
        draw("generic, other sizes", 3, 5, 4, 9, 2),
    ]


EXERCISES = [
    Exercise(
        forward=count_bert_parameters,
        points=counts(
            "vocabulary length width hidden layers",
            (101, 13, 6, 29, 3),
            (53, 7, 8, 19, 2),
            {"one layer": {"layers": 1}, "no layer": {"layers": 0}, "F = 4 D": {"hidden": 24}},
        ),
    ),
    Exercise(
        forward=count_operations,
        points=counts(
            "batch length width hidden layers vocabulary masked",
            (3, 13, 6, 29, 5, 101, 11),
            (2, 7, 8, 19, 4, 53, 3),
            {
                "one sequence": {"batch": 1},
                "one position": {"length": 1},
                "F = 4 D": {"hidden": 24},
                "one layer": {"layers": 1},
            },
        ),
    ),
    Exercise(
        forward=count_bytes,
        points=counts(
            "batch length width heads hidden layers vocabulary masked",
            (3, 13, 6, 2, 29, 5, 101, 11),
            (2, 7, 9, 3, 19, 4, 53, 5),
            {
                "one head": {"heads": 1},
                "one sequence": {"batch": 1},
                "nothing masked": {"masked": 0},
                "one layer": {"layers": 1},
            },
        ),
    ),
    LayerExercise(forward=RecomputingEncoder.forward, inputs=("x",), points=recomputing_points),
]
