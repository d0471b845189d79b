from threading import get_ident

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits
from witnesses import generators, randomise

from transformer_core.layers import LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import Adam, AdamW
from transformer_core.training import DataParallel

B, T, V = 5, 4, 11
LONG = 60_000  # entries: more than one block


def counted(ids, targets, masked, *others):
    return masked.sum()


def bert(rng, dtype=np.float64, **settings):
    spec = LayerSpec(6, 2, 7, "post", dtype=dtype, **settings)
    return randomise(Bert(spec, StackSpec(V, T, 2), rng), rng)


def draw(rng, counts=(1, 4, 0, 2, 3)):
    """Draw a batch, each sequence of which counts another number of tokens."""
    masked = np.arange(T) < np.array(counts)[:, np.newaxis]
    shape = masked.shape
    return rng.integers(V, size=shape), rng.integers(V, size=shape), masked


def assert_same(left, right, **tolerance):
    (left_loss, left_grads), (right_loss, right_grads) = left, right
    assert np.allclose(left_loss, right_loss, **tolerance)
    assert left_grads.keys() == right_grads.keys()
    for name, grad in left_grads.items():
        assert np.allclose(grad, right_grads[name], **tolerance), name


@pytest.mark.equation("eq:accumulation")
@given(generators, st.integers(1, 8))
def test_shards_make_up_the_whole_batch(rng, threads):
    model, batch = bert(rng), draw(rng)
    parallel = DataParallel(model.loss_and_gradients, counted, threads)
    whole = model.loss_and_gradients(*batch)
    assert_same(parallel(*batch), whole, rtol=1e-10, atol=1e-13)


def test_one_thread_does_what_the_model_does(rng):
    model, batch = bert(rng), draw(rng)
    loss, grads = DataParallel(model.loss_and_gradients, counted, threads=1)(*batch)
    whole_loss, whole_grads = model.loss_and_gradients(*batch)
    assert loss == whole_loss
    assert all(np.array_equal(grads[name], whole_grads[name]) for name in whole_grads)


def test_the_same_threads_give_the_same_digits(rng):
    model, batch = bert(rng, np.float32), draw(rng)
    parallel = DataParallel(model.loss_and_gradients, counted)
    (loss, grads), (again, grads_again) = parallel(*batch), parallel(*batch)
    assert loss == again
    assert all(np.array_equal(grads[name], grads_again[name]) for name in grads)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_and_the_batch_not_modified(rng, dtype):
    model, batch = bert(rng, dtype), draw(rng)
    copies = [array.copy() for array in batch]
    _, grads = DataParallel(model.loss_and_gradients, counted)(*batch)
    assert {grad.dtype for grad in grads.values()} == {np.dtype(dtype)}
    assert all(map(np.array_equal, batch, copies))


def test_every_array_is_cut_and_none_is_passed_on(rng):
    model, batch = bert(rng, segments=2), draw(rng)
    keep = np.arange(T) < np.array([4, 4, 2, 3, 4])[:, None, None, None]
    segments = rng.integers(2, size=(B, T))
    parallel = DataParallel(model.loss_and_gradients, counted)
    for others in ((keep, segments), (None, segments)):
        whole = model.loss_and_gradients(*batch, *others)
        assert_same(parallel(*batch, *others), whole, rtol=1e-10, atol=1e-13)


def test_shards_are_of_equal_length_and_in_order():
    seen = []

    def loss_and_gradients(x):
        seen.append(x.tolist())
        return 0.0, {"w": np.zeros(1)}

    DataParallel(loss_and_gradients, len, 3)(np.arange(8))
    assert sorted(seen) == [[0, 1, 2], [3, 4], [5, 6, 7]]


def test_a_shard_without_counted_tokens_is_left_out(rng):
    model, batch = bert(rng), draw(rng, counts=(2, 3, 0, 0))
    whole = model.loss_and_gradients(*batch)
    parallel = DataParallel(model.loss_and_gradients, counted, 2)
    assert_same(parallel(*batch), whole, rtol=1e-10, atol=1e-13)


def test_dropout_is_drawn_anew_for_each_shard_and_reproducible(rng):
    model, batch = bert(rng, dropout=0.3), draw(rng)
    twice = [np.concatenate([array, array]) for array in batch]
    parallel = DataParallel(model.loss_and_gradients, counted)

    def loss(seed):
        return parallel(*twice, rng=np.random.default_rng(seed))[0]

    assert loss(1) == loss(1) != loss(2)
    generator = np.random.default_rng(1)
    assert parallel(*twice, rng=generator)[0] != parallel(*twice, rng=generator)[0]

    saved = generator.bit_generator.state
    following = parallel(*twice, rng=generator)[0]
    resumed = np.random.default_rng(7)
    resumed.bit_generator.state = saved
    assert parallel(*twice, rng=resumed)[0] == following

    handed = []
    one = DataParallel(lambda x, rng: handed.append(rng) or (0.0, {"w": x}), len, 3)
    one(np.arange(3.0), rng=np.random.default_rng(1))
    assert len(set(map(id, handed))) == 3  # threads take turns in no fixed order
    assert len({rng.random() for rng in handed}) == 3


def test_training_is_the_same_with_and_without_threads(rng):
    """The common norm alone is summed in another order; the shards are, too."""
    batches = [draw(rng) for _ in range(5)]
    left, right = bert(np.random.default_rng(1)), bert(np.random.default_rng(1))
    parallel = DataParallel(left.loss_and_gradients, counted)
    one, other = AdamW(left.parameters(), 0.01), AdamW(right.parameters(), 0.01)
    one.map = parallel.map
    for batch in batches:
        _, grads = parallel(*batch)
        one.step(grads, max_norm=0.1)
        _, grads = right.loss_and_gradients(*batch)
        other.step(grads, max_norm=0.1)
    for name, array in left.parameters().items():
        assert np.allclose(array, right.parameters()[name], rtol=1e-7, atol=1e-9), name


def test_an_optimiser_takes_the_same_step_with_and_without_threads(rng):
    parameters = {"w": rng.normal(size=(LONG // 100, 100)), "b": rng.normal(size=3)}
    copies = {name: array.copy() for name, array in parameters.items()}
    one, other = Adam(parameters), Adam(copies)
    one.map = DataParallel(None, None, 3).map
    for _ in range(3):
        grads = {name: rng.normal(size=array.shape) for name, array in copies.items()}
        one.step(grads)
        other.step(grads)
    assert all(np.array_equal(parameters[name], copies[name]) for name in copies)


# map


def test_map_is_spread_over_threads_and_keeps_the_order():
    parallel = DataParallel(None, None, 3)
    assert parallel.map(lambda a, b: 10 * a + b, range(8), range(8)) == [
        11 * i for i in range(8)
    ]
    assert parallel.map(str, []) == []
    threads = parallel.map(lambda _: get_ident(), range(8))
    assert threads[0] == threads[3] == get_ident()
    assert get_ident() not in (threads[1], threads[2])


def test_blas_is_held_to_one_thread_meanwhile():
    def blas(_=None):
        return {
            library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        }

    parallel = DataParallel(None, None, 2)
    with threadpool_limits(2, "blas"):
        before = blas()
        assert all(inside <= {1} for inside in parallel.map(blas, range(4)))
        assert blas() == before


def test_what_numpy_says_about_overflow_holds_in_every_thread():
    parallel = DataParallel(None, None, 2)
    with np.errstate(over="ignore"):
        parallel.map(np.exp, np.full(4, 1e4))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        parallel.map(np.exp, np.array([0, 1e4]))


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_in_any_shard_is_raised(rng, wrong):
    model, batch = bert(rng), draw(rng, counts=(1, 1, 1, 1))
    batch[0][2 * wrong] = V
    parallel = DataParallel(model.loss_and_gradients, counted)
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 10, got 11"):
        parallel(*batch)
    batch[0][2 * wrong] = 0
    parallel(*batch)


# errors


@pytest.mark.parametrize(
    "batch, message",
    [
        (
            (np.ones(3), np.ones((2, 3))),
            r"batch: expected arrays of one length, got \(3,\), \(2, 3\)",
        ),
        ((), "batch: expected arrays of one length, got none"),
        ((None,), "batch: expected arrays of one length, got none"),
        ((np.ones(3), [1, 2, 3]), "array 1 of the batch: expected a NumPy array"),
        ((np.ones((0, 3)),), "array 0 of the batch: expected at least one element"),
        ((np.array(3.0),), r"batch: expected arrays of one length, got \(\)"),
    ],
)
def test_a_bad_batch_is_named(batch, message):
    parallel = DataParallel(lambda *_: (0.0, {}), lambda *_: 1)
    with pytest.raises(ValueError, match=message):
        parallel(*batch)


def test_nothing_counted_is_named(rng):
    model, batch = bert(rng), draw(rng, counts=(0, 0))
    with pytest.raises(ValueError, match="parts: expected at least one counted token"):
        DataParallel(model.loss_and_gradients, counted)(*batch)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_bad_threads_are_named(threads):
    message = f"threads: expected a whole number of at least 1, got {threads}"
    with pytest.raises(ValueError, match=message):
        DataParallel(None, None, threads)
