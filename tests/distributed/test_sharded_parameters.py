"""ZeRO 3: the same training as one process alone, and what it sends and holds."""

import gc
import tracemalloc
from functools import partial
from itertools import repeat

import numpy as np
import pytest
from helpers.ranks import on_mpi, on_processes
from helpers.sharding import (
    ADAMW,
    EVERYTHING,
    SIZES,
    VARIANTS,
    B,
    T,
    V,
    assert_close,
    assert_equal_to_one_process,
    batch,
    bert,
    bytes_of,
    encoder_decoder,
    sent_in_one_step,
    train,
    trained,
    trained_at_stage_3,
)
from helpers.witnesses import assert_same_bits

from transformer_core.distributed.data_parallel import SequenceGenerators
from transformer_core.distributed.over_ranks import over_ranks
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.layers import LayerSpec, Linear
from transformer_core.layers.layer import Layer
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import AdamW, Muon
from transformer_core.ranks import Communicator, on_threads
from transformer_core.training import Recipe, Training, train_on_disk

STAGE_2 = partial(ShardedOptimizer, stage=2)
every_size = pytest.mark.parametrize("size", SIZES)


@pytest.mark.slow
@every_size
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.equation("eq:zero-3")
def test_the_training_is_that_of_one_process(size, variant):
    assert_equal_to_one_process(size, ShardedParameters, variant)


@every_size
def test_the_bits_are_those_of_stage_2(size):
    for one, other in zip(trained(size, ShardedParameters), trained(size, STAGE_2), strict=True):
        assert one[0] == other[0]
        assert_same_bits(one[1], other[1])


@every_size
@pytest.mark.equation("eq:zero-3")
def test_a_step_sends_each_layer_three_times_and_the_rest_twice(size):
    whole, rest = bytes_of(bert().parameters())
    sent = sent_in_one_step(size, ShardedParameters)
    for traffic, own in sent:
        assert traffic["reduce_scatter"] == whole - own
    moved = sum(t["reduce_scatter"] + t["all_gather"] for t, _ in sent)
    assert moved == (size - 1) * (3 * whole - rest)


class Stack(Layer):
    """Layers and nothing else, trained to give 0."""

    def __init__(self, widths):
        rng = np.random.default_rng(3)
        pairs = zip(widths, widths[1:], strict=False)
        self.layers = [Linear(one, other, rng, float) for one, other in pairs]

    def loss_and_gradients(self, x):
        y, caches = x, []
        for layer in self.layers:
            y, cache = layer.forward(y)
            caches.append(cache)
        grads, dy = {}, 2 * y / len(y)
        for i in reversed(range(len(caches))):
            dy, found = self.layers[i].backward(dy, caches[i])
            grads |= {f"layer_{i}.{name}": grad for name, grad in found.items()}
        return (y**2).sum() / len(y), grads


@every_size
@pytest.mark.equation("eq:zero-3")
def test_a_model_of_layers_alone_is_sent_three_times(size):
    x = np.random.default_rng(4).normal(size=(7, 3))
    loss, grads = Stack([3, 5, 1]).loss_and_gradients(x)
    whole = sum(grad.nbytes for grad in grads.values())

    def work(communicator):
        sharded = ShardedParameters(Stack([3, 5, 1]), ADAMW, communicator)
        rows = x[communicator.bounds(7)[communicator.rank]]
        found, pieces = sharded.of_shard(rows, weight=len(rows))
        sent = communicator.sent["reduce_scatter"].bytes
        sent += communicator.sent["all_gather"].bytes
        return found, dict(sharded.whole(pieces)), sent

    ranks = on_threads(size, work)
    for found, gathered, _ in ranks:
        assert abs(found - loss) < 1e-12
        assert_close(gathered, grads)
    assert sum(sent for *_, sent in ranks) == 3 * (size - 1) * whole


@pytest.mark.parametrize("draw", [np.random.default_rng, SequenceGenerators])
def test_what_was_dropped_is_dropped_again(draw):
    def work(communicator, shard):
        sharded = shard(bert(EVERYTHING | {"dropout": 0.3}), ADAMW, communicator)
        rng = draw(np.arange(B) + 10 * communicator.rank)
        loss, pieces = sharded.of_shard(*batch(sharded.model, 0), weight=1, rng=rng)
        return loss, pieces, rng.random((B, 2))

    for one, other in zip(
        on_threads(2, work, STAGE_2), on_threads(2, work, ShardedParameters), strict=True
    ):
        assert one[0] == other[0]
        assert_same_bits(other[1], one[1])
        np.testing.assert_array_equal(one[2], other[2])  # what is drawn next


@pytest.mark.parametrize("shard", [ShardedOptimizer, STAGE_2, ShardedParameters])
def test_an_encoder_decoder_with_one_table_for_all(shard):
    rng = np.random.default_rng(7)
    source, target = rng.integers(9, size=(2, 5, 4))
    lengths = np.array([4, 2, 3, 2, 4])
    arrays = source, np.full(5, 4), target, lengths
    loss, grads = encoder_decoder(shared=True).loss_and_gradients(*arrays)

    def work(communicator):
        sharded = shard(encoder_decoder(shared=True), ADAMW, communicator)
        rows = communicator.bounds(5)[communicator.rank]
        own = [array[rows] for array in arrays]
        found, pieces = sharded.of_shard(*own, weight=(own[3] - 1).sum())
        return found, dict(sharded.whole(pieces))

    for found, gathered in on_threads(3, work):
        assert abs(found - loss) < 1e-12
        assert_close(gathered, grads)


def test_between_uses_the_model_has_no_memory():
    sharded = ShardedParameters(bert(), ADAMW, Communicator())
    shapes = {name: array.shape for name, array in bert().parameters().items()}

    def assert_empty():
        parameters = sharded.model.parameters()
        assert {name: array.shape for name, array in parameters.items()} == shapes
        assert not any(any(array.strides) for array in parameters.values())

    assert_empty()
    train(Communicator(), sharded, steps=1)
    assert_empty()
    ids, *others = batch(sharded.model, 0)
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 10"):
        sharded.of_shard(ids + V, *others, weight=1)
    assert_empty()


def test_a_layer_that_was_used_keeps_its_inputs_alone():
    sharded = ShardedParameters(bert(), ADAMW, Communicator())
    x = np.random.default_rng(8).normal(size=(2, T, 6))
    with sharded.enclosing():
        _, again = sharded.model.encoder.layers[0].forward(x, None)
    assert again.args == (x, None)
    assert not again.keywords
    assert not any(any(a.strides) for a in sharded.model.parameters().values())


@pytest.mark.parametrize("shard", [ShardedOptimizer, ShardedParameters])
def test_an_optimiser_that_needs_whole_matrices_says_so(shard):
    with pytest.raises(ValueError, match=r"expected shape \(D_in, D_out\), got"):
        shard(bert(), Muon, Communicator())


def plain(model, build, communicator):
    """Every rank has everything, and all have their gradients at the same time."""
    optimizer = build(model.parameters())

    def step(*shard):
        _, gradients = model.loss_and_gradients(*shard)
        communicator.barrier()
        optimizer.step(gradients)

    return step


def sharded_by(shard):
    def build_step(model, build, communicator):
        sharded = shard(model, build, communicator)
        return lambda *batch: sharded.optimizer.step(sharded.of_shard(*batch, weight=4)[1])

    return build_step


@pytest.mark.slow
@pytest.mark.equation("eq:zero-memory")
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    "prepare, expected",
    [
        (plain, lambda n: 16),
        (sharded_by(ShardedOptimizer), lambda n: 8 + 8 / n),
        (sharded_by(STAGE_2), lambda n: 4 + 12 / n),
        (sharded_by(ShardedParameters), lambda n: 16 / n),
    ],
    ids=["plain", "ZeRO 1", "ZeRO 2", "ZeRO 3"],
)
def test_the_most_memory_of_a_step_is_that_of_the_formula(size, prepare, expected):
    """All ranks are in one process: its peak over their number, a step of hardly any tokens."""
    ids, masked = np.arange(4)[np.newaxis], np.ones((1, 4), bool)
    spec, stack = LayerSpec(96, 2, 384, "pre"), StackSpec(16, 4, 24)

    def work(communicator):
        model = Bert(spec, stack, np.random.default_rng(0), tied=True)
        count = sum(array.size for array in model.parameters().values())
        step = prepare(model, AdamW, communicator)
        step(ids, ids, masked)
        communicator.barrier()
        if communicator.rank == 0:
            tracemalloc.reset_peak()
        communicator.barrier()
        step(ids, ids, masked)
        communicator.barrier()
        return count

    gc.collect()
    tracemalloc.start()
    try:
        count = on_threads(size, work)[0]
        peak = tracemalloc.get_traced_memory()[1] / count / size
    finally:
        tracemalloc.stop()
    assert expected(size) <= peak < expected(size) + 1


@pytest.mark.slow
@pytest.mark.equation("eq:zero-memory")
def test_to_start_and_to_resume_a_rank_needs_its_pieces_and_single_arrays(tmp_path):
    """Four ranks in one process: its peak from the model that is cut to the first batch."""
    size, ids, peaks = 3, np.arange(4)[np.newaxis], []
    spec, stack = LayerSpec(96, 2, 192, "pre"), StackSpec(16, 4, 16)

    def training(settings, files, communicator, **scheme):
        def batches(first):
            communicator.barrier()
            if communicator.rank == 0:
                peaks.append(tracemalloc.get_traced_memory()[1] / count)
            return repeat((ids, ids, ids >= 0))

        model = Bert(spec, stack, np.random.default_rng(0), tied=True)
        count = sum(array.size for array in model.parameters().values())
        ranks = over_ranks(model, lambda *_: 4, AdamW, communicator, 1, **scheme)
        gc.collect()
        communicator.barrier()
        if communicator.rank == 0:
            tracemalloc.reset_peak()
        communicator.barrier()
        way = ranks.gather, ranks.scatter, model.set_parameters
        return Training(ranks.scheme, ranks.optimizer, batches, lambda *_: 1e-3, tuple, *way)

    defaults = {"learning_rate": 1e-3, "seed": 0, "max_norm": None, "checkpoint_every": 9}
    recipe = Recipe("large", defaults | {"steps": 1}, ("steps",), training)

    def work(communicator, resume):
        train_on_disk(recipe, tmp_path / "run", {}, resume, communicator, {"zero_stage": 3})

    tracemalloc.start()
    try:
        on_threads(size, work, False)
        on_threads(size, work, True)
    finally:
        tracemalloc.stop()
    assert len(peaks) == 2
    for peak in peaks:
        assert 12 <= peak < 12 + 2 * size


@on_mpi
@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_ranks_of_mpi_give_the_bits_of_ranks_as_threads(tmp_path, size):
    processes = on_processes(size, trained_at_stage_3, tmp_path)
    for found, expected in zip(processes, on_threads(size, trained_at_stage_3), strict=True):
        assert_same_bits(found, expected)
