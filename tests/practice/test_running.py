"""A reader's function may do anything, and the examiner goes on."""

import threading

import numpy as np
import pytest

from transformer_practice.engine.running import Failed, NotWritten, call, returns_nothing


def endless():
    while True:
        pass


def divides_by_zero():
    nothing = 0
    return 1 / nothing


def stub():
    raise NotImplementedError


def empty(): ...


def documented():
    """eq:linear"""


def passing():
    """eq:linear"""
    pass


class Layer:
    def forward(self):
        pass


def without_return(x=2):
    x * x


def in_place(x):
    x += 1


def test_a_value_comes_back():
    assert call(np.add, 2, 3) == 5


@pytest.mark.parametrize("function", [stub, empty, documented, passing, Layer().forward])
def test_what_is_not_written_is_no_error(function):
    for arguments in ([function], [returns_nothing, function]):
        with pytest.raises(NotWritten):
            call(*arguments)


@pytest.mark.parametrize("function", [without_return, [].clear, lambda: print(end="")])
def test_a_return_that_was_forgotten_is_named(function):
    with pytest.raises(Failed, match="^returns None: is there a `return`"):
        call(function)


def test_what_changes_its_arguments_returns_nothing():
    x = np.zeros(2)
    assert call(returns_nothing, in_place, x) is True
    assert (x == 1).all()
    assert call(returns_nothing, np.add, 2, 3) is False


def test_a_loop_without_an_end_is_ended():
    with pytest.raises(Failed, match="did not return within 0.2 s"):
        call(endless, seconds=0.2)


def test_a_loop_is_ended_though_what_is_raised_in_it_gets_lost():
    def drops_two():
        for dropped in range(3):
            try:
                endless()
            except BaseException:
                if dropped == 2:
                    raise

    before = threading.active_count()
    with pytest.raises(Failed, match="did not return"):
        call(drops_two, seconds=0.05)
    assert threading.active_count() == before


def test_the_line_that_raises_is_named():
    message = r"raises ZeroDivisionError: division by zero\n    line \d+: return 1 / nothing"
    with pytest.raises(Failed, match=message):
        call(divides_by_zero)


def test_the_readers_line_is_named_where_a_library_raises():
    def own(x):
        return np.linalg.inv(x)

    with pytest.raises(Failed, match=r"raises LinAlgError.*\n    line \d+: return np.linalg.inv"):
        call(own, np.zeros((2, 2)))


def test_an_exit_ends_nothing():
    with pytest.raises(Failed, match="raises SystemExit: 3"):
        call(exit, 3)
