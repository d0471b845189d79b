"""Ranks that are threads: what they share, how they end, and whose error is raised."""

import sys
import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest

from transformer_core.ranks import CommunicationError, on_threads


def test_results_come_in_the_order_of_the_ranks():
    def work(c, factor):
        time.sleep(0.05 * (2 - c.rank))
        return factor * c.rank

    assert on_threads(3, work, 10) == [0, 10, 20]


def test_what_is_sent_is_what_it_was_when_it_was_sent():
    def work(c):
        x = np.ones(3)
        if c.rank == 0:
            c.send(x, 1)
            x[:] = 7
            c.send(x, 1)
        else:
            return c.receive(0), c.receive(0)

    first, second = on_threads(2, work)[1]
    assert first.tolist() == [1, 1, 1] and second.tolist() == [7, 7, 7]


def test_what_a_rank_receives_is_its_own():
    def work(c):
        x = np.zeros(3)
        y = c.broadcast(x)
        c.barrier()
        y += c.rank
        c.barrier()
        return y

    for rank, y in enumerate(on_threads(3, work)):
        assert y.tolist() == [rank] * 3


def test_ranks_have_the_settings_of_the_thread_that_starts_them():
    setting = ContextVar("setting", default=0)
    setting.set(5)
    assert on_threads(2, lambda c: setting.get()) == [5, 5]


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt("mine")])
def test_the_error_of_the_rank_at_fault_is_raised(error):
    def work(c):
        if c.rank == 1:
            time.sleep(0.1)
            raise error
        c.all_reduce(np.ones(4))

    with pytest.raises(type(error), match="mine"):
        on_threads(3, work, patience=5)


@pytest.mark.parametrize("status", [3, "no more"])
def test_an_exit_of_one_rank_ends_all_but_not_the_process(status):
    def work(c):
        if c.rank == 1:
            sys.exit(status)
        c.barrier()

    with pytest.raises(CommunicationError, match=f"rank 1: exit status {status}|ended"):
        on_threads(3, work, patience=5)


def test_a_rank_that_ends_early_ends_the_wait_of_the_others_at_once():
    def work(c):
        if c.rank == 1:
            sys.exit(0)
        c.barrier()

    since = time.monotonic()
    with pytest.raises(CommunicationError, match="from rank 1, which has ended"):
        on_threads(3, work, patience=30)
    assert time.monotonic() - since < 10


def test_all_ranks_may_exit_with_success():
    assert on_threads(2, lambda c: sys.exit(0)) == [None, None]


@pytest.mark.parametrize("communicate", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_rank_that_hangs_ends_the_others_after_their_patience(communicate):
    free = threading.Event()

    def work(c):
        if c.rank == 1:
            free.wait(60)
        if communicate:
            c.barrier()

    since = time.monotonic()
    with pytest.raises(CommunicationError, match="waited 0.3 s for rank 1 in "):
        on_threads(3, work, patience=0.3)
    assert time.monotonic() - since < 5
    free.set()
