"""Chapter 340: from the loss at the masked positions to the tables."""

from typing import NamedTuple

import numpy as np

from transformer_core import ops
from transformer_core.models import Bert, StackSpec
from transformer_core.ops.cross_entropy import CrossEntropyCache
from transformer_practice.engine.exercise import LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import Draws, Point, normal, sampler
from transformer_practice.exercises.train_encoder import at_random_point


class SmallestBertCache(NamedTuple):
    ids: np.ndarray
    table: np.ndarray
    x: np.ndarray


def smallest_bert(
    ids: np.ndarray, table: np.ndarray, positions: np.ndarray
) -> tuple[np.ndarray, SmallestBertCache]:
    """Look up, add the positions, and read out with the same table: a BERT without an encoder."""
    x = ops.embedding(ids, table)[0] + positions
    logits, _ = ops.tied_readout(x, table, np.zeros(len(table)))
    return logits, SmallestBertCache(ids, table, x)


def smallest_bert_backward(
    dlogits: np.ndarray, cache: SmallestBertCache
) -> tuple[np.ndarray, np.ndarray]:
    """Return dtable (V, D), of both uses (eq:bert-tied-backward), and dpositions (T, D)."""
    ids, table, x = cache
    _, looked_up = ops.embedding(ids, table)
    _, read_out = ops.tied_readout(x, table, np.zeros(len(table)))
    dx, dtable, _ = ops.tied_readout_backward(dlogits, read_out)
    return dtable + ops.embedding_backward(dx, looked_up), dx.sum(axis=0)


def smallest_bert_points():
    def repeated_ids(B, T, V):
        ids = np.random.default_rng(1).integers(0, V - 1, (B, T))
        ids[0, 1] = ids[0, 0]
        return ids

    draw = sampler(
        "B T V D", ids=repeated_ids, table=("V D", 2), positions=("T D", 3), cotangent=("B T V", 4)
    )
    generic = draw("generic", 2, 3, 9, 4)
    cotangent = generic.cotangent
    balanced = cotangent - cotangent.mean(axis=-1, keepdims=True)
    return [
        generic,
        generic.variant("all words different", ids=np.array([[4, 0, 7], [2, 8, 1]])),
        generic.variant("one word", ids=np.full((2, 3), 5)),
        generic.variant("one sequence", ids=np.array([[4, 0, 7]]), cotangent=cotangent[:1]),
        generic.variant("cotangents of a loss", cotangent=balanced),
        draw("generic, other sizes", 4, 2, 6, 5),
    ]


def one_sum(point, outputs):
    """Without the cotangents' own sum, both tables receive the same (thm bert-one-sum)."""
    ids, table, positions = point.arguments.values()
    x = table[ids] + positions
    of_logits = (point.cotangent.sum(axis=-1, keepdims=True) * x).sum(axis=(0, 1))
    of_rows = outputs["dtable"].sum(axis=0) - of_logits
    of_positions = outputs["dpositions"].sum(axis=0)
    return np.abs(of_rows - of_positions).max() / np.abs(of_positions).max()


def tied_terms(point):
    ids, table, positions = point.arguments.values()
    x, dx = table[ids] + positions, point.cotangent @ table
    return {
        "the look-up term": ops.embedding_backward(dx, ops.embedding(ids, table)[1]),
        "the output layer's term": np.einsum("btv,btd->vd", point.cotangent, x),
    }


class MaskedLossCache(NamedTuple):
    masked: np.ndarray
    of_loss: CrossEntropyCache


def masked_loss(
    logits: np.ndarray, targets: np.ndarray, masked: np.ndarray
) -> tuple[float, MaskedLossCache]:
    """Average the surprise at the masked tokens alone (eq:masked-loss)."""
    loss, cache = ops.cross_entropy(logits[masked], targets[masked])
    return loss, MaskedLossCache(masked, cache)


def masked_loss_backward(dloss: float, cache: MaskedLossCache) -> np.ndarray:
    """Return dlogits (B, T, V): 0 wherever nothing is masked (eq:masked-rows-backward)."""
    rows = ops.cross_entropy_backward(dloss, cache.of_loss)
    dlogits = np.zeros((*cache.masked.shape, rows.shape[-1]), rows.dtype)
    dlogits[cache.masked] = rows
    return dlogits


def masked_loss_points():
    def draw(name, V, B, T):
        rng = np.random.default_rng(1)
        masked = rng.random((B, T)) < 0.5
        masked[0, :2] = True, False
        targets = rng.integers(0, V, (B, T))
        arguments = {"logits": normal(2, B, T, V), "targets": targets, "masked": masked}
        return Point(name, arguments, 0.7, {"B": B, "T": T, "V": V, "M": int(masked.sum())})

    generic = draw("generic", 7, 3, 5)
    everywhere = np.ones((3, 5), bool)
    alone = everywhere & (np.arange(15).reshape(3, 5) == 8)
    return [
        generic,
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant("every position", masked=everywhere),
        generic.variant("one position", masked=alone),
        generic.variant("large logits", logits=400 * generic.arguments["logits"]),
        draw("generic, other sizes", 4, 2, 6),
    ]


def row_sums(point, outputs):
    """Every row sums to 0, and the rows that are not masked are 0."""
    dlogits = outputs["dlogits"]
    elsewhere = np.abs(dlogits[~point.arguments["masked"]]).sum()
    return (np.abs(dlogits.sum(axis=-1)).max() + elsewhere) / np.abs(dlogits).max()


def bert_points():
    def draw(name, batch, length, vocabulary, width, heads, hidden, **settings):
        rng = np.random.default_rng(1)
        masked = rng.random((batch, length)) < 0.4
        masked[0, :2] = True, False
        keep = np.ones((batch, 1, 1, length), bool)
        keep[-1, ..., -1] = masked[-1, -1] = False
        return Point(
            name,
            {
                "self": builder(vocabulary, length, width, heads, hidden, **settings),
                "ids": rng.integers(0, vocabulary - 2, (batch, length)),
                "masked": masked,
                "keep": keep,
                "segment_ids": rng.integers(0, 2, (batch, length)),
                "rng": None,
            },
            normal(2, masked.sum(), vocabulary),
            {"B": batch, "T": length, "V": vocabulary, "D": width, "M": int(masked.sum())},
        )

    def build(**settings):
        return builder(11, 5, 6, 2, 7, **settings)

    generic = draw("generic", 4, 5, 11, 6, 2, 7)
    return [
        generic,
        generic.variant("its own output layer", self=build(tied=False)),
        generic.variant(
            "no LayerNorms on embeddings and end",
            self=build(embedding_norm=False, final_norm=False),
        ),
        generic.variant("no segments", self=build(segments=0), segment_ids=None),
        generic.variant("dropout", self=build(dropout=0.3), rng=Draws(5)),
        generic.variant("every position read out", masked=None, cotangent=normal(3, 4, 5, 11)),
        draw("generic, other sizes", 2, 6, 9, 4, 2, 3, placement="post"),
    ]


def builder(vocabulary, length, width, heads, hidden, **settings):
    settings = {"tied": True, "segments": 2, "embedding_norm": True} | settings
    stack = StackSpec(vocabulary, length, layers=1)
    return at_random_point(Bert, width, heads, hidden, stack, **settings)


EXERCISES = [
    OpExercise(
        forward=smallest_bert,
        inputs=("table", "positions"),
        points=smallest_bert_points,
        theorems=(
            Theorem(
                "the tables' rows have the same sum, but for that of the logits' cotangents",
                one_sum,
            ),
        ),
        terms={"dtable": tied_terms},
    ),
    OpExercise(
        forward=masked_loss,
        inputs=("logits",),
        points=masked_loss_points,
        theorems=(Theorem("every row of dlogits sums to 0; those not masked are 0", row_sums),),
    ),
    LayerExercise(forward=Bert.forward, inputs=("ids",), points=bert_points),
]
