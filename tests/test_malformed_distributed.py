"""Malformed input to ranks: collectives, groups, cut layers, schedules, costs."""

from functools import partial
from types import SimpleNamespace

import numpy as np
from malformed import (
    RNG,
    Answers,
    Anything,
    Booleans,
    Choice,
    Floats,
    Ids,
    Mask,
    Named,
    Reals,
    Scalar,
    Setting,
    backward,
    both_tests,
    call,
    forward,
    not_negative,
    positive,
    public_names,
    rate,
    whole,
)

from transformer_core import distributed
from transformer_core.distributed import (
    Bucket,
    Communicator,
    LocalSteps,
    MpiCommunicator,
    ParallelReadout,
    ParallelSelfAttention,
    PipelineBert,
    ShardedOptimizer,
    ShardedParameters,
    TensorParallelBert,
    VocabularyEmbedding,
    cost,
    gpipe,
    on_threads,
)
from transformer_core.layers import (
    AttentionSpec,
    Embedding,
    LayerSpec,
    Linear,
    MultiHeadSelfAttention,
    TiedReadout,
)
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import SGD, AdamW


def seeded():
    return np.random.default_rng(0)


def bert(heads=2, hidden=7, vocabulary=9, layers=2):
    spec = LayerSpec(6, AttentionSpec(heads), hidden, "pre", dtype="float64")
    return Bert(spec, StackSpec(vocabulary, 4, layers), seeded(), tied=True)


class Two(Layer):
    """A model of two arrays."""

    def __init__(self):
        self.a, self.b = np.ones((6, 7)), np.ones(7)

    def loss_and_gradients(self):
        return 1.0, {name: 2 * array for name, array in self.parameters().items()}


ALONE = Communicator()
F, G = distributed.conjugate_pair(ALONE)
COLUMN = distributed.ColumnParallel(Linear(6, 7, seeded(), "float64"), F)
ROW = distributed.RowParallel(Linear(6, 7, seeded(), "float64"), G)
EMBEDDING = Embedding(9, 6, seeded(), dtype="float64")
ATTENTION = ParallelSelfAttention(
    MultiHeadSelfAttention(6, 2, seeded(), "float64"), F, G, ALONE
)
READOUT = ParallelReadout(TiedReadout(9, "float64"), F)
WORDS = VocabularyEmbedding(EMBEDDING, 9, G, ALONE)
BERT = bert()
BUCKET = Bucket(Two().parameters(), ALONE)
IDS = np.array([[3, 1, 3, 5], [0, 2, 1, 8]])
X = seeded().normal(size=(2, 4, 6))


def on_two(work):
    """Call ``work(communicator, ...)`` on two ranks, with the same arguments."""
    return lambda **given: on_threads(2, lambda c: work(c, **given))


def with_bert(work, **how):
    """Call ``work(model, ...)`` on two ranks, with a BERT that is cut."""
    return on_two(lambda c, **given: work(TensorParallelBert(BERT, c, **how), **given))


def with_piped(work):
    """Call ``work(stage, ...)`` on two ranks, with a stage of a BERT."""
    return on_two(lambda c, **given: work(PipelineBert(BERT, c), **given))


def of_batches(stage, batches, **arrays):
    stage.loss_and_gradients(
        [tuple(arrays.values())] if batches == "valid" else batches
    )


def sender_and_receiver(send, receive):
    """Call one function on rank 0 and another on rank 1."""
    return on_two(lambda c, **given: (receive if c.rank else send)(c, **given))


def backward_of_bert(model, dlogits):
    _, cache = model.forward(IDS)
    words = model.communicator.bounds(9)[model.communicator.rank]
    whole_row = np.shape(dlogits)[-1:] == (9,) and isinstance(dlogits, np.ndarray)
    model.backward(dlogits[..., words] if whole_row else dlogits, cache)


def backward_of_encoder(model, dy):
    model.encoder.backward(dy, model.encoder.forward(X)[1])


def through(pair, *ways):
    """Send an array through the first of a pair, forward or backward; the other one is like it."""

    def work(communicator, x):
        first, _ = pair(communicator)
        for way in ways:
            getattr(first, way)(x)

    return call(on_two(work), x=array((2, 4, 6)))


def cross_entropy_backward(dloss):
    _, cache = distributed.vocabulary_cross_entropy(X, IDS % 6, 6, ALONE)
    return distributed.vocabulary_cross_entropy_backward(dloss, cache)


def sharded(kind):
    """The lines of one way to shard: of one rank, whose pieces are flat, or of two."""

    def on_one(method):
        return lambda **given: getattr(kind(Two(), AdamW, ALONE), method)(**given)

    def loss_and_gradients(communicator, weight):
        kind(Two(), AdamW, communicator).loss_and_gradients(weight=weight)

    return {
        "cut": call(on_one("cut"), arrays=Named(**PAIR)),
        "loss_and_gradients": call(on_two(loss_and_gradients), weight=positive(1.0)),
        "norm": call(on_one("norm"), grads=GRADS),
        "scatter": call(
            on_one("scatter"),
            parameters=Named(a=Reals("6 7"), b=Reals("7")),
            optimizer=Choice(
                AdamW(Two().parameters()), [SGD(Two().parameters(), 0.1, momentum=0.9)]
            ),
        ),
        "step": call(
            on_one("step"),
            grads=Named(a=Reals("42"), b=Reals("7")),
            max_norm=positive(1.0, optional=True),
        ),
    }


def array(shape=(3, 6)):
    """What is no array of numbers; its shape and dtype may be any."""
    return Choice(
        np.ones(shape),
        [None, [], [1.0], {}, 3, 0.5, "text", np.array("text"), np.array([1], object)],
    )


class Doubles(Floats):
    """An array of float64, and of nothing else."""

    dtypes = ()


AXIS = Choice(0, [2, -3, 10**30, None, "0", 0.0, 0.5, [0], (), {}, True])
RANK = Choice(0, [2, -1, None, "0", 0.0, 0.5, [0], 10**30, True])
LENGTH = whole(7, least=0)
PAIR = {"a": Anything("6 7"), "b": Anything("7")}
PIECES = Named(free=True, **{"a": Anything("6 7"), "hidden.weight": Anything("6 7")})
FUSED = Named(
    free=True, **{"a": Anything("6"), "query_key_value.weight": Anything("6 9")}
)
GRADS = Named(free=True, **{"a": Reals("6"), "hidden.weight": Reals("6 7")})
MASKED = {
    "ids": Ids("B 4", below=9),
    "targets": Answers("B 4", below=9),
    "masked": Booleans("B 4"),
    "keep": Mask("B 2 4 4"),
}
SCHEDULE = Choice(
    gpipe(2, 3), [None, [], 3, "text", [None], [(0, 0, True, 0)], {}, gpipe]
)

CARRIERS = {
    "Communicator.all_gather": call(
        on_two(Communicator.all_gather), piece=array(), axis=AXIS
    ),
    "Communicator.all_reduce": call(on_two(Communicator.all_reduce), array=array()),
    "Communicator.bounds": call(on_two(Communicator.bounds), length=LENGTH),
    "Communicator.broadcast": call(
        on_two(Communicator.broadcast), array=array(), root=RANK
    ),
    "Communicator.exchange": call(
        on_two(Communicator.exchange),
        parts=Choice(
            2 * [np.ones(3)],
            [None, 3, [], [1, 2], 3 * [np.ones(3)], "ab", [np.ones(3), None], {}],
        ),
    ),
    "Communicator.receive": call(
        sender_and_receiver(
            lambda c, source: c.send(np.ones(3), 1), Communicator.receive
        ),
        source=RANK,
    ),
    "Communicator.reduce_scatter": call(
        on_two(Communicator.reduce_scatter), array=array(), axis=AXIS
    ),
    "Communicator.send": call(
        sender_and_receiver(Communicator.send, lambda c, **given: c.receive(0)),
        array=array(),
        to=Choice(1, [0, 2, -1, None, "1", 1.0, [1], True]),
    ),
    "Communicator.swap": call(
        sender_and_receiver(
            lambda c, outgoing, sources: c.swap("mine", outgoing),
            lambda c, outgoing, sources: c.swap("mine", {}, sources),
        ),
        outgoing=Choice(
            {1: np.ones(3)},
            [None, [], 3, {2: np.ones(3)}, {0: np.ones(3)}, {"1": np.ones(3)},
             {1: None}, {1: [1.0]}, {1: np.array("text")}],
        ),
        sources=Choice([0], [None, 3, [1], [2], [-1], ["0"], [None], [0.0], [[0]]]),
    ),
    "Group": call(
        on_two(distributed.Group),
        ranks=Choice(
            [0, 1],
            [None, 3, [], [2], [0, 0], [1, 1], [0, 1, 5], [0, 1, -1], ["0", "1"],
             [0.0, 1.0], [[0], [1]], [None], "01"],
        ),
    ),
    "MpiCommunicator": call(
        partial(
            MpiCommunicator,
            SimpleNamespace(Get_rank=lambda: 0, Get_size=lambda: 1),
        ),
        patience=positive(1.0),
    ),
    "conjugate_pair": through(distributed.conjugate_pair, "backward"),
    "flatten": call(
        distributed.flatten, arrays=Named(free=True, **PAIR)
    ),
    "grid": call(
        lambda tensor: distributed.grid(ALONE, tensor),
        tensor=Choice(1, [0, -1, 2, 2.5, "1", None, True]),
    ),
    "on_threads": call(
        lambda size, patience: on_threads(size, Communicator.barrier, patience=patience),
        size=Setting(
            2,
            lambda v: isinstance(v, (int, np.integer)) and v is not True and 0 < v < 2**31,
        ),
        patience=positive(1.0),
    ),
    "sequence_pair": through(distributed.sequence_pair, "forward", "backward"),
    "unflatten": call(
        distributed.unflatten,
        buffer=Anything("49"),
        like=Named(free=True, **PAIR),
    ),
    "world": call(distributed.world, patience=positive(1.0, optional=True)),
}  # fmt: skip

CUT = {
    "ColumnParallel.backward": backward(COLUMN, X, dy=Floats("2 4 7")),
    "ColumnParallel.forward": forward(COLUMN, x=Floats("... 6")),
    "ParallelReadout.backward": backward(
        READOUT, X, EMBEDDING.table, dlogits=Floats("2 4 9")
    ),
    "ParallelReadout.forward": forward(READOUT, h=Floats("... D"), table=Floats("9 D")),
    "ParallelSelfAttention": call(
        on_two(
            lambda c, heads: ParallelSelfAttention(
                MultiHeadSelfAttention(6, heads, seeded()), F, G, c
            )
        ),
        heads=Choice(2, [0, 1, 3, None, "2"]),
    ),
    "ParallelSelfAttention.backward": backward(ATTENTION, X, dy=Floats("2 4 6")),
    "ParallelSelfAttention.forward": forward(
        ATTENTION, x=Floats("B T 6"), keep=Mask("B 2 T T"), rng=RNG
    ),
    "ParallelSelfAttention.step": call(
        lambda x, key, value: ATTENTION.step(x, KeyValue(key, value)),
        x=Floats("B 1 6"),
        key=Floats("B 2 T 3"),
        value=Floats("B 2 T 3"),
    ),
    "RowParallel.backward": backward(ROW, X, dy=Floats("2 4 7")),
    "RowParallel.forward": forward(ROW, x=Floats("... 6")),
    "SequenceParallelEncoder.backward": call(
        with_bert(backward_of_encoder, sequence=True), dy=Floats("2 4 6")
    ),
    "SequenceParallelEncoder.forward": call(
        with_bert(lambda model, **given: model.encoder.forward(**given), sequence=True),
        x=Floats("B S 6"),
        keep=Mask("B 2 S S"),
    ),
    "TensorParallelBert": call(
        on_two(lambda c, **sizes: TensorParallelBert(bert(**sizes), c)),
        heads=Choice(2, [1, 3]),
        hidden=Choice(7, [1]),
        vocabulary=Choice(9, [1]),
    ),
    "TensorParallelBert.backward": call(
        with_bert(backward_of_bert), dlogits=Floats("2 4 9")
    ),
    "TensorParallelBert.cut": call(with_bert(TensorParallelBert.cut), arrays=FUSED),
    "TensorParallelBert.forward": call(
        with_bert(TensorParallelBert.forward),
        ids=Ids("B 4", below=9),
        masked=Booleans("B 4", optional=True),
        keep=Mask("B 2 4 4"),
    ),
    "TensorParallelBert.gather": call(
        with_bert(TensorParallelBert.gather), arrays=FUSED
    ),
    "TensorParallelBert.loss_and_gradients": call(
        with_bert(TensorParallelBert.loss_and_gradients), **MASKED
    ),
    "TensorParallelBert.norm": call(with_bert(TensorParallelBert.norm), grads=GRADS),
    "VocabularyEmbedding": call(
        lambda vocabulary: VocabularyEmbedding(EMBEDDING, vocabulary, G, ALONE),
        vocabulary=Setting(9, lambda v: False),
    ),
    "VocabularyEmbedding.backward": backward(WORDS, IDS, drows=Floats("2 4 6")),
    "VocabularyEmbedding.forward": forward(WORDS, ids=Ids("...", below=9)),
    "cut": call(lambda arrays: distributed.cut(arrays, ALONE), arrays=PIECES),
    "gather": call(lambda arrays: distributed.gather(arrays, ALONE), arrays=PIECES),
    "norm_of_pieces": call(
        lambda grads: distributed.norm_of_pieces(grads, ALONE), grads=GRADS
    ),
    "vocabulary_cross_entropy": call(
        lambda logits, targets, vocabulary: distributed.vocabulary_cross_entropy(
            logits, targets, vocabulary, ALONE
        ),
        logits=Floats("... 9"),
        targets=Ids("...", below=9),
        vocabulary=Setting(9, lambda v: False),
    ),
    "vocabulary_cross_entropy_backward": call(
        cross_entropy_backward, dloss=Scalar(1.0)
    ),
}

PIPELINE = {
    "PipelineBert": call(
        on_two(lambda c, layers: PipelineBert(bert(layers=layers), c)),
        layers=Choice(2, [1]),
    ),
    "PipelineBert.loss_and_gradients": call(
        with_piped(of_batches),
        batches=Choice(
            "valid",
            [None, 3, [], "text", [None], [3], [()], [(IDS, IDS)], [(None, None, None)],
             [(IDS, IDS, IDS > 9)], [6 * (IDS,)], {}],
        ),
        **MASKED,
    ),
    "PipelineBert.norm": call(with_piped(PipelineBert.norm), grads=GRADS),
    "bubble": call(distributed.bubble, schedule=SCHEDULE),
    "gpipe": call(gpipe, stages=whole(2), batches=whole(3)),
    "live_activations": call(distributed.live_activations, schedule=SCHEDULE),
    "one_forward_one_backward": call(
        distributed.one_forward_one_backward, stages=whole(2), batches=whole(3)
    ),
}  # fmt: skip

LOCAL = {
    "LocalSteps": call(
        LocalSteps,
        parameters=Named(free=True, a=Floats("6 7"), b=Floats("7")),
        learning_rate=positive(0.7),
        momentum=rate(0.9),
    ),
    "LocalSteps.catch_up": call(
        on_two(lambda c, root: LocalSteps({"a": np.ones(3)}).catch_up(c, root)),
        root=RANK,
    ),
    "LocalSteps.meet": call(
        on_two(lambda c, weight: LocalSteps({"a": np.ones(3)}).meet(c, weight)),
        weight=positive(1.0),
    ),
}

SHARDED = {
    "Bucket": call(
        lambda arrays: Bucket(arrays, ALONE),
        arrays=Named(free=True, **PAIR),
    ),
    "Bucket.all_gather": call(
        BUCKET.all_gather, pieces=Named(a=Doubles("42"), b=Doubles("7"))
    ),
    "Bucket.reduce_scatter": call(
        BUCKET.reduce_scatter,
        grads=Named(a=Floats("6 7"), b=Floats("7")),
        share=not_negative(0.5),
    ),
    "ShardedOptimizer": call(
        lambda stage: ShardedOptimizer(Two(), AdamW, ALONE, stage),
        stage=Choice(1, [0, 3, -1, None, "1", 1.5, [1], {}]),
    ),
}
for kind in (ShardedOptimizer, ShardedParameters):
    SHARDED |= {f"{kind.__name__}.{name}": line for name, line in sharded(kind).items()}

SIZES = cost.Sizes(1000, 2, 6, 7, 2, 4)
NETWORK = cost.Network(1e-5, 1e-9)
RANKS, TOKENS = whole(3), not_negative(64.0)
COLLECTIVE = {"ranks": RANKS, "nbytes": not_negative(8.0)}
LOADS = [cost.all_reduce(2, 10**k) for k in (1, 4)]
COST = {
    "Cost.seconds": call(
        lambda operations, rate: cost.data_parallel(SIZES, 64, 2).seconds(
            operations, rate, NETWORK
        ),
        operations=not_negative(1e9),
        rate=positive(1e9),
    ),
    "all_gather": call(cost.all_gather, **COLLECTIVE),
    "all_reduce": call(cost.all_reduce, **COLLECTIVE),
    "bubble": call(cost.bubble, stages=whole(2), batches=whole(3)),
    "data_parallel": call(
        partial(cost.data_parallel, SIZES), tokens=TOKENS, ranks=RANKS
    ),
    "fit": call(
        cost.fit,
        loads=Choice(LOADS, [None, 3, [], LOADS[:1], [cost.Load(0), cost.Load(0)]]),
        seconds=Choice(
            [0.1, 0.2],
            [None, 3, [], [0.1], [0.0, 0.2], [0.1, -0.2], [0.1, None], ["a", "b"],
             [np.nan, 0.1], [[0.1], [0.2]]],
        ),
    ),
    "local_steps": call(
        partial(cost.local_steps, SIZES), tokens=TOKENS, ranks=RANKS, every=whole(5)
    ),
    "pipeline": call(
        partial(cost.pipeline, SIZES), tokens=TOKENS, stages=RANKS, batches=whole(3)
    ),
    "reduce_scatter": call(cost.reduce_scatter, **COLLECTIVE),
    "sharded": call(
        partial(cost.sharded, SIZES),
        tokens=TOKENS,
        ranks=RANKS,
        stage=Choice(1, [0, 4, -1, None, "1", 2.5, [1], {}]),
        rest=whole(0, least=0),
    ),
    "tensor_parallel": call(
        partial(cost.tensor_parallel, SIZES),
        tokens=TOKENS,
        ranks=RANKS,
        readout=Setting(5.0, lambda v: 0 <= v < np.inf, optional=True),
    ),
    "tree_all_reduce": call(cost.tree_all_reduce, **COLLECTIVE),
}  # fmt: skip
RANKS_AND_LAYERS = CARRIERS | CUT | PIPELINE | LOCAL | SHARDED
CALLS = RANKS_AND_LAYERS | {f"cost.{name}": line for name, line in COST.items()}
# What takes nothing but objects of the package, or is called by the package alone.
OTHERS = {
    "ColumnParallel",
    "CommunicationError",
    "Communicator",
    "Communicator.carry",
    "Communicator.check_operation",
    "GatheredLayer",
    "MpiCommunicator.abort",  # ends the process
    "OwnDraws",
    "OwnDraws.random",  # by dropout, with the shape of what it drops
    "ParallelReadout",
    "ReducedLayer",
    "RowParallel",
    "SequenceParallelEncoder",
    "ShardedOptimizer.enclosed",
    "ShardedOptimizer.from_ranks",
    "ShardedOptimizer.reduce",
    "ShardedOptimizer.whole",
    "ShardedParameters",
    "ShardedParameters.enclosed",
    "ShardedParameters.gathered",
    "ThreadCommunicator",
    "Traffic",
    "guarded",
}
RECORDS = {"Cost", "Load", "Load.seconds"}


def is_own(name):
    """Tell what a class of ranks does not inherit."""
    owner, _, method = name.partition(".")
    return not method or method in vars(getattr(distributed, owner))


def test_every_public_name_is_in_the_table():
    names = set(public_names(distributed)) - OTHERS
    assert RANKS_AND_LAYERS.keys() <= names
    assert sorted(filter(is_own, names)) == sorted(filter(is_own, RANKS_AND_LAYERS))
    assert sorted(set(public_names(cost)) - RECORDS) == sorted(COST)


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)
