import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.optim import warmup_stable_decay


@pytest.mark.equation("eq:warmup-stable-decay")
def test_the_rate_rises_stays_and_falls():
    rates = [warmup_stable_decay(t, 9, 12.0, warmup=3, decay=4) for t in range(1, 10)]
    assert rates == [4, 8, 12, 12, 12, 12, 9, 6, 3]


def test_without_warmup_and_decay_the_rate_is_constant():
    assert {warmup_stable_decay(t, 5, 0.1) for t in range(1, 6)} == {0.1}


@given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60), st.data())
def test_the_rate_is_positive_and_never_above_the_peak(steps, warmup, decay, data):
    step = data.draw(st.integers(1, steps))
    assert 0 < warmup_stable_decay(step, steps, 2.0, warmup, decay) <= 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 5), "step: expected one of 1 to 5, got 0"),
        ((6, 5), "step: expected one of 1 to 5, got 6"),
        ((1, 0), "steps: expected a whole number of at least 1, got 0"),
    ],
)
def test_steps_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        warmup_stable_decay(*arguments, 0.1)


@pytest.mark.parametrize("lengths", [(-1, 0), (0, -1)])
def test_negative_lengths_are_named(lengths):
    with pytest.raises(ValueError, match="(warmup|decay): expected a whole number"):
        warmup_stable_decay(1, 5, 0.1, *lengths)
