"""The cost of every scheme: its bytes are those that the counters of real runs show."""

import numpy as np
import pytest

from transformer_core.distributed import (
    LocalSteps,
    PipelineBert,
    TensorParallelBert,
    bubble,
    cost,
    on_threads,
    one_forward_one_backward,
)
from transformer_core.distributed.cost import Load, Network, Sizes
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import AdamW
from transformer_core.training import DataParallel

RANKS = [1, 2, 3, 4]
SPEC = LayerSpec(12, AttentionSpec(4, bias=False), 23, "post")
STACK = StackSpec(31, 8, 2)
B, T = 5, 8


def bert():
    return Bert(SPEC, STACK, np.random.default_rng(0))


SIZES = Sizes(
    parameters=sum(array.size for array in bert().parameters().values()),
    layers=STACK.layers,
    width=SPEC.width,
    hidden=SPEC.hidden_width,
    heads=4,
    length=T,
)


def batch():
    rng = np.random.default_rng(1)
    ids, targets = rng.integers(STACK.vocabulary, size=(2, B, T))
    return ids, targets, rng.random((B, T)) < 0.4


def counted(ranks, work):
    """Messages and bytes that all ranks send together."""
    sent = on_threads(ranks, lambda c: work(c) or c.sent)
    every = [traffic for of_rank in sent for traffic in of_rank.values()]
    return Load(ranks, sum(t.messages for t in every), sum(t.bytes for t in every))


def tree(communicator, x):
    """Sum over ranks, a power of 2, by swaps over the distances 1, 2, 4, ..."""
    distance = 1
    while distance < communicator.size:
        other = communicator.rank ^ distance
        x = x + communicator.swap("tree", {other: x}, [other])[other]
        distance *= 2
    return x


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("length", [1, 5, 12])
@pytest.mark.equation("eq:all-reduce")
def test_collectives(ranks, length):
    x = np.ones(length)
    assert counted(ranks, lambda c: c.all_reduce(x) is None) == cost.all_reduce(
        ranks, x.nbytes
    )
    assert counted(ranks, lambda c: c.reduce_scatter(x) is None) == (
        cost.reduce_scatter(ranks, x.nbytes)
    )
    assert counted(ranks, lambda c: c.all_gather(x) is None) == cost.all_gather(
        ranks, ranks * x.nbytes
    )


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_a_tree_sums_in_few_messages(ranks):
    x = np.arange(3.0)

    def work(communicator):
        total = tree(communicator, x * communicator.rank)
        np.testing.assert_array_equal(total, x * sum(range(ranks)))

    assert counted(ranks, work) == cost.tree_all_reduce(ranks, x.nbytes)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.equation("eq:data-parallel")
def test_data_parallel(ranks):
    def work(communicator):
        in_parallel = DataParallel(
            bert().loss_and_gradients, lambda *b: b[2].sum(), 1, communicator
        )
        in_parallel(*batch())

    assert counted(ranks, work) == cost.data_parallel(SIZES, B * T, ranks).load


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.equation("eq:zero-1")
@pytest.mark.equation("eq:zero-2")
@pytest.mark.equation("eq:zero-3")
def test_sharded(ranks, stage):
    def work(communicator):
        if stage == 3:
            sharded = ShardedParameters(bert(), AdamW, communicator)
        else:
            sharded = ShardedOptimizer(bert(), AdamW, communicator, stage)
        _, pieces = sharded.loss_and_gradients(*batch(), weight=1)
        sharded.step(pieces)

    layers = bert().encoder.layers
    of_layers = sum(a.size for layer in layers for a in layer.parameters().values())
    rest = SIZES.parameters - of_layers
    expected = cost.sharded(SIZES, B * T, ranks, stage, rest)
    assert counted(ranks, work) == expected.load


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.equation("eq:megatron-bytes")
def test_tensor_parallel(ranks, sequence):
    ids, targets, masked = batch()

    def work(communicator):
        model = TensorParallelBert(bert(), communicator, sequence=sequence)
        model.loss_and_gradients(ids, targets, masked)

    expected = cost.tensor_parallel(SIZES, B * T, ranks, int(masked.sum()), sequence)
    assert counted(ranks, work) == expected.load


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("batches", [1, 3])
def test_pipeline(stages, batches):
    parts = [tuple(array[j::batches] for array in batch()) for j in range(batches)]

    def work(communicator):
        PipelineBert(bert(), communicator).loss_and_gradients(parts)

    found, expected = (
        counted(stages, work),
        cost.pipeline(SIZES, B * T, stages, batches),
    )
    assert (found.messages, found.bytes) == (
        expected.load.messages,
        expected.load.bytes,
    )


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.equation("eq:local-bytes")
def test_local_steps(ranks):
    def work(communicator):
        LocalSteps(bert().parameters()).meet(communicator)

    per_step = cost.local_steps(SIZES, B * T, ranks, every=4).load
    assert counted(ranks, work) == per_step * 4


def test_what_a_layer_keeps_is_what_its_arrays_hold():
    """The layers' part of what the chapter on cost counts, without cutting."""
    model, (ids, _, masked) = bert(), batch()
    _, cache = model.forward(ids, masked)
    seen = {}

    def hold(value):
        if isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            seen[id(value)] = value.nbytes
        elif hasattr(value, "__iter__"):
            for part in value:
                hold(part)

    hold(cache.encoder.layers)
    parameters = {id(array) for array in model.parameters().values()}
    kept = sum(nbytes for array, nbytes in seen.items() if array not in parameters)
    assert kept == SIZES.kept(B * T)


def test_memory_at_both_ends():
    P = SIZES.parameters
    kept, B_T = SIZES.kept(B * T), B * T
    assert cost.data_parallel(SIZES, B_T, 1).memory == 16 * P + kept
    for stage in (1, 2, 3):
        assert cost.sharded(SIZES, B_T, 1, stage).memory == pytest.approx(16 * P + kept)
    many = [cost.sharded(SIZES, 0, 10**9, stage).memory for stage in (1, 2, 3)]
    assert many == pytest.approx([8 * P, 4 * P, 0], abs=1e-3)
    for sequence in (False, True):
        assert cost.tensor_parallel(SIZES, B_T, 1, None, sequence).memory == (
            16 * P + kept
        )
    cut = cost.tensor_parallel(SIZES, B_T, 4, sequence=True).memory
    assert cut == pytest.approx((16 * P + kept) / 4)
    assert cost.tensor_parallel(SIZES, B_T, 4).memory > cut
    assert cost.local_steps(SIZES, B_T, 4, 10).memory == 24 * P + SIZES.kept(B_T / 4)


@pytest.mark.equation("eq:alpha-beta")
def test_seconds_of_a_ring_are_those_of_its_slowest_rank():
    alpha, beta, N, S = 3.0, 0.5, 4, 64
    load = cost.all_reduce(N, S)
    assert load.seconds(Network(alpha, beta)) == pytest.approx(
        2 * (N - 1) * (alpha + S / N * beta)
    )
    assert cost.all_reduce(1, S).seconds(Network(alpha, beta)) == 0


@pytest.mark.equation("eq:bubble")
def test_the_bubble_is_counted_in_the_work():
    p, m = 4, 6
    assert cost.bubble(p, m) == 3 / 9
    assert cost.bubble(1, m) == 0
    piped = cost.pipeline(SIZES, B * T, p, m)
    assert piped.work == pytest.approx((m + p - 1) / m / p)
    one_boundary = 2 * m * (1 + B * T / m * SIZES.width * 4 * 0.25)
    loss = 1 + 8 * 0.25
    assert piped.load.seconds(Network(1, 0.25)) == pytest.approx(one_boundary + loss)
    assert cost.bubble(p, m) == float(bubble(one_forward_one_backward(p, m)))
    assert cost.pipeline(SIZES, B * T, 1, m).load.seconds(Network(1, 1)) == 0


@pytest.mark.equation("eq:alpha-beta")
def test_a_step_computes_and_sends():
    step = cost.data_parallel(SIZES, B * T, 4)
    network = Network(1e-3, 1e-6)
    assert step.seconds(8e9, 1e9, network) == 2 + step.load.seconds(network)


def test_the_fit_finds_what_made_the_times():
    network = Network(2e-5, 3e-10)
    loads = [cost.all_reduce(n, 10**k) for n in (2, 4) for k in (1, 4, 7)]
    found = cost.fit(loads, [load.seconds(network) for load in loads])
    assert found == pytest.approx(network, rel=1e-9)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"^stage: expected 1, 2 or 3, got 4"):
        cost.sharded(SIZES, 8, 2, stage=4)
    with pytest.raises(ValueError, match=r"^ranks: expected"):
        cost.all_reduce(0, 8)
    with pytest.raises(ValueError, match=r"^every: expected"):
        cost.local_steps(SIZES, 8, 2, every=0)
    with pytest.raises(ValueError, match=r"^seconds: expected one a load"):
        cost.fit([cost.all_reduce(2, 8)], [1.0])
