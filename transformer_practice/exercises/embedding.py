"""Chapter 230: embeddings and positions."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import Embedding, LearnedPositions, TiedReadout
from transformer_practice.engine.exercise import Exercise, LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import Point, drawn, normal, sampler
from transformer_practice.exercises.attention import relative
from transformer_practice.exercises.structure import same_products

IDS = np.array([[4, 1, 4, 7, 0], [1, 9, 4, 2, 2], [9, 9, 3, 1, 4]])


def embedding_points():
    def draw(name, ids, V, D, seed):
        sizes = {"B": ids.shape[0], "T": ids.shape[1], "V": V, "D": D}
        arguments = {"ids": ids, "table": normal(seed, V, D)}
        return Point(name, arguments, normal(seed + 1, *ids.shape, D), sizes)

    generic = draw("generic", IDS, 11, 7, seed=1)
    table, cotangent = generic.arguments["table"], generic.cotangent
    different = np.array([[4, 1, 0], [9, 3, 2]])
    return [
        generic,
        generic.variant("no word twice", ids=different, cotangent=cotangent[:2, :3]),
        generic.variant("one word", ids=np.full((3, 5), 6)),
        generic.sliced("no batch axis", 0, "ids"),
        generic.variant("a table in Fortran order", table=np.asfortranarray(table)),
        generic.variant("a cotangent in Fortran order", cotangent=np.asfortranarray(cotangent)),
        draw("generic, other sizes", IDS[:2, :3] % 5, 5, 4, seed=3),
    ]


def table_sum(name):
    """What all rows of the table get together is what all positions send."""

    def deviation(point, outputs):
        total = point.cotangent.reshape(-1, point.cotangent.shape[-1]).sum(axis=0)
        return relative(outputs[name].sum(axis=0) - total, total)

    return Theorem("the rows of the table's gradient sum to the sum of all cotangents", deviation)


def of_layer(point, build, *inputs):
    """Return a point of a layer in place of one of its operation."""
    given = {name: point.arguments[name] for name in inputs}
    return point._replace(arguments={"self": build} | given)


def embedding_layer_points():
    return [
        of_layer(point, drawn_embedding(point.arguments["table"].shape), "ids")
        for point in embedding_points()
        if "table" not in point.name
    ]


def drawn_embedding(shape):
    rng = np.random.default_rng(0)
    return drawn(lambda dtype: Embedding(*shape, rng, dtype=dtype), seed=9)


def readout_points():
    draw = sampler("B T V D", h="B T D", table="V D", bias="V", cotangent="B T V")
    generic = draw("generic", 2, 3, 7, 5)
    h = generic.arguments["h"]
    return [
        generic,
        generic.sliced("one sequence", np.s_[:1], "h"),
        generic.sliced("no batch axis", 0, "h"),
        generic.variant("h = 0", h=np.zeros(h.shape)),
        draw("generic, other sizes", 3, 2, 5, 4),
        draw("a square table", 2, 3, 5, 5),
    ]


def readout_layer_points():
    return [
        of_layer(point, drawn_readout(len(point.arguments["bias"])), "h", "table")
        for point in readout_points()
    ]


def drawn_readout(vocabulary):
    return drawn(lambda dtype: TiedReadout(vocabulary, dtype), seed=9)


def positions_points():
    draw = sampler("T D", length=lambda T: T, width=lambda D: D)
    generic = draw("generic", 5, 6)
    return [
        generic,
        generic.variant("one position", length=1),
        generic.variant("one frequency", width=2),
        generic.variant("a long table", length=300),
        generic.variant("32 bits", length=1, dtype=np.float32),  # 0 and 1, in any precision
        draw("generic, other sizes", 7, 10),
    ]


def squares(point, outputs):
    table = outputs["output"]
    return np.abs(table[:, ::2] ** 2 + table[:, 1::2] ** 2 - 1).max()


def learned_points():
    def draw(name, B, T, length, D):
        rng = np.random.default_rng(0)
        build = drawn(lambda dtype: LearnedPositions(length, D, rng, dtype=dtype), seed=9)
        sizes = {"B": B, "T": T, "D": D, "the table's length": length}
        return Point(name, {"self": build, "x": normal(1, B, T, D)}, normal(2, B, T, D), sizes)

    generic = draw("generic", 3, 5, 7, 4)
    longest = draw("the longest sequence", 2, 5, 5, 3)
    return [
        generic,
        generic.sliced("one sequence", np.s_[:1], "x"),
        longest,
        draw("generic, other sizes", 2, 3, 11, 5),
    ]


def bert_input(ids, segments, words, positions, segment_table):
    """Add the rows of the word, of the position and of the segment."""
    word_rows, word_cache = ops.embedding(ids, words)
    position_rows, position_cache = ops.embedding(np.arange(ids.shape[1]), positions)
    segment_rows, segment_cache = ops.embedding(segments, segment_table)
    x = word_rows + position_rows + segment_rows
    return x, (word_cache, position_cache, segment_cache)


def bert_input_backward(dx, cache):
    """Return the gradients of the three tables."""
    words, positions, segments = cache
    return (
        ops.embedding_backward(dx, words),
        ops.embedding_backward(dx.sum(axis=0), positions),
        ops.embedding_backward(dx, segments),
    )


def bert_points():
    def draw(name, ids, segments, V, length, D, seed):
        arguments = {
            "ids": ids,
            "segments": np.array(segments),
            "words": normal(seed, V, D),
            "positions": normal(seed + 1, length, D),
            "segment_table": normal(seed + 2, 2, D),
        }
        B, T = ids.shape
        sizes = {"B": B, "T": T, "V": V, "D": D, "the table's length": length}
        return Point(name, arguments, normal(seed + 3, B, T, D), sizes)

    segments = [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 0, 1]]
    generic = draw("generic", IDS, segments, 11, 7, 4, seed=1)
    return [
        generic,
        generic.sliced("one sequence", np.s_[:1], "ids", "segments"),
        generic.variant("one segment", segments=np.zeros((3, 5), dtype=int)),
        draw("generic, other sizes", IDS[:2, :3] % 5, [[0, 1, 1], [0, 0, 1]], 5, 4, 7, seed=5),
    ]


EXERCISES = [
    OpExercise(
        forward=ops.embedding,
        inputs=("table",),
        points=embedding_points,
        theorems=(table_sum("dtable"),),
    ),
    LayerExercise(
        forward=Embedding.forward,
        inputs=("ids",),
        points=embedding_layer_points,
        theorems=(table_sum("dtable"),),
    ),
    LayerExercise(
        forward=LearnedPositions.forward,
        inputs=("x",),
        points=learned_points,
        theorems=(table_sum("dtable"),),
    ),
    Exercise(
        forward=ops.sinusoidal_positions,
        points=positions_points,
        theorems=(Theorem("the squares of each pair sum to 1", squares),),
    ),
    OpExercise(
        forward=ops.tied_readout,
        inputs=("h", "table", "bias"),
        points=readout_points,
        theorems=(same_products("<dh, h> = <dtable, table>", "h", "table"),),
    ),
    LayerExercise(
        forward=TiedReadout.forward,
        inputs=("h", "table"),
        points=readout_layer_points,
        theorems=(same_products("<dh, h> = <dtable, table>", "h", "table"),),
    ),
    OpExercise(
        forward=bert_input, inputs=("words", "positions", "segment_table"), points=bert_points
    ),
]
