"""Malformed input to ranks: collectives, groups, cut layers, schedules, costs."""

from functools import cache

import numpy as np
from helpers.malformed import (
    RNG,
    Choice,
    Named,
    Setting,
    Table,
    array,
    call,
    not_negative,
    on_two,
    positive,
    public_names,
    rate,
    whole,
)

from transformer_core import distributed
from transformer_core.distributed import (
    Bucket,
    Cut,
    DataParallel,
    LocalSteps,
    ParallelReadout,
    ParallelSelfAttention,
    PipelineBert,
    ShardedOptimizer,
    ShardedParameters,
    TensorParallelBert,
    TensorParallelGpt,
    VocabularyEmbedding,
    gpipe,
)
from transformer_core.layers import (
    AttentionSpec,
    Embedding,
    FeedForward,
    LayerSpec,
    Linear,
    MultiHeadSelfAttention,
    TiedReadout,
)
from transformer_core.layers.layer import Layer
from transformer_core.models import Bert, Gpt, StackSpec
from transformer_core.optim import SGD, AdamW
from transformer_core.ranks import Communicator, on_threads
from transformer_core.tasks.reconstruction import Reconstructor


def seeded():
    return np.random.default_rng(0)


def bert(heads=2, hidden=7, vocabulary=9, layers=1):
    spec = LayerSpec(6, AttentionSpec(heads), hidden, "pre", dtype="float64")
    return Bert(spec, StackSpec(vocabulary, 4, layers), seeded(), tied=True)


class Two(Layer):
    """A model of two arrays."""

    def __init__(self):
        self.a, self.b = np.ones((6, 7)), np.ones(7)

    def loss_and_gradients(self):
        return 1.0, {name: 2 * array for name, array in self.parameters().items()}


ALONE = Communicator()
MODEL = Reconstructor(LayerSpec(6, 2, 7, "pre", dtype="float64"), 1, seeded())
PARALLEL = DataParallel(MODEL, lambda *shard: 1)
F, G = distributed.conjugate_pair(ALONE)
EMBEDDING = Embedding(9, 6, seeded(), dtype="float64")
OBJECTS = {
    "ColumnParallel": distributed.ColumnParallel(Linear(6, 7, seeded(), "float64"), F, ALONE),
    "ParallelFeedForward": distributed.ParallelFeedForward(
        FeedForward(6, 7, seeded(), "float64"), F, G, ALONE
    ),
    "ParallelReadout": ParallelReadout(TiedReadout(9, "float64"), F, ALONE),
    "ParallelSelfAttention": ParallelSelfAttention(
        MultiHeadSelfAttention(6, 2, seeded(), "float64"), F, G, ALONE
    ),
    "RowParallel": distributed.RowParallel(Linear(6, 7, seeded(), "float64"), G, ALONE),
    "VocabularyEmbedding": VocabularyEmbedding(EMBEDDING, G, ALONE),
}
BUCKET = Bucket(Two().parameters(), ALONE)
IDS = np.array([[3, 1, 3, 5], [0, 2, 1, 8]])
X = seeded().normal(size=(2, 4, 6))
RING = distributed.ring_attention(X, X, X, ALONE)[1], ALONE


@cache
def pieces(kind, sequence, **sizes):
    """Cut a model over two ranks, once for all calls."""
    model = (bert if kind is TensorParallelBert else gpt)(**sizes)
    return on_threads(2, lambda c: kind(model, c, sequence))


def with_cut(kind, work, sizes=(), sequence=False):
    """Call ``work(model, ...)`` on two ranks, with a model that is cut; some arguments are its."""

    def on_both(**given):
        models = pieces(kind, sequence, **{name: given.pop(name) for name in sizes})

        def on_rank(c):
            model = models[c.rank]
            model.communicator.queues = c.queues  # without what an error left in the last ones
            work(model, **given)

        return on_threads(2, on_rank)

    return on_both


def with_piped(work):
    """Call ``work(stage, ...)`` on two ranks, with a stage of a BERT."""
    model = bert(layers=2)
    return on_two(lambda c, **given: work(PipelineBert(model, c), **given))


def of_batches(stage, batches, **arrays):
    stage.in_micro_batches([tuple(arrays.values())] if batches == "valid" else batches)


def gpt(heads=2):
    attention = AttentionSpec(heads, 4, 3, key_heads=1, transform="qk_norm_rotary")
    spec = LayerSpec(6, attention, 7, "pre", dtype="float64")
    return Gpt(spec, StackSpec(9, 4, 1), seeded())


def loss_and_gradients(model, **given):
    model.loss_and_gradients(**given)


def backward_of_encoder(model, dy):
    model.encoder.backward(dy, model.encoder.forward(X)[1])


def through(pair, *ways):
    """Send an array through the first of a pair, forward or backward; the other one is like it."""

    def work(communicator, x):
        first, _ = pair(communicator)
        for way in ways:
            getattr(first, way)(x)

    return call(on_two(work), x=array((2, 4, 6)))


def sharded(kind):
    """The lines of one way to shard: of one rank, whose pieces are flat, or of two."""

    def on_one(method):
        return lambda **given: getattr(kind(Two(), AdamW, ALONE), method)(**given)

    def loss_and_gradients(communicator, weight):
        kind(Two(), AdamW, communicator).of_shard(weight=weight)

    return {
        "cut": call(on_one("cut"), arrays=Named(**PAIR)),
        "of_shard": call(on_two(loss_and_gradients), weight=positive(1.0)),
        "norm": call(on_one("norm"), grads=GRADS),
        "scatter": call(
            on_one("scatter"),
            parameters=Named(a="reals 6 7", b="reals 7"),
            optimizer=Choice(
                AdamW(Two().parameters()), [SGD(Two().parameters(), 0.1, momentum=0.9)]
            ),
        ),
    }


RANK = Choice(0, [2, -1, None, "0", 0.0, 0.5, [0], 10**30, True])
PAIR = {"a": "anything 6 7", "b": "anything 7"}
PIECES = Named(free=True, **{"a": "anything 6 7", "hidden.weight": "anything 6 7"})
CUTS = {"hidden.weight": Cut(1)}
GRADS = Named(free=True, **{"a": "reals 6", "hidden.weight": "reals 6 7"})
MASKED = {
    "ids": "ids B 4",
    "targets": "answers B 4",
    "masked": "booleans B 4",
    "keep": "mask B 2 4 4",
}
SCHEDULE = Choice(gpipe(2, 3), [None, [], 3, "text", [None], [(0, 0, True, 0)], {}, gpipe])

CUT = {
    "conjugate_pair": through(distributed.conjugate_pair, "backward"),
    "sequence_pair": through(distributed.sequence_pair, "forward", "backward"),
    "ColumnParallel.forward": {"x": "... 6"},
    "ParallelFeedForward.forward": {"x": "... 6"},
    "ParallelReadout.forward": {"h": "... D", "table": "9 D"},
    "ParallelSelfAttention": call(
        on_two(
            lambda c, heads: ParallelSelfAttention(
                MultiHeadSelfAttention(6, heads, seeded()), F, G, c
            )
        ),
        heads=Choice(2, [0, 1, 3, None, "2"]),
    ),
    "ParallelSelfAttention.backward": {},
    "ParallelSelfAttention.forward": {"x": "B T 6", "keep": "mask B 2 T T"},
    "RowParallel.forward": {"x": "... 6"},
    "SequenceParallelEncoder.backward": call(
        with_cut(TensorParallelBert, backward_of_encoder, sequence=True), dy="2 4 6"
    ),
    "SequenceParallelEncoder.forward": call(
        with_cut(
            TensorParallelBert, lambda model, **given: model.encoder.forward(**given), sequence=True
        ),
        x="B S 6",
        keep="mask B 2 S S",
    ),
    "TensorParallelBert": call(
        with_cut(TensorParallelBert, loss_and_gradients, ("heads", "hidden", "vocabulary")),
        heads=Choice(2, [1, 3]),
        hidden=Choice(7, [1]),
        vocabulary=Choice(9, [1]),
        **MASKED,
    ),
    "TensorParallelGpt": call(
        with_cut(TensorParallelGpt, loss_and_gradients, ("heads",)),
        heads=Choice(2, [1, 3]),
        ids="ids B 4",
        targets="answers B 4",
        weights=Choice(None, [X]),
        keep="mask B 2 4 4",
    ),
    "VocabularyEmbedding.forward": {"ids": "ids ..."},
    "cut": call(lambda arrays: distributed.cut(arrays, CUTS, ALONE), arrays=PIECES),
    "gather": call(lambda arrays: distributed.gather(arrays, CUTS, ALONE), arrays=PIECES),
    "norm_of_pieces": call(
        lambda grads: distributed.norm_of_pieces(grads, CUTS, ALONE), grads=GRADS
    ),
    "ring_attention": call(
        lambda query, key, value, keep, tile: distributed.ring_attention(
            query, key, value, ALONE, keep, tile=tile
        ),
        query="... T K",
        key="... S K",
        value="... S V",
        keep="mask ... T S",
        tile=whole(2),
    ),
    "ring_attention_backward": call(
        lambda doutput: distributed.ring_attention_backward(doutput, *RING), doutput="2 4 6"
    ),
    "vocabulary_cross_entropy": call(
        lambda logits, targets, vocabulary: distributed.vocabulary_cross_entropy(
            logits, targets, vocabulary, ALONE
        ),
        logits="... 9",
        targets="ids ...",
        vocabulary=Setting(9, lambda v: False),
    ),
}

for kind in (TensorParallelBert, TensorParallelGpt):
    output = f"m.{kind.stack}.layer_0.attention.branch.output.weight"
    fused = {"a": "anything 6", output: "anything 6 9"}
    CUT[f"{kind.__name__}.norm"] = call(with_cut(kind, kind.norm), grads=GRADS)
    for way in ("cut", "gather"):
        line = call(with_cut(kind, getattr(kind, way)), arrays=Named(free=True, **fused))
        CUT[f"{kind.__name__}.{way}"] = line

PIPELINE = {
    "PipelineBert": call(
        on_two(lambda c, layers: PipelineBert(bert(layers=layers), c)),
        layers=Choice(2, [1]),
    ),
    "PipelineBert.in_micro_batches": call(
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
    "DataParallel": call(
        lambda threads: DataParallel(None, None, threads), threads=whole(2, optional=True)
    ),
    "DataParallel.loss_and_gradients": call(
        lambda inputs, targets, keep, rng: PARALLEL.loss_and_gradients(
            inputs, targets, keep, rng=rng
        ),
        inputs="B T 6",
        targets="B1 T 6",  # of length 1: the same for all sequences
        keep="mask B 2 T T",
        rng=RNG,
    ),
    "LocalSteps": call(
        LocalSteps,
        parameters=Named(free=True, a="6 7", b="7"),
        learning_rate=positive(0.7),
        momentum=rate(0.9),
    ),
    "LocalSteps.catch_up": call(
        on_two(lambda c, root: LocalSteps({"a": np.ones(3)}).catch_up(c, root)), root=RANK
    ),
    "LocalSteps.meet": call(
        on_two(lambda c, weight: LocalSteps({"a": np.ones(3)}).meet(c, weight)),
        weight=positive(1.0),
    ),
}

SHARDED = {
    "Bucket": call(lambda arrays: Bucket(arrays, ALONE), arrays=Named(free=True, **PAIR)),
    "Bucket.all_gather": call(BUCKET.all_gather, pieces=Named(a="doubles 42", b="doubles 7")),
    "Bucket.reduce_scatter": call(
        BUCKET.reduce_scatter, grads=Named(a="6 7", b="7"), share=not_negative(0.5)
    ),
    "ShardedOptimizer": call(
        lambda stage: ShardedOptimizer(Two(), AdamW, ALONE, stage),
        stage=Choice(1, [0, 3, -1, None, "1", 1.5, [1], {}]),
    ),
}
for kind in (ShardedOptimizer, ShardedParameters):
    SHARDED |= {f"{kind.__name__}.{name}": line for name, line in sharded(kind).items()}

LINES = CUT | PIPELINE | LOCAL | SHARDED
# What takes nothing but objects of the package, or is called by the package alone.
WITHOUT = {
    "VocabularyEmbedding",
    "cuts_of",
    "ParallelFeedForward",
    # What both models of it have a line for.
    "TensorParallelModel",
    "TensorParallelModel.cut",
    "TensorParallelModel.gather",
    "TensorParallelModel.norm",
    "ColumnParallel",
    "DataParallel.map",
    "DataParallel.over_ranks",
    "DataParallel.parameters",
    "GatheredLayer",
    "OwnDraws",
    "OwnDraws.random",  # by dropout, with the shape of what it drops
    "ParallelReadout",
    "PipelineBert.loss_and_gradients",  # cuts a batch, as DataParallel does
    "ReducedLayer",
    "RowParallel",
    "SequenceParallelEncoder",
    "ShardedOptimizer.enclosed",
    "ShardedOptimizer.loss_and_gradients",  # cuts a batch, as DataParallel does
    "ShardedOptimizer.parameters",
    "ShardedOptimizer.from_ranks",
    "ShardedOptimizer.reduce",
    "ShardedOptimizer.whole",
    # Called by the state of a run alone, with its names.
    "ShardedOptimizer.bucket_of",
    "ShardedOptimizer.cut_array",
    "ShardedOptimizer.join_array",
    "ShardedParameters",
    "ShardedParameters.enclosed",
    "ShardedParameters.gathered",
}
WITHOUT |= {name for name, _ in public_names(distributed) if name.endswith(".set_parameters")}
TABLE = Table("tests/distributed/test_malformed.py", [distributed], LINES, (), OBJECTS, WITHOUT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = TABLE.tests()
