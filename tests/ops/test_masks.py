import numpy as np
import pytest
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.ops import cached_keep, causal_keep, padding_keep, window_keep


@pytest.mark.equation("eq:causal-keep")
@given(sizes)
def test_a_position_attends_to_itself_and_to_those_before_it(length):
    keep = causal_keep(length)
    assert keep.dtype == bool and keep.shape == (length, length)
    for query, key in np.ndindex(length, length):
        assert keep[query, key] == (key <= query)


@pytest.mark.equation("eq:padding-keep")
@given(generators, sizes, sizes)
def test_every_query_attends_to_the_tokens_and_not_to_the_padding(rng, batch, length):
    lengths = rng.integers(0, length + 1, batch)
    keep = padding_keep(lengths, length)
    assert keep.dtype == bool and keep.shape == (batch, 1, 1, length)
    for sequence, key in np.ndindex(batch, length):
        assert keep[sequence, 0, 0, key] == (key < lengths[sequence])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_lengths_may_be_of_any_integer_type(dtype):
    keep = padding_keep(np.array([0, 3], dtype), 3)
    assert np.array_equal(keep[:, 0, 0], [[False] * 3, [True] * 3])


@given(st.sampled_from([0, -1, 2.0, True, None]))
def test_a_bad_length_is_named(length):
    for mask in (causal_keep, lambda length: padding_keep(np.array([1]), length)):
        with pytest.raises(ValueError, match="length: expected a whole number"):
            mask(length)


@pytest.mark.parametrize(
    "lengths, message",
    [
        (np.array([4, 1]), r"lengths: .* from 0 to 3, got \[4 1\]"),
        (np.array([-1, 1]), r"lengths: .* from 0 to 3, got \[-1  1\]"),
        (np.array([1.0, 2.0]), r"lengths: .* whole numbers .* got \[1\. 2\.\]"),
        (np.array([True, False]), r"lengths: .* whole numbers .* got \[ True False\]"),
        (np.ones((2, 3), int), r"lengths: expected shape \(B\), got \(2, 3\)"),
        (np.array([], int), "lengths: expected at least one element"),
    ],
)
def test_bad_lengths_are_named(lengths, message):
    with pytest.raises(ValueError, match=message):
        padding_keep(lengths, 3)


@pytest.mark.equation("eq:window-keep")
@given(st.integers(1, 8), st.integers(1, 10))
def test_a_window_of_w_has_w_keys_of_which_one_is_the_position_itself(length, window):
    keep = window_keep(length, window)
    for t in range(length):
        (seen,) = np.nonzero(keep[t])
        assert seen.tolist() == list(range(max(0, t - window + 1), t + 1))


@pytest.mark.parametrize("window", [0, -1, 2.0, None])
def test_a_window_that_is_none_is_named(window):
    with pytest.raises(ValueError, match="window: expected a whole number of at least 1"):
        window_keep(5, window)


@pytest.mark.parametrize("past, new", [(4, 3), (0, 4), (5, 1), (2, 6)])
def test_new_positions_have_the_last_rows_of_the_causal_mask(past, new):
    assert np.array_equal(cached_keep(past, new), causal_keep(past + new)[past:])
