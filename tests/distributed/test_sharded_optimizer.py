"""ZeRO 1 and 2: the same training as one process alone, and what it sends and holds."""

from functools import partial

import numpy as np
import pytest
from helpers.sharding import (
    ADAMW,
    SIZES,
    STEPS,
    VARIANTS,
    alone,
    assert_close,
    assert_equal_to_one_process,
    batch,
    bert,
    bytes_of,
    encoder_decoder,
    gradients,
    masked_tokens,
    part,
    sent_in_one_step,
    train,
    trained,
)
from helpers.witnesses import assert_same_bits

from transformer_core.distributed import DataParallel
from transformer_core.distributed.sharded_optimizer import Bucket, ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.models import greedy_search
from transformer_core.ranks import Communicator, flatten, on_threads, unflatten
from transformer_core.training import Run
from transformer_core.training import train as loop

ZERO_1, ZERO_2 = (partial(ShardedOptimizer, stage=stage) for stage in (1, 2))
STAGES = [
    pytest.param(ZERO_1, marks=pytest.mark.equation("eq:zero-1"), id="1"),
    pytest.param(ZERO_2, marks=pytest.mark.equation("eq:zero-2"), id="2"),
]
every_stage = pytest.mark.parametrize("shard", STAGES)
every_scheme = pytest.mark.parametrize("shard", [ZERO_1, ZERO_2, ShardedParameters])
every_size = pytest.mark.parametrize("size", SIZES)


@pytest.mark.slow
@every_stage
@every_size
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_training_is_that_of_one_process(size, shard, variant):
    assert_equal_to_one_process(size, shard, variant)


@every_stage
def test_the_training_is_that_of_one_process_without_clipping(shard):
    assert_equal_to_one_process(3, shard, VARIANTS["everything"], None)


def plain_data_parallel(communicator):
    """Every rank with the whole optimiser, on gradients that all of them have summed."""
    model = bert()
    optimizer = ADAMW(model.parameters())
    for step in range(STEPS):
        shard, weight = part(batch(model, step), communicator)
        total = float(communicator.all_reduce(np.array([float(weight)]))[0])
        _, grads = model.loss_and_gradients(*shard)
        summed = communicator.all_reduce(flatten(grads) * (weight / total))
        optimizer.step(unflatten(summed, grads))
    return optimizer.parameters, optimizer.state()


@every_stage
@every_size
def test_without_clipping_the_bits_are_those_of_plain_data_parallel(size, shard):
    for plain, (_, parameters, optimizer) in zip(
        on_threads(size, plain_data_parallel), trained(size, shard, max_norm=None), strict=True
    ):
        assert_same_bits(parameters, plain[0])
        assert_same_bits(optimizer.state(), plain[1])


@every_size
def test_the_gradient_is_that_of_data_parallel(size):
    model = bert()

    def work(communicator):
        step = DataParallel(model, masked_tokens, communicator=communicator)
        loss, grads = step.loss_and_gradients(*batch(model, 0))
        sharded = ZERO_1(bert(), ADAMW, communicator)
        own_loss, pieces = gradients(communicator, sharded)
        assert abs(own_loss - loss) < 1e-13
        assert_close(pieces, sharded.cut(grads), 1e-13)

    on_threads(size, work)


@every_stage
@every_size
def test_a_step_sends_a_reduce_scatter_and_an_all_gather(size, shard):
    whole, _ = bytes_of(bert().parameters())
    sent = sent_in_one_step(size, shard)
    for traffic, own in sent:
        assert traffic["reduce_scatter"] == whole - own
        assert traffic["all_gather"] == (size - 1) * own
        for name in ("weight", "loss", "norm"):
            assert traffic[name] == 8 * (size - 1)
    moved = sum(t["reduce_scatter"] + t["all_gather"] for t, _ in sent)
    assert moved == 2 * (size - 1) * whole
    assert sum(own for _, own in sent) == whole


@every_size
@pytest.mark.equation("eq:global-norm-sharded")
def test_the_norm_is_that_of_the_whole_gradient(size):
    model = bert()
    _, grads = model.loss_and_gradients(*batch(model, 0))
    expected = np.linalg.norm(flatten(grads))

    def work(communicator):
        sharded = ZERO_1(bert(), ADAMW, communicator)
        return sharded.norm(gradients(communicator, sharded)[1])

    norms = on_threads(size, work)
    assert len(set(norms)) == 1
    assert abs(norms[0] - expected) < 1e-13 * expected


@pytest.mark.slow
@every_scheme
@pytest.mark.parametrize("before, after", [(3, 1), (1, 4), (2, 3), (3, 3)])
def test_what_some_ranks_saved_others_can_load(shard, before, after):
    def first(communicator):
        sharded = shard(bert(), ADAMW, communicator)
        train(communicator, sharded, steps=2)
        return sharded.gather()

    parameters, saved = on_threads(before, first)[0]

    def second(communicator):
        sharded = shard(bert(), ADAMW, communicator)
        sharded.scatter(parameters, saved)
        train(communicator, sharded, first=2)
        return sharded.gather()

    _, uninterrupted, optimizer = alone(bert())
    for own, state in on_threads(after, second):
        assert_close(own, uninterrupted)
        assert_close(state.state(), optimizer.state())
        assert state.steps == STEPS
    if before == after:
        never_stopped = trained(before, shard)[0]
        assert_same_bits(own, never_stopped[1])
        assert_same_bits(state.state(), never_stopped[2].state())


@every_scheme
def test_a_checkpoint_on_disk_is_that_of_one_process(tmp_path, shard):
    run = Run(tmp_path)

    def save(communicator):
        sharded = shard(bert(), ADAMW, communicator)
        train(communicator, sharded, steps=2)
        gathered = sharded.gather()
        if communicator.rank == 0:
            run.save_checkpoint(*gathered)

    def go_on(communicator):
        sharded = shard(bert(), ADAMW, communicator)
        gathered = sharded.gather()
        run.load_checkpoint(*gathered)
        sharded.scatter(*gathered)
        train(communicator, sharded, first=2)
        return sharded.gather()[0]

    on_threads(3, save)
    model = bert()
    run.load_checkpoint(model.parameters(), alone(model, steps=0)[2])
    assert_close(model.parameters(), alone(bert(), steps=2)[1])
    assert_close(on_threads(2, go_on)[0], alone(bert())[1])


@every_scheme
def test_what_is_gathered_is_a_copy(shard):
    sharded = shard(bert(), ADAMW, Communicator())
    parameters, optimizer = sharded.gather()
    before = {name: array.copy() for name, array in (parameters | optimizer.state()).items()}
    train(Communicator(), sharded, steps=1)
    assert_same_bits(parameters | optimizer.state(), before)


@every_stage
def test_every_rank_has_the_same_model_after_a_step(shard):
    def work(communicator):
        sharded = shard(bert(), ADAMW, communicator)
        train(communicator, sharded)
        return sharded.model.parameters()

    first, *others = on_threads(3, work)
    for other in others:
        assert_same_bits(other, first)


def test_stage_2_never_has_the_whole_gradient():
    def work(communicator):
        sharded = ZERO_2(bert(), ADAMW, communicator)
        seen = []
        whole = sharded.model.loss_and_gradients

        def spied(*shard):
            loss, grads = whole(*shard)
            seen.append({name: grad.size for name, grad in grads.items()})
            return loss, grads

        sharded.model.loss_and_gradients = spied
        train(communicator, sharded, steps=1)
        return seen[0]

    sizes = {name: array.size for name, array in bert().parameters().items()}
    layers = [name for name in sizes if ".layer_" in name]
    found = on_threads(3, work)
    for name in layers:
        assert sum(own.get(name, 0) for own in found) == sizes[name]


def test_a_rank_may_have_no_part_of_a_bucket():
    arrays = {"a": np.arange(2.0), "b": np.ones(())}

    def work(communicator):
        bucket = Bucket(arrays, communicator)
        pieces = bucket.reduce_scatter(arrays, 0.25)
        return bucket.spans, bucket.all_gather(pieces)

    found = on_threads(4, work)
    assert [list(spans) for spans, _ in found] == [[], ["a"], ["a"], ["b"]]
    for _, whole in found:
        assert_same_bits(whole, arrays)


@every_size
def test_gathering_a_bucket_is_the_adjoint_of_reducing_it(size):
    rng = np.random.default_rng(9)
    like = {"a": np.empty((3, 2)), "b": np.empty(5)}
    x, y = rng.normal(size=11), rng.normal(size=(size, 11))

    def work(communicator):
        bucket, mine = Bucket(like, communicator), unflatten(y[communicator.rank], like)
        own = x[communicator.bounds(11)[communicator.rank]]
        ends = np.cumsum([span.stop - span.start for span in bucket.spans.values()])
        pieces = dict(zip(bucket.spans, np.split(own, ends[:-1]), strict=True))
        whole, reduced = bucket.all_gather(pieces), bucket.reduce_scatter(mine, 1)
        return (
            sum((whole[name] * mine[name]).sum() for name in like),
            sum((pieces[name] * reduced[name]).sum() for name in pieces),
        )

    forwards, backwards = np.sum(on_threads(size, work), axis=0)
    assert abs(forwards - backwards) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@every_scheme
def test_the_loop_trains_it_as_it_is_to_the_numbers_of_one_process(shard, dropout):
    """Clipped, with a schedule, and with what one process drops of each sequence."""
    variant = VARIANTS["everything"] | {"dropout": dropout}

    def trained_by_the_loop(model, optimizer):
        batches = (batch(bert(variant), step) for step in range(STEPS))
        options = {"schedule": lambda step: 1e-3 * step, "max_norm": 0.5, "progress": False}
        return [record["loss"] for record in loop(model, optimizer, batches, STEPS, **options)]

    def work(communicator):
        sharded = shard(bert(variant), ADAMW, communicator, weight=masked_tokens)
        losses = trained_by_the_loop(sharded, sharded.optimizer)
        return losses, sharded.gather()[0]

    model = bert(variant)
    alone = DataParallel(model, masked_tokens, threads=1)
    expected = trained_by_the_loop(alone, ADAMW(alone.parameters))
    for size in (1, 2, 4):
        for losses, parameters in on_threads(size, work):
            np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-12)
            assert_close(parameters, model.parameters())


def test_a_batch_is_cut_by_what_counts_its_tokens():
    sharded = ZERO_1(bert(), ADAMW, Communicator())
    with pytest.raises(ValueError, match="weight: expected a function that counts the tokens"):
        sharded.loss_and_gradients(*batch(sharded.model, 0))


@every_scheme
def test_a_model_can_be_decoded_while_it_is_trained(shard):
    """With the words of one process; where the parameters are cut, in the context alone."""
    source, target = np.random.default_rng(7).integers(9, size=(2, 5, 4))
    lengths = np.full(5, 4)

    def decoded(model):
        return greedy_search(model, source, lengths, start=1, end=2, longest=5)[0]

    def work(communicator):
        sharded = shard(encoder_decoder(), ADAMW, communicator, weight=lambda *_: 1)
        _, grads = sharded.loss_and_gradients(source, lengths, target, lengths)
        sharded.optimizer.step(grads)
        if shard is ShardedParameters:
            with pytest.raises(ValueError, match="parameters: expected the numbers, got their"):
                decoded(sharded.model)
        with sharded.whole_model():
            return decoded(sharded.model)

    model = encoder_decoder()
    optimizer = ADAMW(model.parameters())
    optimizer.step(model.loss_and_gradients(source, lengths, target, lengths)[1])
    for found in on_threads(2, work):
        np.testing.assert_array_equal(found, decoded(model))


@every_scheme
def test_one_rank_alone_gathers_the_arrays_that_it_saves(shard):
    def work(communicator):
        sharded = shard(bert(), ADAMW, communicator)
        train(communicator, sharded, steps=1)
        pieces = sharded.optimizer.averages["first_moment"]
        joined = {n: sharded.join_array(n, pieces.get(n)) for n in sharded.model.parameters()}
        return joined, sharded.gather()[1].averages["first_moment"]

    (first, expected), *others = on_threads(3, work)
    assert_same_bits(first, expected)
    assert all(array is None for joined, _ in others for array in joined.values())


def test_a_gradient_that_is_not_finite_stops_every_rank():
    def work(communicator):
        sharded = ZERO_1(bert(), ADAMW, communicator)
        _, grads = gradients(communicator, sharded)
        if communicator.rank == 1:
            next(iter(grads.values()))[:] = np.nan
        before = flatten(sharded.model.parameters())
        with pytest.raises(ValueError, match="expected a finite norm, got the squares"):
            sharded.optimizer.step(grads)
        np.testing.assert_array_equal(flatten(sharded.model.parameters()), before)

    on_threads(2, work)


@pytest.mark.parametrize("weights", [(0, 0), (3, -1), (np.inf, 1), (np.nan, 1)])
def test_weights_that_do_not_hold_stop_every_rank(weights):
    def work(communicator):
        sharded = ZERO_1(bert(), ADAMW, communicator)
        shard = batch(sharded.model, 0)
        with pytest.raises(ValueError, match="weight: expected counted tokens"):
            sharded.of_shard(*shard, weight=weights[communicator.rank])

    on_threads(2, work)


def test_there_is_no_other_stage():
    with pytest.raises(ValueError, match="stage: expected 1 or 2, got 3"):
        ShardedOptimizer(bert(), ADAMW, Communicator(), stage=3)


def test_parameters_have_to_lie_in_order():
    model = bert()
    model.tokens.table = np.asfortranarray(model.tokens.table)
    with pytest.raises(ValueError, match="tokens.table: expected numbers in the order"):
        ShardedOptimizer(model, ADAMW, Communicator())
