"""Chapter 465: keys that several ranks share, and a tied table in pieces, one for each rank."""

import numpy as np

from transformer_core.distributed import (
    ColumnParallel,
    ParallelReadout,
    VocabularyEmbedding,
    conjugate_pair,
)
from transformer_core.layers import Embedding, Linear, TiedReadout
from transformer_core.ranks import on_threads
from transformer_practice.engine.exercise import OpExercise
from transformer_practice.engine.points import normal, sampler
from transformer_practice.exercises.structure import same_products


def shared_keys(x, weights, ranks):
    def work(communicator):
        return key_heads(weights, communicator).forward(x)

    keys, caches = zip(*on_threads(ranks, work), strict=True)
    return np.stack(keys), (weights, caches)


def shared_keys_backward(dkeys, cache):
    weights, caches = cache

    def work(communicator):
        layer, rank = key_heads(weights, communicator), communicator.rank
        return layer.backward(dkeys[rank], caches[rank])

    dx, grads = zip(*on_threads(len(caches), work), strict=True)
    firsts = grads[:: len(caches) // len(weights)]  # of those that share a head
    return dx[-1], np.stack([grad["weight"] for grad in firsts])


def key_heads(weights, communicator):
    """Return a rank's layer of keys, of the weights of all heads."""
    heads, width, own = weights.shape
    layer = Linear(width, heads * own, np.random.default_rng(0), weights.dtype, bias=False)
    layer.weight = np.concatenate(weights, axis=1)
    f, _ = conjugate_pair(communicator)
    copies = communicator.size // heads
    return ColumnParallel(layer, f, communicator, (heads * own,), (copies,))


def key_points():
    draw = sampler(
        "N G B T D d_k",
        x="B T D",
        weights=lambda G, D, d_k: normal(2, G, D, d_k),
        ranks=lambda N: N,
        cotangent=lambda N, B, T, d_k: normal(3, N, B, T, d_k),
    )
    generic = draw("generic", 6, 2, 3, 4, 5, 7)
    alone = np.zeros_like(generic.cotangent)
    alone[1] = normal(4, 3, 4, 7)
    return [
        generic,
        generic.variant("a cotangent on one rank alone", cotangent=alone),
        draw("one head for all ranks", 3, 1, 2, 4, 5, 7),
        draw("as many heads as ranks", 3, 3, 2, 4, 5, 7),
        draw("one rank", 1, 1, 3, 4, 5, 2),
        draw("generic, other sizes", 4, 2, 5, 3, 6, 1),
    ]


def by_rank(point):
    """The terms of dx and of the weights' gradient that the first rank and the others have."""
    x, weights, ranks = point.arguments.values()
    share = ranks // len(weights)
    of_x = [d @ weights[r // share].T for r, d in enumerate(point.cotangent)]
    of_weights = np.array([np.tensordot(x, d, ((0, 1), (0, 1))) for d in point.cotangent])
    first = of_weights[::share]
    total = of_weights.reshape(len(weights), share, *first.shape[1:]).sum(axis=1)
    return (
        {"the first rank's term": of_x[0], "the terms of the other ranks": sum(of_x[1:])},
        {
            "the term of the first rank of each group": first,
            "the terms of the others in the group": total - first,
        },
    )


def split_tied(ids, tables):
    def work(communicator):
        tokens, readout = tied_pieces(tables, communicator)
        h, looked_up = tokens.forward(ids)
        logits, read_out = readout.forward(h, tokens.table)
        return logits, (looked_up, read_out)

    logits, caches = zip(*on_threads(len(tables), work), strict=True)
    return np.stack(logits), (tables, caches)


def split_tied_backward(dlogits, cache):
    tables, caches = cache

    def work(communicator):
        tokens, readout = tied_pieces(tables, communicator)
        looked_up, read_out = caches[communicator.rank]
        dh, dtable, _ = readout.backward(dlogits[communicator.rank], read_out)
        _, grads = tokens.backward(dh, looked_up)
        return grads["table"] if dtable is None else grads["table"] + dtable

    return np.stack(on_threads(len(caches), work))


def tied_pieces(tables, communicator):
    """Return a rank's embedding and output layer, of the pieces of all ranks."""
    f, g = conjugate_pair(communicator)
    whole = np.concatenate(tables)
    tokens = Embedding(*whole.shape, np.random.default_rng(0), dtype=whole.dtype)
    tokens.table = whole
    readout = TiedReadout(len(whole), whole.dtype, bias=False)
    return VocabularyEmbedding(tokens, g, communicator), ParallelReadout(readout, f, communicator)


def tied_points():
    draw = sampler(
        "N B T V D",
        ids=lambda B, T, V: np.random.default_rng(1).integers(V, size=(B, T)),
        tables=lambda N, V, D: normal(2, N, V // N, D),
        cotangent=lambda N, B, T, V: normal(3, N, B, T, V // N),
    )
    generic = draw("generic", 2, 3, 7, 10, 4)
    ids = generic.arguments["ids"]
    return [
        generic,
        generic.variant("every id on one rank", ids=ids % 5),
        generic.variant("one id everywhere", ids=0 * ids + 7),
        draw("one rank", 1, 3, 4, 5, 2),
        draw("three ranks", 3, 2, 4, 15, 5),
        draw("generic, other sizes", 2, 4, 3, 14, 6),
    ]


def uses(point):
    """What the look-up gives the rows, and what the output layer gives them."""
    ids, tables = point.arguments.values()
    whole = np.concatenate(tables)
    dlogits = np.concatenate(point.cotangent, axis=-1)
    looked_up = np.zeros_like(whole)
    np.add.at(looked_up, ids, dlogits @ whole)
    read_out = np.tensordot(dlogits, whole[ids], ((0, 1), (0, 1)))
    return {
        "the look-up's term": looked_up.reshape(tables.shape),
        "the output layer's term": read_out.reshape(tables.shape),
    }


def of_both_uses(ids, tables):
    """The logits are products of two rows of the table: each row's gradient is counted twice."""
    logits, cache = split_tied(ids, tables)
    return 2 * logits, cache


EXERCISES = [
    OpExercise(
        forward=shared_keys,
        inputs=("x", "weights"),
        points=key_points,
        theorems=(
            same_products(
                "<dweights, weights> = <dkeys, keys>, over all ranks", "weights", of=shared_keys
            ),
            same_products("<dx, x> = <dkeys, keys>, over all ranks", "x", of=shared_keys),
        ),
        terms={"dx": lambda point: by_rank(point)[0], "dweights": lambda point: by_rank(point)[1]},
    ),
    OpExercise(
        forward=split_tied,
        inputs=("tables",),
        points=tied_points,
        theorems=(
            same_products("<dtables, tables> = 2 <dlogits, logits>", "tables", of=of_both_uses),
        ),
        terms={"dtables": uses},
    ),
]
