"""Chapter 460: a feed-forward layer and a cross-entropy in pieces, one for each rank."""

import numpy as np

from transformer_core.distributed.tensor_parallel import ColumnParallel, RowParallel, conjugate_pair
from transformer_core.distributed.vocabulary_parallel import (
    vocabulary_cross_entropy,
    vocabulary_cross_entropy_backward,
)
from transformer_core.layers import Linear
from transformer_core.ops import relu, relu_backward
from transformer_core.ranks import on_threads
from transformer_practice.engine.exercise import OpExercise
from transformer_practice.engine.points import normal, sampler
from transformer_practice.exercises.structure import same_products, zero_sums


def split_feed_forward(x, hidden_weights, hidden_biases, output_weights, output_bias):
    arrays = hidden_weights, hidden_biases, output_weights, output_bias

    def work(ranks):
        hidden, output = cut_maps(*arrays, ranks)
        h, read = hidden.forward(x)
        a, bent = relu(h)
        y, wrote = output.forward(a)
        return y, (*arrays, read, bent, wrote)

    ys, caches = zip(*on_threads(len(hidden_weights), work), strict=True)
    return ys[-1], caches


def split_feed_forward_backward(dy, cache):
    def work(ranks):
        *arrays, read, bent, wrote = cache[ranks.rank]
        hidden, output = cut_maps(*arrays, ranks)
        da, doutput = output.backward(dy, wrote)
        dx, dhidden = hidden.backward(relu_backward(da, bent), read)
        return dx, *map(dhidden.get, NAMES), *map(doutput.get, NAMES)

    dx, *pieces, dbias = zip(*on_threads(len(cache), work), strict=True)
    return dx[-1], *map(np.stack, pieces), dbias[-1]


NAMES = "weight", "bias"


def cut_maps(hidden_weights, hidden_biases, output_weights, output_bias, ranks):
    """Return a rank's linear layers, of the pieces of all ranks."""
    f, g = conjugate_pair(ranks)
    hidden = linear_of(np.concatenate(hidden_weights, axis=1), np.concatenate(hidden_biases))
    output = linear_of(np.concatenate(output_weights), output_bias)
    return ColumnParallel(hidden, f, ranks), RowParallel(output, g, ranks)


def linear_of(weight, bias):
    layer = Linear(*weight.shape, np.random.default_rng(0), weight.dtype)
    layer.weight, layer.bias = weight, bias
    return layer


def feed_forward_points():
    draw = sampler(
        "N B T D F",
        x="B T D",
        hidden_weights=lambda N, D, F: normal(2, N, D, F // N),
        hidden_biases=lambda N, F: normal(3, N, F // N),
        output_weights=lambda N, D, F: normal(4, N, F // N, D),
        output_bias=("D", 5),
        cotangent=("B T D", 6),
    )
    generic = draw("generic", 2, 3, 4, 5, 14)
    return [
        generic,
        generic.sliced("one sequence", np.s_[:1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        generic.variant("no output bias", output_bias=np.zeros(5)),
        draw("one rank", 1, 3, 4, 5, 7),
        draw("three ranks", 3, 2, 4, 5, 21),
        draw("generic, other sizes", 2, 5, 3, 4, 22),
    ]


def ranks_terms(point):
    x, cotangent, terms = point.arguments["x"], point.cotangent, {}
    pieces = zip(*list(point.arguments.values())[1:4], strict=True)
    for rank, (hidden_weight, hidden_bias, output_weight) in enumerate(pieces):
        on = x @ hidden_weight + hidden_bias > 0
        dx = (cotangent @ output_weight.T * on) @ hidden_weight.T
        terms[f"{ORDINALS[rank]} rank's term"] = dx
    return terms


def written_terms(point):
    bias = point.arguments["output_bias"]
    terms = {"the bias": bias + np.zeros(point.cotangent.shape)}
    for rank in range(len(point.arguments["output_weights"])):
        only = {
            name: array[rank : rank + 1] if name.endswith(("weights", "biases")) else array
            for name, array in point.arguments.items()
        }
        y, _ = split_feed_forward(**only)
        terms[f"what {ORDINALS[rank]} rank writes"] = y - bias
    return terms


ORDINALS = ("the first", "the second", "the third")


def written(output_bias, **arguments):
    y, cache = split_feed_forward(output_bias=output_bias, **arguments)
    return y - output_bias, cache


def split_cross_entropy(logits, targets):
    size, _, width = logits.shape

    def work(ranks):
        own = logits[ranks.rank]
        return vocabulary_cross_entropy(own, targets, size * width, ranks)

    losses, caches = zip(*on_threads(size, work), strict=True)
    return losses[0], caches


def split_cross_entropy_backward(dloss, cache):
    return np.stack([vocabulary_cross_entropy_backward(dloss, own) for own in cache])


def cross_entropy_points():
    draw = sampler(
        "N M V",
        logits=lambda N, M, V: normal(1, N, M, V // N),
        targets=lambda M, V: np.random.default_rng(2).integers(V, size=M),
        cotangent=-1.7,
    )
    generic = draw("generic", 2, 6, 10)
    logits, targets = generic.arguments.values()
    far = np.array([[[1000.0]], [[-1000.0]]])
    return [
        generic,
        generic.variant("logits of 1000 on one rank", logits=logits + far),
        generic.variant("every target on one rank", targets=targets % 5),
        generic.variant("cotangent 1", cotangent=1.0),
        draw("one rank", 1, 6, 5),
        draw("three ranks", 3, 4, 15),
        draw("generic, other sizes", 2, 3, 14),
    ]


def cross_entropy_terms(point):
    logits, targets = point.arguments.values()
    width = logits.shape[-1]
    exponentials = np.exp(logits - logits.max())
    said = exponentials / exponentials.sum(axis=(0, -1))[:, np.newaxis]
    there = np.zeros_like(said)
    there[targets // width, np.arange(len(targets)), targets % width] = -1
    share = point.cotangent / len(targets)
    return {"what the model says": share * said, "what is true": share * there}


EXERCISES = [
    OpExercise(
        forward=split_feed_forward,
        inputs=("x", "hidden_weights", "hidden_biases", "output_weights", "output_bias"),
        points=feed_forward_points,
        theorems=(
            same_products(
                "<dW_2, W_2> = <dy, y - b_2>, over all ranks", "output_weights", of=written
            ),
            same_products("<dW_1, W_1> = <dx, x>, over all ranks", "hidden_weights", "x"),
        ),
        terms={"dx": ranks_terms, "y": written_terms},
    ),
    OpExercise(
        forward=split_cross_entropy,
        inputs=("logits",),
        points=cross_entropy_points,
        theorems=(
            zero_sums(
                "each position's gradient sums to 0, over all ranks", "dlogits", axis=(0, -1)
            ),
        ),
        terms={"dlogits": cross_entropy_terms},
    ),
]
