"""Chapter 410: parameters, operations and bytes, and an encoder that computes twice."""

from collections.abc import Callable

from transformer_core.foundation.names import join
from transformer_core.models import Encoder
from transformer_practice.engine.exercise import Exercise, LayerExercise
from transformer_practice.engine.points import Point, sampler
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

    def point(name, values):
        sizes = dict(zip(names.split(", "), values, strict=True))
        return Point(name, sizes, sizes=sizes)

    def make():
        first = point("generic", generic)
        variants = (first.variant(name, **new) for name, new in special.items())
        return [first, *variants, point("generic, other sizes", other)]

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
        shapes=("V, T, D, F, L -> a whole number",),
        points=counts(
            "vocabulary, length, width, hidden, layers",
            (101, 13, 6, 29, 3),
            (53, 7, 8, 19, 2),
            {"one layer": {"layers": 1}, "no layer": {"layers": 0}, "F = 4 D": {"hidden": 24}},
        ),
        hints=(
            "Go through the model from the look-up to the read-out, and write down the shape of "
            "every array.",
            "A layer has four projections without biases, two products with biases, and two "
            "LayerNorms of two arrays each.",
            "What stands once in the model: two tables, one LayerNorm, and a read-out with its "
            "bias.",
        ),
    ),
    Exercise(
        forward=count_operations,
        shapes=("B, T, D, F, L, V, M -> a whole number",),
        points=counts(
            "batch, length, width, hidden, layers, vocabulary, masked",
            (3, 13, 6, 29, 5, 101, 11),
            (2, 7, 8, 19, 4, 53, 3),
            {
                "one sequence": {"batch": 1},
                "one position": {"length": 1},
                "F = 4 D": {"hidden": 24},
                "one layer": {"layers": 1},
            },
        ),
        hints=(
            "A product of (m, n) with (n, p) takes 2 m n p operations. List the products.",
            "The heads drop out: together, the two products of attention have the width D.",
            "Only what is between positions has T twice; only the read-out has M and V.",
        ),
    ),
    Exercise(
        forward=count_bytes,
        shapes=("B, T, D, H, F, L, V, M -> a whole number",),
        equations=("eq:cost-activations",),
        points=counts(
            "batch, length, width, heads, hidden, layers, vocabulary, masked",
            (3, 13, 6, 2, 29, 5, 101, 11),
            (2, 7, 9, 3, 19, 4, 53, 5),
            {
                "one head": {"heads": 1},
                "one sequence": {"batch": 1},
                "nothing masked": {"masked": 0},
                "one layer": {"layers": 1},
            },
        ),
        hints=(
            "Ask of each gradient what stands in it besides its cotangent. The table of the page "
            "has the rows of one layer.",
            "Numbers have 4 bytes, whole numbers 8, and what ReLU keeps is one byte an entry.",
            "Of the layers' arrays, 8 have B T D entries; attention's weights have B H T T.",
        ),
    ),
    LayerExercise(
        forward=RecomputingEncoder.forward,
        shapes=(
            "x (B, T, D) -> y (B, T, D), cache: the inputs of the layers, and what the final norm "
            "keeps; of self.layers and self.final_norm",
            "dy (B, T, D) -> dx (B, T, D), grads of layer_0, ..., final_norm",
        ),
        equations=("eq:encoder-layer",),
        inputs=("x",),
        points=recomputing_points,
        hints=(
            "Which arrays does the backward pass of one layer need, and from what can you make "
            "them again?",
            "Keep the input of each layer in a list, and throw away every layer's cache.",
            "In the backward pass, call a layer's forward pass on its input for the cache, and "
            "its backward pass at once.",
        ),
    ),
]
