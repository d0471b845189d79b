import numpy as np
import pytest

from transformer_core.foundation.checks import (
    check_array,
    check_floats,
    check_ids,
    check_positive_int,
    check_rate,
    check_shape,
)


@pytest.mark.parametrize(
    "value, message",
    [
        ([1.0], "x: expected a NumPy array, got list"),
        (1.0, "x: expected a NumPy array, got float"),
        (None, "x: expected a NumPy array, got NoneType"),
        (np.ones((2, 0)), r"x: expected at least one element, got shape \(2, 0\)"),
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


@pytest.mark.parametrize(
    "value", [0, -1, 1.0, "1", None, True, np.float64(2), np.bool_(True)]
)
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
