import random
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sympy

from transformer_core import ops
from transformer_core.foundation.checks import (
    broadcasts,
    check_array,
    check_floats,
    check_generator,
    check_ids,
    check_kind,
    check_positive_int,
    check_rate,
    check_scalar,
    check_shape,
)
from transformer_core.layers import Linear
from transformer_core.ops import dropout
from transformer_core.ops.linear import LinearCache


@pytest.mark.parametrize(
    "value, message",
    [
        ([1.0], "x: expected a NumPy array, got list"),
        (1.0, "x: expected a NumPy array, got float"),
        (None, "x: expected a NumPy array, got NoneType"),
        (np.ones((2, 0)), r"x: expected at least one element, got shape \(2, 0\)"),
        (np.ma.masked_greater(np.ones(3), 2), "x: expected a NumPy array, got MaskedArray"),
    ],
)
def test_what_is_not_an_array_with_elements_is_named(value, message):
    with pytest.raises(ValueError, match=message):
        check_array("x", value)
    with pytest.raises(ValueError, match=message):
        check_shape("x", value, ...)


def test_an_array_of_one_number_is_an_array():
    check_array("x", np.array(1.0))
    check_shape("x", np.array(1.0))


@pytest.mark.parametrize(
    "shape",
    [
        (2, 3, 4),
        ("B", "T", "D"),
        ("B", 3, "D"),
        (..., 4),
        (..., "T", 4),
        (..., "B", "T", "D"),
        (...,),
        (np.int64(2), np.int32(3), 4),
    ],
)
def test_shapes_that_fit_pass(shape):
    check_shape("x", np.ones((2, 3, 4)), *shape)


@pytest.mark.parametrize(
    "shape, expected",
    [
        ((2, 3), "(2, 3)"),
        ((2, 3, 5), "(2, 3, 5)"),
        ((2, 3, np.int64(5)), "(2, 3, 5)"),
        (("B", "T"), "(B, T)"),
        (("B", 4, "D"), "(B, 4, D)"),
        ((..., 3), "(..., 3)"),
        ((..., 4, "D"), "(..., 4, D)"),
        ((..., "A", "B", "T", "D"), "(..., A, B, T, D)"),
        ((), "()"),
    ],
)
def test_shapes_that_do_not_fit_are_named(shape, expected):
    with pytest.raises(ValueError) as error:
        check_shape("x", np.ones((2, 3, 4)), *shape)
    assert str(error.value) == f"x: expected shape {expected}, got (2, 3, 4)"


@pytest.mark.parametrize("dtype", "float16 float32 float64 complex64 object".split())
def test_floats_of_any_precision_pass(dtype):
    check_floats("x", np.ones((2, 3), dtype), ..., 3)


@pytest.mark.parametrize("dtype", "bool uint8 int8 int64 U1 datetime64[s]".split())
def test_what_is_not_of_floats_is_named(dtype):
    array = np.zeros((2, 3), dtype)
    with pytest.raises(ValueError) as error:
        check_floats("x", array, 2, "D")
    message = f"x: expected floating-point numbers, got {array.dtype}"
    assert str(error.value) == message


def test_floats_of_another_shape_are_named():
    with pytest.raises(ValueError, match=r"x: expected shape \(2, 4\), got \(2, 3\)"):
        check_floats("x", np.ones((2, 3)), 2, 4)


@pytest.mark.parametrize("rate", [0, 0.5, np.float32(0.1)])
def test_probabilities_below_1_pass(rate):
    check_rate("dropout", rate)


@pytest.mark.parametrize("rate", [-0.1, 1, np.nan])
def test_other_rates_are_named(rate):
    with pytest.raises(ValueError, match=r"dropout: expected .* \[0, 1\), got"):
        check_rate("dropout", rate)


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(200)])
def test_positive_whole_numbers_pass(value):
    check_positive_int("heads", value)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, np.float64(2), np.bool_(True)])
def test_what_is_not_a_positive_whole_number_is_named(value):
    with pytest.raises(ValueError) as error:
        check_positive_int("heads", value)
    message = f"heads: expected a whole number of at least 1, got {value!r}"
    assert str(error.value) == message


def test_sizes_that_no_array_has_are_named():
    with pytest.raises(ValueError, match="heads: expected at most 2147483647, got 10+"):
        check_positive_int("heads", 10**30)


def test_ids_of_the_vocabulary_pass():
    check_ids("ids", np.array([[0, 4], [2, 2]], np.uint8), 5)


@pytest.mark.parametrize(
    "ids, message",
    [
        (np.array([0, 5]), "ids: expected ids from 0 to 4, got 5"),
        (np.array([[0], [-1]]), "ids: expected ids from 0 to 4, got -1"),
        (np.array([0.0]), "ids: expected whole numbers, got float64"),
        (np.array([True]), "ids: expected whole numbers, got bool"),
        (np.array([], int), "ids: expected at least one element"),
        ([1, 2], "ids: expected a NumPy array, got list"),
    ],
)
def test_ids_outside_the_vocabulary_are_named(ids, message):
    with pytest.raises(ValueError, match=message):
        check_ids("ids", ids, 5)


NUMBERS = [1, 0.5, 1j, Fraction(1, 3), np.float32(2), np.array(3), sympy.Symbol("d"), sympy.pi]


@pytest.mark.parametrize("value", [*NUMBERS, np.array(Fraction(1, 3), object)])
def test_single_numbers_and_symbols_pass(value):
    check_scalar("dloss", value)


@pytest.mark.parametrize(
    "value",
    [
        *(float, np.float64, "1", None, Decimal(1), timedelta(1), Path("a"), [1.0], np.ones(1)),
        *(np.array("a"), np.datetime64("2020-01-01"), np.array(None), np.array(Decimal(1))),
    ],
    ids=repr,
)
def test_what_is_not_one_number_is_named(value):
    with pytest.raises(ValueError, match="dloss: expected one number, got "):
        check_scalar("dloss", value)
    with pytest.raises(ValueError, match="rate: expected a number in "):
        check_rate("rate", value)


@pytest.mark.parametrize(
    "seed", [0, None, "text", random, random.Random(0), np.random.RandomState(0)]
)
def test_what_is_no_generator_is_named(seed):
    with pytest.raises(ValueError, match="rng: expected a generator such as .*, got "):
        check_generator("rng", seed)
    with pytest.raises(ValueError, match="rng: expected a generator such as "):
        Linear(2, 3, seed)
    if seed is not None:
        with pytest.raises(ValueError, match="rng: expected a generator such as "):
            dropout(np.ones(3), 0.5, seed)


@pytest.mark.parametrize("cache", [None, 3, (1, 2, 3)])
@pytest.mark.parametrize("name", [name for name in ops.__all__ if name.endswith("_backward")])
def test_a_cache_of_another_class_is_named_by_every_backward_pass(name, cache):
    backward = getattr(ops, name)
    arguments = {parameter: np.ones((2, 2)) for parameter in signature(backward).parameters}
    if "cache" in arguments:
        with pytest.raises(ValueError, match="cache: expected one of the class .*Cache, got"):
            backward(**arguments | {"cache": cache} | {n: 1.0 for n in arguments if n == "dloss"})


def test_a_record_of_another_class_is_named():
    cache = LinearCache(np.ones(2), np.ones((2, 2)))
    assert check_kind("cache", cache, LinearCache) is cache
    with pytest.raises(ValueError) as error:
        check_kind("cache", tuple(cache), LinearCache)
    assert str(error.value) == "cache: expected one of the class LinearCache, got tuple"


def test_what_broadcasts_is_what_numpy_broadcasts_to_the_shape():
    shapes = [shape for axes in range(4) for shape in product((1, 2, 3), repeat=axes)]
    for shape, to in product(shapes, repeat=2):
        try:
            fits = np.broadcast_to(np.zeros(shape), to).shape == to
        except ValueError:
            fits = False
        assert broadcasts(shape, to) == fits, (shape, to)
