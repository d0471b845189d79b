"""The cost of every scheme: its bytes are those that the counters of real runs show."""

from functools import partial

import numpy as np
import pytest

from transformer_core.distributed import (
    DataParallel,
    LocalSteps,
    PipelineBert,
    TensorParallelBert,
    bubble,
    cost,
    one_forward_one_backward,
)
from transformer_core.distributed.cost import Load, Network, Sizes
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import AdamW
from transformer_core.ranks import Communicator, on_threads

RANKS = [1, 2, 3, pytest.param(4, marks=pytest.mark.thorough)]
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

    def counting(communicator):
        work(communicator)
        return communicator.sent.values()

    every = [traffic for of_rank in on_threads(ranks, counting) for traffic in of_rank]
    return Load(ranks, sum(t.messages for t in every), sum(t.bytes for t in every))


def assert_sums(way, ranks, length, load):
    """A way to sum over ranks does so, and sends what its formula says."""
    x = np.arange(float(length))

    def work(communicator):
        total = way(communicator, x * 10.0**communicator.rank)
        np.testing.assert_array_equal(total, x * int("1" * ranks))

    assert counted(ranks, work) == load(ranks, x.nbytes)


def doubled(communicator, x):
    """Sum over any number of ranks: ``before`` is the sum over so many ranks before this one."""
    rank, size = communicator.rank, communicator.size
    before, many = np.zeros_like(x), 0
    for digit in f"{size - 1:b}" if size > 1 else "":
        # A 1 takes one rank more than twice as many: with the sender's own array.
        distance = many + (digit == "1")
        sent = before + x if digit == "1" else before
        to, source = (rank + distance) % size, (rank - distance) % size
        before = before + communicator.swap("doubling", {to: sent}, [source])[source]
        many = 2 * many + (digit == "1")
    assert many == size - 1
    return before + x


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("length", [1, 5, 12])
@pytest.mark.equation("eq:all-reduce")
def test_collectives(ranks, length):
    x = np.ones(length)
    all_gather = cost.all_gather(ranks, ranks * x.nbytes)
    assert counted(ranks, lambda c: c.all_reduce(x)) == cost.all_reduce(ranks, x.nbytes)
    assert counted(ranks, lambda c: c.reduce_scatter(x)) == cost.reduce_scatter(ranks, x.nbytes)
    assert counted(ranks, lambda c: c.all_gather(x)) == all_gather


@pytest.mark.parametrize("ranks", range(1, 10))
def test_doubling_sums_in_few_messages(ranks):
    assert_sums(doubled, ranks, 3, cost.recursive_doubling)


def halved(communicator, x):
    """Sum over a power of 2 of ranks: halves, quarters, ... are exchanged, then joined again."""
    total, low, high = x.copy(), 0, len(x)
    distances = [2**k for k in range(communicator.size.bit_length() - 1)]
    spans = []
    for distance in reversed(distances):
        spans.append((low, high))
        partner, middle = communicator.rank ^ distance, (low + high) // 2
        mine, other = (low, middle), (middle, high)
        if communicator.rank & distance:
            mine, other = other, mine
        sent = {partner: total[slice(*other)]}
        total[slice(*mine)] += communicator.swap("halving", sent, [partner])[partner]
        low, high = mine
    for distance in distances:
        partner, (first, last) = communicator.rank ^ distance, spans.pop()
        other = (first, low) if low > first else (high, last)
        sent = {partner: total[low:high]}
        total[slice(*other)] = communicator.swap("doubling", sent, [partner])[partner]
        low, high = first, last
    return total


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.equation("eq:halving-doubling-seconds")
def test_halving_and_doubling_has_few_messages_and_few_bytes(ranks):
    assert_sums(halved, ranks, 16, cost.halving_doubling)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.equation("eq:data-parallel")
def test_data_parallel(ranks):
    def work(communicator):
        in_parallel = DataParallel(bert(), lambda *b: b[2].sum(), 1, communicator)
        in_parallel.loss_and_gradients(*batch())

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
        _, pieces = sharded.of_shard(*batch(), weight=1)
        sharded.optimizer.step(pieces)

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
        PipelineBert(bert(), communicator).in_micro_batches(parts)

    found, expected = (counted(stages, work), cost.pipeline(SIZES, B * T, stages, batches))
    assert (found.messages, found.bytes) == (expected.load.messages, expected.load.bytes)


@pytest.mark.equation("eq:pipeline-recompute")
def test_a_pipeline_that_runs_its_passes_again_keeps_one_cache_and_inputs():
    once, again = (cost.pipeline(SIZES, B * T, 2, 4, recompute) for recompute in (False, True))
    assert again.load == once.load and again.work == pytest.approx(4 / 3 * once.work)
    one_cache, one_input = SIZES.kept(B * T) / 8, 4 * B * T * SIZES.width / 4
    assert once.memory - again.memory == pytest.approx(one_cache - one_input)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.equation("eq:local-bytes")
def test_local_steps(ranks):
    def work(communicator):
        LocalSteps(bert().parameters()).meet(communicator)

    per_step = cost.local_steps(SIZES, B * T, ranks, every=4).load
    assert counted(ranks, work) == per_step * 4


def kept_by(caches, parameters):
    """The bytes that caches hold, each array once, without the parameters."""
    seen = {}

    def hold(value):
        if isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            seen[id(value)] = value.nbytes
        elif isinstance(value, partial):
            hold(value.args)
        elif hasattr(value, "__iter__"):
            for part in value:
                hold(part)

    hold(caches)
    own = {id(array) for array in parameters.values()}
    return sum(nbytes for array, nbytes in seen.items() if array not in own)


def test_what_a_layer_keeps_is_what_its_arrays_hold():
    """The layers' part of what the chapter on cost counts, without cutting."""
    model, (ids, _, masked) = bert(), batch()
    _, cache = model.forward(ids, masked)
    assert kept_by(cache.encoder.layers, model.parameters()) == SIZES.kept(B * T)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.equation("eq:cost-activations")
def test_what_a_cut_layer_keeps_is_what_its_arrays_hold(ranks, sequence):
    """All ranks together: the hidden widths of one rank and another differ by one."""
    ids, _, masked = batch()

    def work(communicator):
        model = TensorParallelBert(bert(), communicator, sequence)
        _, cache = model.forward(ids, masked)
        communicator.barrier()
        encoder = getattr(cache.encoder, "encoder", cache.encoder)
        return kept_by(encoder.layers, model.parameters())

    found = sum(on_threads(ranks, work))
    norms = ranks if sequence else 1
    assert found == pytest.approx(ranks * SIZES.kept(B * T, norms, ranks), rel=1e-12)


def test_stage_3_keeps_the_inputs_of_its_layers_and_computes_them_again():
    ids, _, masked = batch()
    sharded = ShardedParameters(bert(), AdamW, Communicator())
    with sharded.gathered("", sharded.model), sharded.enclosing():
        _, cache = sharded.model.forward(ids, masked)
        found = kept_by(cache.encoder.layers, {})
    assert found == 4 * B * T * SIZES.width * SIZES.layers
    model, P = cost.sharded(SIZES, B * T, 1, 3), SIZES.parameters
    borrowed = 8 * P / SIZES.layers
    assert model.memory == pytest.approx(
        16 * P + found + SIZES.kept(B * T) / SIZES.layers + borrowed
    )
    assert model.work == 4 / 3


def test_memory_at_both_ends():
    P = SIZES.parameters
    kept, B_T = SIZES.kept(B * T), B * T
    assert cost.data_parallel(SIZES, B_T, 1).memory == 16 * P + kept
    for stage in (1, 2):
        assert cost.sharded(SIZES, B_T, 1, stage).memory == pytest.approx(16 * P + kept)
    many = [cost.sharded(SIZES, 0, 10**9, stage).memory for stage in (1, 2, 3)]
    borrowed = 8 * P / SIZES.layers  # of one layer at a time
    assert many == pytest.approx([8 * P, 4 * P, borrowed], abs=1e-3)
    for sequence in (False, True):
        assert cost.tensor_parallel(SIZES, B_T, 1, None, sequence).memory == (16 * P + kept)
    cut = cost.tensor_parallel(SIZES, B_T, 4, sequence=True).memory
    inputs = 4 * B_T * SIZES.layers * 2 * SIZES.width
    assert cut == pytest.approx((16 * P + kept - inputs) / 4 + inputs)
    assert cost.tensor_parallel(SIZES, B_T, 4).memory > cut
    assert cost.local_steps(SIZES, B_T, 4, 10).memory == 24 * P + SIZES.kept(B_T / 4)
    mixed = SIZES._replace(item=2)
    many = [cost.sharded(mixed, 0, 10**9, stage).memory for stage in (1, 2, 3)]
    assert many == pytest.approx([4 * P, 2 * P, borrowed / 2], abs=1e-3)
    of_layers = [sizes.kept(1) / sizes.layers for sizes in (SIZES, mixed)]
    assert 2 * of_layers[1] - of_layers[0] == SIZES.hidden  # a byte says which side of 0


@pytest.mark.equation("eq:alpha-beta")
def test_seconds_of_a_ring_are_those_of_its_slowest_rank():
    alpha, beta, N, S = 3.0, 0.5, 4, 64
    load = cost.all_reduce(N, S)
    assert load.seconds(Network(alpha, beta)) == pytest.approx(2 * (N - 1) * (alpha + S / N * beta))
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


def test_errors_in_long_messages_do_not_hide_the_latency():
    network = Network(2e-5, 3e-10)
    loads = [cost.all_reduce(2, 10**k) for k in range(1, 9)]
    seconds = [load.seconds(network) for load in loads]
    seconds[-2:] = 1.4 * seconds[-2], 1.1 * seconds[-1]
    assert cost.fit(loads, seconds).alpha == pytest.approx(2e-5, rel=0.2)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"^stage: expected 1, 2 or 3, got 4"):
        cost.sharded(SIZES, 8, 2, stage=4)
    with pytest.raises(ValueError, match=r"^ranks: expected"):
        cost.all_reduce(0, 8)
    with pytest.raises(ValueError, match=r"^ranks: expected a power of 2, got 6"):
        cost.halving_doubling(6, 8)
    with pytest.raises(ValueError, match=r"^every: expected"):
        cost.local_steps(SIZES, 8, 2, every=0)
    with pytest.raises(ValueError, match=r"^seconds: expected one a load"):
        cost.fit([cost.all_reduce(2, 8)], [1.0])
