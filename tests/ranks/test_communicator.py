"""The collectives: what they return, what they send, and whose adjoint each is."""

import numpy as np
import pytest

from transformer_core.ranks import CommunicationError, Communicator, flatten, on_threads, unflatten

SIZES = [1, 2, 3, 4]


def arrays(size, length, seed=0):
    return np.random.default_rng(seed).normal(size=(size, length, 3))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", [1, 5, 12])
def test_all_reduce_sums_in_the_order_of_the_ranks(size, length):
    x = arrays(size, length)
    total = x[0].copy()
    for part in x[1:]:
        total += part
    for y in on_threads(size, lambda c: c.all_reduce(x[c.rank])):
        np.testing.assert_array_equal(y, total)


@pytest.mark.parametrize("size", SIZES)
def test_ranks_may_fold_by_another_function_than_the_sum(size):
    x = arrays(size, 5)

    def work(c):
        piece = c.reduce_scatter(x[c.rank], fold=np.minimum)
        return c.all_reduce(x[c.rank], np.maximum), c.all_gather(piece)

    for largest, smallest in on_threads(size, work):
        np.testing.assert_array_equal(largest, x.max(0))
        np.testing.assert_array_equal(smallest, x.min(0))


def assert_adjoint(size, forward, backward, given=lambda c, x: x):
    """Hold the sums of <A x, y> and of <x, A* y> over the ranks to each other."""
    x, y = arrays(size, 7, 1), arrays(size, 7, 2)

    def work(c):
        own = given(c, x[c.rank])
        return (forward(c, own) * y[c.rank]).sum(), (own * backward(c, y[c.rank])).sum()

    left, right = np.sum(on_threads(size, work), axis=0)
    assert left == pytest.approx(right, abs=1e-13)


@pytest.mark.parametrize("size", SIZES)
def test_all_gather_is_the_adjoint_of_reduce_scatter(size):
    def piece(c, x):
        return x[c.bounds(7)[c.rank]]

    assert_adjoint(size, Communicator.all_gather, Communicator.reduce_scatter, piece)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_pieces_along_any_axis_join_to_the_sum(size, axis):
    x = arrays(size, 5)

    def work(c):
        return c.all_gather(c.reduce_scatter(x[c.rank], axis), axis)

    for y in on_threads(size, work):
        np.testing.assert_allclose(y, x.sum(0), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_is_the_adjoint_of_the_sum_at_its_root(size):
    def sum_at_root(c, y):
        return c.all_reduce(y) * (c.rank == size - 1)

    assert_adjoint(size, lambda c, x: c.broadcast(x, size - 1), sum_at_root)


@pytest.mark.parametrize("size", SIZES)
def test_all_reduce_is_its_own_adjoint(size):
    assert_adjoint(size, Communicator.all_reduce, Communicator.all_reduce)


@pytest.mark.parametrize("size", SIZES)
def test_exchange_is_the_transpose_whose_adjoint_is_itself(size):
    x = [[np.full(k + 1, 10 * r + k) for k in range(size)] for r in range(size)]
    got = on_threads(size, lambda c: c.exchange(x[c.rank]))
    for receiver in range(size):
        for sender in range(size):
            np.testing.assert_array_equal(got[receiver][sender], x[sender][receiver])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "operation, sent",
    [
        (Communicator.all_reduce, lambda n, b: 2 * (n - 1) * b),
        (Communicator.all_gather, lambda n, b: n * (n - 1) * b),
        (Communicator.reduce_scatter, lambda n, b: (n - 1) * b),
        (Communicator.broadcast, lambda n, b: (n - 1) * b),
        (lambda c, x: c.exchange([x] * c.size), lambda n, b: n * (n - 1) * b),
        (lambda c, x: c.barrier(), lambda n, b: 0),
    ],
    ids=["all_reduce", "all_gather", "reduce_scatter", "broadcast", "exchange", "barrier"],
)
def test_every_collective_sends_what_its_formula_says(size, operation, sent):
    x = np.ones((7, 3), np.float32)

    def work(c):
        operation(c, x)
        return sum(traffic.bytes for traffic in c.sent.values())

    assert sum(on_threads(size, work)) == sent(size, x.nbytes)


def test_bounds_cover_a_length_in_order_and_evenly():
    cut = on_threads(4, lambda c: c.bounds(10))[0]
    assert [k for piece in cut for k in range(10)[piece]] == list(range(10))
    assert {piece.stop - piece.start for piece in cut} == {2, 3}


def test_a_rank_alone_gets_its_own_back_and_sends_nothing():
    alone, x = Communicator(), arrays(1, 4)[0]
    for operation in (alone.all_reduce, alone.all_gather, alone.broadcast):
        np.testing.assert_array_equal(operation(x), x)
    np.testing.assert_array_equal(alone.reduce_scatter(x), x)
    alone.barrier()
    alone.leave()
    assert all(t.bytes == t.messages == 0 for t in alone.sent.values())


@pytest.mark.parametrize(
    "first, second, message",
    [
        (
            lambda c: c.all_gather(np.ones(4)),
            lambda c: c.reduce_scatter(np.ones(4)),
            "expected all_gather from rank 1, got reduce_scatter"
            "|expected reduce_scatter from rank 0, got all_gather",
        ),
        (lambda c: c.receive(1), lambda c: c.barrier(), "expected send from rank 1, got barrier"),
        (lambda c: c.barrier(), lambda c: None, "expected barrier from rank 1, which has ended"),
        (
            lambda c: c.all_reduce(np.ones(4)),
            lambda c: c.all_reduce(np.ones(5)),
            r"expected float64 \(.,\) from rank . in reduce_scatter, got float64 \(.,\)",
        ),
        (
            lambda c: c.reduce_scatter(np.ones((4, 1))),
            lambda c: c.reduce_scatter(np.ones((4, 3))),
            r"from rank 1 in reduce_scatter, got float64 \(2, 3\)",
        ),
        (
            lambda c: c.all_reduce(np.ones(4)),
            lambda c: c.all_reduce(np.ones(4, np.float32)),
            "in reduce_scatter, got float",
        ),
        (
            lambda c: c.all_gather(np.ones((2, 3))),
            lambda c: c.all_gather(np.ones((2, 1))),
            r"in all_gather, got float64 \(2, .\)",
        ),
        (
            lambda c: c.all_gather(np.ones(2)),
            lambda c: c.all_gather(np.ones((2, 1))),
            "in all_gather, got float64",
        ),
        (
            lambda c: c.all_gather(np.ones(2)),
            lambda c: c.all_gather(np.ones(2, int)),
            "in all_gather, got ",
        ),
    ],
)
def test_ranks_that_do_not_agree_are_told(first, second, message):
    with pytest.raises(CommunicationError, match=message):
        on_threads(2, lambda c: (second if c.rank else first)(c), patience=5)


@pytest.mark.parametrize(
    "work, message",
    [
        (lambda c: c.send(np.ones(2), c.rank), "rank: expected one of 0 to 1, other"),
        (lambda c: c.receive(2), "rank: expected one of 0 to 1, .* got 2"),
        (lambda c: c.broadcast(np.ones(2), -1), "rank: expected one of 0 to 1"),
        (lambda c: c.exchange([np.ones(2)]), "parts: expected one for each of 2 ranks"),
        (lambda c: c.send([1.0], 1 - c.rank), "array for rank .: expected .* got list"),
        (lambda c: c.send(np.array(["a"]), 1 - c.rank), "expected .* got <U1"),
        (lambda c: c.send(np.array([{}]), 1 - c.rank), "expected .* got object"),
        (lambda c: c.all_reduce(3.0), "array: expected a NumPy array, got float"),
        (lambda c: c.all_reduce(np.empty(0)), "array: expected at least one element"),
        (lambda c: c.all_gather(np.ones(3), 1), "axis: expected one of the 1 axes"),
        (lambda c: c.all_gather(np.array(3.0)), "axis: expected one of the 0 axes"),
        (lambda c: c.reduce_scatter([1]), "array: expected a NumPy array, got list"),
    ],
)
def test_what_cannot_be_sent_is_said_before_anything_is(work, message):
    def counted(c):
        with pytest.raises(ValueError, match=message):
            work(c)
        return c.sent

    assert on_threads(2, counted, patience=5) == [{}, {}]


def test_a_rank_that_never_comes_ends_the_wait():
    with pytest.raises(CommunicationError, match="waited 0.2 s"):
        on_threads(2, lambda c: c.receive(1 - c.rank), patience=0.2)


def test_flat_arrays_come_back_as_views():
    like = {"a": np.ones((2, 3)), "b": np.array(2.0), "c": np.arange(4.0)}
    buffer = flatten(like)
    views = unflatten(buffer, like)
    assert {name: view.shape for name, view in views.items()} == {
        name: array.shape for name, array in like.items()
    }
    views["c"][0] = 9
    assert buffer[7] == 9


def test_what_does_not_fit_a_flat_buffer_is_refused():
    with pytest.raises(ValueError, match="expected one dtype, got float32, float64"):
        flatten({"a": np.ones(2), "b": np.ones(2, np.float32)})
    with pytest.raises(ValueError, match="expected one dtype, got none"):
        flatten({})
    with pytest.raises(ValueError, match=r"buffer: expected shape \(2\), got \(3,\)"):
        unflatten(np.ones(3), {"a": np.ones(2)})
