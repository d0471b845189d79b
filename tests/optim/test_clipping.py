import math

import numpy as np
import pytest
from helpers.witnesses import generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.optim import clip_by_global_norm


def draw(rng, scale=1.0, dtype=np.float64):
    return {
        "weight": (scale * rng.normal(size=(3, 4))).astype(dtype),
        "bias": (scale * rng.normal(size=4)).astype(dtype),
    }


def flat(grads):
    return np.concatenate([grad.ravel() for grad in grads.values()])


def test_the_gradients_of_the_book():
    grads = {"a": np.array([24.0]), "b": np.array([7.0])}
    clipped, norm = clip_by_global_norm(grads, 1.0)
    assert norm == 25
    assert np.allclose(flat(clipped), [24 / 25, 7 / 25], rtol=1e-15)


@pytest.mark.equation("eq:global-norm")
@given(generators, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_direction_stays_and_the_norm_is_the_smaller_one(rng, scale, max_norm):
    grads = draw(rng, scale)
    clipped, norm = clip_by_global_norm(grads, max_norm)
    assert clipped.keys() == grads.keys()
    g, c = flat(grads), flat(clipped)
    assert math.isclose(norm, np.linalg.norm(g), rel_tol=1e-12)
    assert math.isclose(np.linalg.norm(c), min(norm, max_norm), rel_tol=1e-12)
    assert np.allclose(c * norm, g * min(norm, max_norm), rtol=1e-12, atol=0)


@given(generators)
def test_a_short_gradient_is_left_bit_by_bit(rng):
    grads = draw(rng)
    clipped, norm = clip_by_global_norm(grads, 1e6)
    assert np.array_equal(flat(clipped), flat(grads))
    clipped, _ = clip_by_global_norm(grads, norm)
    assert np.array_equal(flat(clipped), flat(grads))


def test_a_zero_gradient_stays_zero():
    clipped, norm = clip_by_global_norm({"a": np.zeros(3)}, 1.0)
    assert norm == 0 and np.array_equal(clipped["a"], np.zeros(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_dtype_is_kept_and_the_input_not_modified(rng, dtype, scale):
    grads = draw(rng, scale, dtype)
    copies = {name: grad.copy() for name, grad in grads.items()}
    clipped, norm = clip_by_global_norm(grads, 1.0)
    assert {grad.dtype for grad in clipped.values()} == {np.dtype(dtype)}
    assert type(norm) is float
    for name, grad in grads.items():
        assert np.array_equal(grad, copies[name])
        assert not np.shares_memory(grad, clipped[name])


def test_squares_beyond_float32_do_not_overflow():
    clipped, norm = clip_by_global_norm({"a": np.full(4, 1e30, np.float32)}, 1.0)
    assert math.isclose(norm, 2e30, rel_tol=1e-6)
    assert np.allclose(clipped["a"], 0.5, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_norm_that_is_not_finite_is_named(rng, bad):
    grads = draw(rng)
    grads["bias"][1] = bad
    message = f"grads: expected a finite norm, got {abs(bad)} from bias"
    with pytest.raises(ValueError, match=message):
        clip_by_global_norm(grads, 1.0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_squares_of_whole_numbers_do_not_wrap(dtype):
    _, norm = clip_by_global_norm({"a": np.full(3, 120, dtype)}, 1.0)
    assert math.isclose(norm, 120 * math.sqrt(3), rel_tol=1e-15)


def test_squares_beyond_float64_are_named():
    message = "grads: expected a finite norm, got inf from a$"
    with pytest.raises(ValueError, match=message):
        clip_by_global_norm({"a": np.full(4, 1e200)}, 1.0)


@pytest.mark.parametrize("max_norm", [0, -1.0, math.inf, math.nan])
def test_a_bad_max_norm_is_named(rng, max_norm):
    message = f"max_norm: expected a positive number, got {max_norm}"
    with pytest.raises(ValueError, match=message):
        clip_by_global_norm(draw(rng), max_norm)


def test_a_gradient_that_is_no_array_is_named():
    with pytest.raises(ValueError, match="gradient of a: expected a NumPy array"):
        clip_by_global_norm({"a": None}, 1.0)
