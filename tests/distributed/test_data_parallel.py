from threading import Barrier, Event, Thread, get_ident
from time import monotonic, sleep

import numpy as np
import pytest
from helpers.blas import blas_threads
from helpers.cases import split_variant
from helpers.witnesses import generators, randomise
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from transformer_core.distributed import DataParallel
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import causal_keep
from transformer_core.optim import Adam, AdamW
from transformer_core.ranks import on_threads
from transformer_core.training.blas import ONE_BLAS_THREAD

B, T, V = 5, 4, 11
LONG = 60_000  # entries: more than one block


def counted(ids, targets, masked, *others):
    return masked.sum()


def bert(rng, dtype=np.float64, length=T, **variant):
    spec, others = split_variant(6, 2, 7, variant, "post", dtype)
    return randomise(Bert(spec, StackSpec(V, length, 1), rng, **others), rng)


def draw(rng, counts=(1, 4, 0, 2, 3)):
    """Draw a batch, each sequence of which counts another number of tokens."""
    masked = np.arange(T) < np.array(counts)[:, np.newaxis]
    shape = masked.shape
    return rng.integers(V, size=shape), rng.integers(V, size=shape), masked


def assert_close(left, right, rtol=1e-10, atol=1e-13):
    """Compare losses and gradients."""
    (left_loss, left_grads), (right_loss, right_grads) = left, right
    assert np.allclose(left_loss, right_loss, rtol, atol)
    assert left_grads.keys() == right_grads.keys()
    for name, grad in left_grads.items():
        assert np.allclose(grad, right_grads[name], rtol, atol), name


def assert_same(left, right):
    assert_close(left, right, 0, 0)


@pytest.mark.thorough
@pytest.mark.equation("eq:accumulation")
@given(generators, st.integers(1, 8))
def test_shards_make_up_the_whole_batch(rng, threads):
    model, batch = bert(rng), draw(rng)
    parallel = DataParallel(model, counted, threads)
    whole = model.loss_and_gradients(*batch)
    assert_close(parallel.loss_and_gradients(*batch), whole)


def test_one_thread_does_what_the_model_does(rng):
    model, batch = bert(rng), draw(rng)
    parallel = DataParallel(model, counted, threads=1)
    assert_same(parallel.loss_and_gradients(*batch), model.loss_and_gradients(*batch))


def test_the_same_threads_give_the_same_digits(rng):
    model, batch = bert(rng, np.float32), draw(rng)
    parallel = DataParallel(model, counted)
    assert_same(parallel.loss_and_gradients(*batch), parallel.loss_and_gradients(*batch))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_and_the_batch_not_modified(rng, dtype):
    model, batch = bert(rng, dtype), draw(rng)
    copies = [array.copy() for array in batch]
    _, grads = DataParallel(model, counted).loss_and_gradients(*batch)
    assert {grad.dtype for grad in grads.values()} == {np.dtype(dtype)}
    assert all(map(np.array_equal, batch, copies))


def test_every_array_is_cut_and_none_is_passed_on(rng):
    model, batch = bert(rng, segments=2), draw(rng)
    keep = np.arange(T) < np.array([4, 4, 2, 3, 4])[:, None, None, None]
    segments = rng.integers(2, size=(B, T))
    parallel = DataParallel(model, counted)
    for others in ((keep, segments), (None, segments)):
        whole = model.loss_and_gradients(*batch, *others)
        assert_close(parallel.loss_and_gradients(*batch, *others), whole)


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_a_mask_of_all_sequences_goes_whole_to_every_shard(rng, batch):
    """With as many sequences as positions, too."""
    model = bert(rng, length=batch)
    ids, targets = (rng.integers(V, size=(batch, batch)) for _ in range(2))
    inputs = ids, targets, np.ones((batch, batch), bool)
    keep = causal_keep(batch)
    parallel = DataParallel(model, counted, batch)
    whole = model.loss_and_gradients(*inputs, keep)
    assert_close(parallel.loss_and_gradients(*inputs, keep[np.newaxis, np.newaxis]), whole)
    message = r"keep: expected shape \(B or 1, H or 1, T or 1, S\), got"
    with pytest.raises(ValueError, match=message):
        parallel.loss_and_gradients(*inputs, keep)


def test_shards_are_of_equal_length_and_in_order():
    seen = []

    def loss_and_gradients(x):
        seen.append(x.tolist())
        return 0.0, {"w": np.zeros(1)}

    DataParallel(loss_and_gradients, len, 3).loss_and_gradients(np.arange(8))
    assert sorted(seen) == [[0, 1, 2], [3, 4], [5, 6, 7]]


def test_a_shard_without_counted_tokens_is_left_out(rng):
    model, batch = bert(rng), draw(rng, counts=(2, 3, 0, 0))
    whole = model.loss_and_gradients(*batch)
    parallel = DataParallel(model, counted, 2)
    assert_close(parallel.loss_and_gradients(*batch), whole)


def test_dropout_is_drawn_anew_for_each_sequence_and_reproducible(rng):
    model, batch = bert(rng, dropout=0.3), draw(rng)
    twice = [np.concatenate([array, array]) for array in batch]
    parallel = DataParallel(model, counted)

    def loss(generator):
        return parallel.loss_and_gradients(*twice, rng=generator)[0]

    one, same, other = (loss(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == same != other
    generator, resumed = np.random.default_rng(1), np.random.default_rng(7)
    first, second = loss(generator), loss(generator)
    resumed.bit_generator.state = generator.bit_generator.state
    third, third_resumed = loss(generator), loss(resumed)
    assert first == one and second != first
    assert third_resumed == third


def test_however_a_batch_is_cut_the_same_is_dropped(rng):
    model, batch = bert(rng, dropout=0.3), draw(rng)
    results = [
        DataParallel(model, counted, threads).loss_and_gradients(
            *batch, rng=np.random.default_rng(1)
        )
        for threads in range(1, B + 1)
    ]
    for result in results[1:]:
        assert_close(result, results[0])


def test_each_sequence_draws_from_a_generator_of_its_own():
    def loss_and_gradients(x, rng):
        return 0.0, {f"{x[0]:g}": rng.random((len(x), 2, 3), np.float32)}

    seeds = np.random.default_rng(1).integers(2**63, size=4)
    expected = [np.random.default_rng(s).random((2, 3), np.float32) for s in seeds]
    parallel = DataParallel(loss_and_gradients, len, 1)
    _, grads = parallel.loss_and_gradients(np.arange(4.0), rng=np.random.default_rng(1))
    assert np.array_equal(grads["0"], expected)
    assert len(np.unique(grads["0"])) == 24


# Ranks


@pytest.mark.equation("eq:data-parallel")
@given(generators, st.integers(1, 4), st.integers(1, 3))
def test_ranks_make_up_the_whole_batch(rng, ranks, threads):
    model, batch = bert(rng), draw(rng)
    whole = model.loss_and_gradients(*batch)
    for result in on_ranks(ranks, model, batch, threads):
        assert_close(result, whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "ranks",
    [pytest.param(n, marks=pytest.mark.thorough if n in (2, 4) else []) for n in range(1, B + 2)],
)
def test_ranks_give_the_bits_of_as_many_threads(rng, ranks, dtype):
    model = bert(rng, dtype, dropout=0.3)
    batch = draw(rng, counts=(0, 0, 3, 0, 1))
    threads = DataParallel(model, counted, ranks)
    expected = threads.loss_and_gradients(*batch, rng=np.random.default_rng(3))
    for found in on_ranks(ranks, model, batch, seed=3):
        assert_same(found, expected)


def on_ranks(ranks, model, batch, threads=1, seed=None):
    """What each rank returns for a batch."""

    def work(communicator):
        parallel = DataParallel(model, counted, threads, communicator)
        return parallel.loss_and_gradients(*batch, rng=seed and np.random.default_rng(seed))

    return on_threads(ranks, work)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_send_twice_the_pieces_of_the_others(rng, ranks):
    model, batch = bert(rng), draw(rng)
    octets = sum(array.nbytes for array in model.parameters().values())

    def work(communicator):
        DataParallel(model, counted, 1, communicator).loss_and_gradients(*batch)
        return communicator.sent

    sent = on_threads(ranks, work)
    figures = 16 * ranks * (ranks - 1)
    assert sum(s["reduce_scatter"].bytes for s in sent) == (ranks - 1) * octets
    assert sum(s["all_gather"].bytes for s in sent) == (ranks - 1) * octets + figures


def test_nothing_counted_is_named_on_every_rank(rng):
    with pytest.raises(ValueError, match="parts: expected at least one counted token"):
        on_ranks(2, bert(rng), draw(rng, counts=(0, 0)))


def test_an_error_of_one_rank_comes_out(rng):
    batch = draw(rng)
    batch[0][-1] = V
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 10, got 11"):
        on_ranks(2, bert(rng), batch)


def test_training_is_the_same_with_and_without_threads(rng):
    """The common norm alone is summed in another order; the shards are, too."""
    batches = [draw(rng) for _ in range(3)]
    left, right = bert(np.random.default_rng(1)), bert(np.random.default_rng(1))
    parallel = DataParallel(left, counted)
    one = AdamW(left.parameters(), 0.01, map=parallel.map)
    other = AdamW(right.parameters(), 0.01)
    for batch in batches:
        _, grads = parallel.loss_and_gradients(*batch)
        one.step(grads, max_norm=0.1)
        _, grads = right.loss_and_gradients(*batch)
        other.step(grads, max_norm=0.1)
    for name, array in left.parameters().items():
        assert np.allclose(array, right.parameters()[name], rtol=1e-7, atol=1e-9), name


def test_an_optimiser_takes_the_same_step_with_and_without_threads(rng):
    parameters = {"w": rng.normal(size=(LONG // 100, 100)), "b": rng.normal(size=3)}
    copies = {name: array.copy() for name, array in parameters.items()}
    one, other = Adam(parameters, map=DataParallel(None, None, 3).map), Adam(copies)
    for _ in range(3):
        grads = {name: rng.normal(size=array.shape) for name, array in copies.items()}
        one.step(grads)
        other.step(grads)
    assert all(np.array_equal(parameters[name], copies[name]) for name in copies)


# map


def test_map_is_spread_over_threads_and_keeps_the_order():
    parallel = DataParallel(None, None, 3)
    assert parallel.map(lambda a, b: 10 * a + b, range(8), range(8)) == [11 * i for i in range(8)]
    assert parallel.map(str, []) == []
    together = Barrier(3, timeout=60)
    threads = parallel.map(lambda _: (together.wait(), get_ident())[1], range(3))
    assert get_ident() in threads and len(set(threads)) == 3


def test_a_map_inside_a_map_comes_to_its_end():
    parallel = DataParallel(None, None, 2)
    inner = parallel.map(lambda i: parallel.map(lambda j: 10 * i + j, range(3)), range(4))
    assert inner == [[10 * i + j for j in range(3)] for i in range(4)]


def test_blas_is_held_to_one_thread_meanwhile():
    parallel = DataParallel(None, None, 2)
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        inside = parallel.map(lambda _: blas_threads(), range(4))
        assert all(count <= {1} for count in inside)
        assert blas_threads() == before


def test_blas_gets_its_threads_back_when_the_last_of_several_maps_ends():
    left, right = Event(), Event()
    one, other = DataParallel(None, None, 2), DataParallel(None, None, 2)
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        first, second = (
            Thread(target=parallel.map, args=(lambda event: event.wait(60), [event]))
            for parallel, event in ((one, left), (other, right))
        )
        first.start()
        second.start()
        end = monotonic() + 60
        while ONE_BLAS_THREAD.inside < 2:
            assert monotonic() < end
            sleep(0.001)
        left.set()
        first.join()
        held = blas_threads()
        right.set()
        second.join()
        assert held <= {1} and blas_threads() == before
        with pytest.raises(ZeroDivisionError):
            one.map(lambda x: 1 / x, [0, 0, 0])
        assert blas_threads() == before and ONE_BLAS_THREAD.inside == 0


def test_what_numpy_says_about_overflow_holds_in_every_thread():
    parallel = DataParallel(None, None, 2)
    together = Barrier(2, timeout=60)

    def exp(x):
        together.wait()  # one item in each thread
        return np.exp(x)

    with np.errstate(over="ignore"):
        assert parallel.map(exp, np.full(2, 1e4)) == [np.inf, np.inf]
    for wrong in ([0, 1e4], [1e4, 0]):
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            parallel.map(exp, np.array(wrong))


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_in_any_shard_is_raised(rng, wrong):
    model, batch = bert(rng), draw(rng, counts=(1, 1, 1, 1))
    batch[0][2 * wrong] = V
    parallel = DataParallel(model, counted)
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 10, got 11"):
        parallel.loss_and_gradients(*batch)
    batch[0][2 * wrong] = 0
    parallel.loss_and_gradients(*batch)


# errors


@pytest.mark.parametrize(
    "batch, message",
    [
        ((np.ones(3), np.ones((2, 3))), "array 1: expected 3 sequences, or 1 for all, got 2"),
        ((), "batch: expected at least one array, got none"),
        ((None,), "batch: expected at least one array, got none"),
        ((np.ones(3), [1, 2, 3]), "array 1: expected a NumPy array"),
        ((np.ones((0, 3)),), "array 0: expected at least one element"),
        ((np.array(3.0),), r"array 0: expected shape \(B\), got \(\)"),
        ((np.ones(1), np.ones(2)), "array 1: expected 1 sequences, or 1 for all, got 2"),
    ],
)
def test_a_bad_batch_is_named(batch, message):
    parallel = DataParallel(lambda *_: (0.0, {}), lambda *_: 1)
    with pytest.raises(ValueError, match=message):
        parallel.loss_and_gradients(*batch)


def test_arguments_are_called_what_the_function_calls_them():
    parallel = DataParallel(lambda ids, targets=None: (0.0, {}), lambda *_: 1)
    with pytest.raises(ValueError, match="targets: expected 3 sequences"):
        parallel.loss_and_gradients(np.ones(3), np.ones(2))


@pytest.mark.parametrize("weight", [np.nan, -1.0])
def test_a_bad_weight_of_a_shard_is_named(weight):
    parallel = DataParallel(lambda x: (0.0, {"w": np.ones(1)}), lambda x: weight)
    with pytest.raises(ValueError, match="weight of part 0: expected at least 0"):
        parallel.loss_and_gradients(np.ones(4))


def test_nothing_counted_is_named(rng):
    model, batch = bert(rng), draw(rng, counts=(0, 0))
    with pytest.raises(ValueError, match="parts: expected at least one counted token"):
        DataParallel(model, counted).loss_and_gradients(*batch)
