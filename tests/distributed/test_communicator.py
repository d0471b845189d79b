"""The collectives: what they return, what they send, and whose adjoint each is."""

import numpy as np
import pytest

from transformer_core.distributed import CommunicationError, Communicator, on_threads

SIZES = [1, 2, 3, 4]
LENGTHS = [1, 5, 12]


def arrays(size, length, seed=0):
    return np.random.default_rng(seed).normal(size=(size, length, 3))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", LENGTHS)
def test_all_reduce_sums_in_the_order_of_the_ranks(size, length):
    x = arrays(size, length)
    total = x[0].copy()
    for part in x[1:]:
        total += part
    for y in on_threads(size, lambda c: c.all_reduce(x[c.rank])):
        np.testing.assert_array_equal(y, total)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", LENGTHS)
def test_all_reduce_sends_what_the_formula_says(size, length):
    x = arrays(size, length)

    def work(c):
        c.all_reduce(x[c.rank])
        return c.sent

    sent = on_threads(size, work)
    total = sum(traffic.bytes for ranks in sent for traffic in ranks.values())
    assert total == 2 * (size - 1) * x[0].nbytes


@pytest.mark.parametrize("size", SIZES)
def test_all_gather_is_the_adjoint_of_reduce_scatter(size):
    x, y = arrays(size, 7, 1), arrays(size, 7, 2)

    def work(c):
        piece = x[c.rank][c.bounds(7)[c.rank]]
        return (
            (c.all_gather(piece) * y[c.rank]).sum(),
            (piece * c.reduce_scatter(y[c.rank])).sum(),
        )

    left, right = np.sum(on_threads(size, work), axis=0)
    assert left == pytest.approx(right, abs=1e-13)


def test_a_rank_alone_gets_its_own_back_and_sends_nothing():
    alone, x = Communicator(), arrays(1, 4)[0]
    np.testing.assert_array_equal(alone.all_reduce(x), x)
    alone.barrier()
    assert all(t.bytes == t.messages == 0 for t in alone.sent.values())


def test_another_operation_is_named():
    def work(c):
        (c.all_gather if c.rank else c.reduce_scatter)(np.ones(4))

    with pytest.raises(CommunicationError, match="expected .* got "):
        on_threads(2, work, patience=5)


def test_the_error_of_the_rank_at_fault_is_raised():
    def work(c):
        if c.rank == 1:
            raise KeyError("mine")
        c.all_reduce(np.ones(4))

    with pytest.raises(KeyError, match="mine"):
        on_threads(3, work, patience=5)


def test_a_rank_that_never_comes_ends_the_wait():
    def work(c):
        if c.rank == 0:
            c.receive(1)
        else:
            c.receive(0)

    with pytest.raises(CommunicationError, match="waited 0.2 s"):
        on_threads(2, work, patience=0.2)
