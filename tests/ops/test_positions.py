import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.ops import sinusoidal_positions


@pytest.mark.equation("eq:positions")
def test_entries_follow_the_formula():
    table = sinusoidal_positions(7, 6)
    for t in range(7):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert np.isclose(table[t, 2 * i], np.sin(angle), atol=1e-15)
            assert np.isclose(table[t, 2 * i + 1], np.cos(angle), atol=1e-15)


@pytest.mark.equation("eq:positions-similarity")
@given(st.integers(1, 30), st.integers(0, 30), st.integers(1, 10))
def test_inner_products_are_sums_of_cosines(t, shift, pairs):
    table = sinusoidal_positions(t + shift + 1, 2 * pairs)
    angles = shift * 10000.0 ** (-np.arange(pairs) / pairs)
    assert np.isclose(table[t] @ table[t + shift], np.cos(angles).sum(), atol=1e-12)


@pytest.mark.equation("eq:positions-shift")
@given(st.integers(1, 30), st.integers(0, 30), st.integers(1, 10))
def test_a_shift_is_one_rotation_for_all_positions(length, shift, pairs):
    table = sinusoidal_positions(length + shift, 2 * pairs)
    rotation = np.zeros((2 * pairs, 2 * pairs))
    for i in range(pairs):
        angle = shift * 10000.0 ** (-i / pairs)
        cos, sin = np.cos(angle), np.sin(angle)
        block = slice(2 * i, 2 * i + 2)
        rotation[block, block] = [[cos, -sin], [sin, cos]]
    assert np.allclose(table[:length] @ rotation, table[shift:], atol=1e-12)


def test_a_longer_table_begins_with_the_shorter_one():
    assert np.array_equal(sinusoidal_positions(9, 4)[:5], sinusoidal_positions(5, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_dtype_is_as_asked(dtype):
    assert sinusoidal_positions(3, 4, dtype).dtype == dtype


@pytest.mark.parametrize(
    "length, width, message",
    [
        (0, 4, "length: expected a whole number of at least 1, got 0"),
        (3, 5, "width: expected an even number, got 5"),
        (3, 0, "width: expected a whole number of at least 1, got 0"),
        (3, 4.0, "width: expected a whole number of at least 1, got 4.0"),
        ("3", 4, "length: expected a whole number of at least 1, got '3'"),
    ],
)
def test_bad_input_is_named(length, width, message):
    with pytest.raises(ValueError, match=message):
        sinusoidal_positions(length, width)
