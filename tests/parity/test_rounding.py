"""Rounding, bit by bit beside the types of ml_dtypes."""

import numpy as np
import pytest

from transformer_core.ops import round_to
from transformer_core.ops.rounding import FORMATS

ml_dtypes = pytest.importorskip("ml_dtypes")
TWINS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
}
every_format = pytest.mark.parametrize("name", FORMATS)


def every_number(name):
    """All that the format has, as float32, with both zeros, infinity and NaN if it has them."""
    bits = np.dtype(TWINS[name]).itemsize * 8
    whole = np.arange(2**bits, dtype=f"uint{bits}")
    with np.errstate(invalid="ignore"):  # some NaN raise it when they are cast
        return whole.view(TWINS[name]).astype(np.float32)


def assert_rounds_as_the_twin_does(x, name):
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(TWINS[name]).astype(np.float32)
    y = round_to(x, name)
    number = ~np.isnan(expected)
    assert np.array_equal(number, ~np.isnan(y))
    assert np.array_equal(y.view(np.uint32)[number], expected.view(np.uint32)[number])


@every_format
def test_the_formats_are_those_of_their_twins(name):
    format, told = FORMATS[name], ml_dtypes.finfo(TWINS[name])
    assert format.largest == float(told.max)
    assert 2.0**format.least_exponent == float(told.smallest_normal)
    assert format.unit_roundoff == float(told.eps) / 2


@pytest.mark.equation("eq:round-to")
@every_format
def test_every_number_of_a_format_is_left_alone(name):
    x = every_number(name)
    assert len(x) == (256 if "8_" in name else 65536)
    assert_rounds_as_the_twin_does(x, name)
    y = round_to(x, name)
    assert np.array_equal(x, y, equal_nan=True)


@pytest.mark.equation("eq:round-to")
@every_format
def test_middles_and_their_neighbours_are_rounded_bit_by_bit(name):
    numbers = np.unique(every_number(name))
    numbers = numbers[np.isfinite(numbers)].astype(float)
    middles = (numbers[1:] + numbers[:-1]) / 2
    edge = numbers[-1] + (numbers[-1] - numbers[-2]) / 2
    at = np.array([*middles, edge, -edge, 0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    for x in (at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))):
        assert_rounds_as_the_twin_does(x, name)


@pytest.mark.equation("eq:round-to")
@every_format
def test_four_million_patterns_of_float32_are_rounded_bit_by_bit(name):
    rng = np.random.default_rng(5)
    anywhere = rng.integers(0, 2**32, 2_000_000, dtype=np.uint32).view(np.float32)
    likely = rng.normal(size=2_000_000) * 10.0 ** rng.uniform(-9, 6, 2_000_000)
    assert_rounds_as_the_twin_does(np.concatenate([anywhere, likely.astype(np.float32)]), name)
