import math

import numpy as np
import pytest
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.ops import round_rows, round_to
from transformer_core.ops.rounding import FORMATS

every_format = pytest.mark.parametrize("name", FORMATS)


def numbers_of(name):
    """The numbers from 0 on that the definition of the format gives, with their last bits."""
    precision, least, largest, _ = FORMATS[name]
    whole = np.arange(2**precision, dtype=float)  # below half of that: subnormal
    exponents = range(least, math.frexp(largest)[1])
    numbers = np.unique([m * 2.0 ** (e - precision + 1) for e in exponents for m in whole])
    spacing = 2.0 ** (np.maximum(np.frexp(numbers)[1] - 1, least) - precision + 1)
    keep = numbers <= largest
    return numbers[keep], (numbers[keep] / spacing[keep]) % 2


def nearest(x, name):
    """Look through all numbers of the format: the nearest one, of two that with the last bit 0."""
    numbers, last_bits = numbers_of(name)
    distances = np.abs(numbers - x)
    near = distances == distances.min()
    return numbers[near][np.argmin(last_bits[near])]


@pytest.mark.equation("eq:round-to")
@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn"])
def test_the_nearest_of_all_numbers_is_taken_and_of_two_the_even_one(rng, name):
    numbers, _ = numbers_of(name)
    assert len(numbers) == {"float8_e5m2": 124, "float8_e4m3fn": 127}[name]
    middles = (numbers[1:] + numbers[:-1]) / 2
    between = rng.uniform(numbers[:-1], numbers[1:])
    for x in np.concatenate([numbers, middles, between]):
        y = round_to(np.array([x, -x]), name)
        assert y.tolist() == [nearest(x, name), -nearest(x, name)]


@pytest.mark.equation("eq:round-to")
def test_float16_is_that_of_numpy_bit_by_bit(rng):
    anywhere = rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    likely = rng.normal(size=300_000) * 10.0 ** rng.uniform(-9, 6, 300_000)
    x = np.concatenate([anywhere[~np.isnan(anywhere)], likely.astype(np.float32)])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    assert np.array_equal(round_to(x, "float16").view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(
    "name, edge", [("float16", 65520), ("bfloat16", 2.0**128 - 2.0**119), ("float8_e5m2", 61440)]
)
def test_what_is_nearer_to_the_next_power_is_infinite(name, edge):
    below = np.nextafter(edge, 0)
    assert round_to(np.array([below, edge, -edge]), name).tolist() == [
        FORMATS[name].largest,
        math.inf,
        -math.inf,
    ]


def test_a_format_without_infinity_has_nan():
    y = round_to(np.array([464, np.nextafter(464, 500), -math.inf]), "float8_e4m3fn")
    assert y[0] == 448 and np.isnan(y[1:]).all()


@every_format
def test_zeros_keep_their_signs_and_tiny_numbers_too(name):
    y = round_to(np.array([0.0, -0.0, 1e-300, -1e-300]), name)
    assert y.tolist() == [0, 0, 0, 0]
    assert np.signbit(y).tolist() == [False, True, False, True]


@given(generators, st.sampled_from(sorted(FORMATS)), st.sampled_from([np.float32, np.float64]))
def test_the_relative_error_is_at_most_the_unit_roundoff(rng, name, dtype):
    format = FORMATS[name]
    low, high = 2.0**format.least_exponent, format.largest
    x = np.exp(rng.uniform(math.log(low), math.log(high), 50)).clip(low, high).astype(dtype)
    y = round_to(x, name)
    assert y.dtype == dtype
    error = np.abs(y - x.astype(float)) / x
    assert (error <= format.unit_roundoff).all()
    below = low * rng.uniform(0, 1, 50)
    error = np.abs(round_to(below, name) - below)
    assert (error <= low * format.unit_roundoff).all() and error.max() > 0


def test_float64_is_rounded_once():
    """By way of float32 it would become the middle, and the middle the even neighbour."""
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert round_to(x, "bfloat16") == 1 + 2.0**-7
    assert round_to(x.astype(np.float32), "bfloat16") == 1


@pytest.mark.equation("eq:stochastic-rounding")
@pytest.mark.parametrize("x", [1.1, -3.3, 1e-5, 2.0])
def test_stochastic_rounding_has_the_mean_and_the_variance_that_were_derived(x):
    draws, name = 200_000, "float8_e5m2"
    y = round_to(np.full(draws, x), name, np.random.default_rng(1))
    low, high = y.min(), y.max()
    assert low <= x <= high
    variance = (x - low) * (high - x)
    assert abs(y.mean() - x) <= 4 * math.sqrt(variance / draws) + 1e-15
    if low < high:
        assert set(np.unique(y)) == {low, high}
        assert round_to(np.array([x]), name)[0] in (low, high)
        assert abs(y.var() / variance - 1) < 0.05


@every_format
def test_stochastic_rounding_leaves_the_numbers_of_the_format_alone(rng, name):
    x = round_to(rng.normal(size=500) * 10.0 ** rng.uniform(-6, 2, 500), name)
    assert np.array_equal(round_to(x, name, rng), x)


def test_a_sum_in_bfloat16_stops_at_256():
    total = np.zeros(1)
    for _ in range(1000):
        total = round_to(total + 1, "bfloat16")
    assert total == 256


@given(st.integers(0, 1000), st.floats(1e-20, 1e20))
def test_no_entry_moves_by_more_than_half_a_step_of_its_row(seed, size):
    matrix = size * np.random.default_rng(seed).normal(size=(4, 9))
    whole, scales = round_rows(matrix)
    assert whole.dtype == np.int8 and scales.dtype == np.float32
    assert whole.shape == (4, 9) and scales.shape == (4, 1)
    assert (np.abs(whole).max(axis=1) == 127).all()
    assert (np.abs(whole * scales - matrix) <= 0.501 * scales).all()


def test_rows_are_rounded_as_on_paper():
    whole, scales = round_rows(np.array([[127.0, -1.4, 0.6], [0, 0, 0]]))
    assert whole.tolist() == [[127, -1, 1], [0, 0, 0]]
    assert scales.tolist() == [[1], [0]]


@pytest.mark.equation("eq:round-rows-bound")
@given(generators, sizes, sizes)
def test_the_output_of_a_linear_layer_moves_by_less_than_the_bound(rng, width_in, width_out):
    weight, x = rng.normal(size=(width_in, width_out)), rng.normal(size=(5, width_in))
    whole, scales = round_rows(weight)
    moved = np.abs(x @ (whole * scales - weight))
    assert (moved <= 0.501 * np.abs(x) @ scales).all()


@pytest.mark.parametrize(
    "matrix, said",
    [
        (np.ones(3), r"expected shape \(N, M\), got \(3,\)"),
        (np.ones((0, 3)), r"expected at least one element, got shape \(0, 3\)"),
        (np.array([[1, np.nan]]), "expected finite numbers"),
        (np.array([[1, -np.inf]]), "expected finite numbers"),
    ],
)
def test_what_cannot_be_rounded_is_named(matrix, said):
    with pytest.raises(ValueError, match=said):
        round_rows(matrix)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex128, object])
def test_what_is_no_wide_number_is_not_rounded(dtype):
    with pytest.raises(ValueError, match="x: expected float32 or float64"):
        round_to(np.ones(3, dtype), "bfloat16")


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match="format: expected one of float16, bfloat16"):
        round_to(np.ones(3), "float4")
