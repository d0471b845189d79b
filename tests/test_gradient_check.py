import numpy as np
import pytest
from hypothesis import given
from witnesses import generators, sizes

from transformer_core.gradient_check import (
    GradientError,
    central_difference,
    check_gradients,
    complex_step,
    gradient_error,
)

every_witness = pytest.mark.parametrize("witness", [central_difference, complex_step])


def polynomial_and_sine(x):
    return (x**3 + np.sin(x)).sum()


def test_both_witnesses_find_a_known_derivative(rng):
    x = rng.normal(size=(3, 4))
    derivative = 3 * x**2 + np.cos(x)
    central = central_difference(polynomial_and_sine, x)
    assert np.allclose(central, derivative, rtol=0, atol=1e-9)
    stepped = complex_step(polynomial_and_sine, x)
    assert stepped.dtype == np.float64
    assert np.allclose(stepped, derivative, rtol=1e-15, atol=1e-15)


@pytest.mark.equation("eq:central-difference")
def test_the_error_of_central_differences_falls_with_the_square_of_the_step():
    x = np.array([1.0])
    errors = [
        (central_difference(lambda x: np.exp(x).sum(), x, h) - np.e).item()
        for h in (1e-2, 1e-3)
    ]
    assert np.isclose(errors[0] / errors[1], 100, rtol=1e-3)
    assert np.isclose(errors[0], 1e-4 * np.e / 6, rtol=1e-3)


@pytest.mark.equation("eq:central-difference")
def test_central_differences_are_exact_for_a_parabola():
    x = np.array([3.0, -2.0])
    measured = central_difference(lambda x: (x * x).sum(), x, h=0.5)
    assert np.array_equal(measured, [6, -4])


@pytest.mark.equation("eq:complex-step")
@pytest.mark.parametrize("h", [1e-8, 1e-20, 1e-200])
def test_the_complex_step_needs_no_choice_of_step(h):
    x = np.array([1.0])
    measured = complex_step(lambda z: np.exp(z).sum(), x, h)
    assert np.isclose(measured, np.e, rtol=1e-15, atol=0)


@every_witness
@given(rng=generators, rows=sizes, columns=sizes)
def test_a_linear_function_gives_its_coefficients(witness, rng, rows, columns):
    x, coefficients = rng.normal(size=(2, rows, columns))
    measured = witness(lambda x: (coefficients * x).sum(), x)
    assert np.allclose(measured, coefficients, rtol=1e-7, atol=1e-9)


@every_witness
def test_only_the_entries_asked_for_are_measured(witness, rng):
    x = rng.normal(size=(3, 4))
    measured = witness(lambda x: (x * x).sum(), x, at=[5, 0])
    assert np.allclose(measured, 2 * x.flat[[5, 0]], atol=1e-9)


@every_witness
def test_arrays_that_are_not_contiguous_are_stepped_where_they_live(witness, rng):
    parent = rng.normal(size=(4, 3)).astype(
        complex if witness is complex_step else float
    )
    measured = witness(lambda _: (parent**2).sum(), parent.T)
    assert np.allclose(measured, 2 * parent.T.real, atol=1e-9)


@pytest.mark.parametrize(
    "witness, dtype", [(central_difference, float), (complex_step, complex)]
)
def test_the_array_is_put_back_also_after_an_error(witness, dtype, rng):
    x = rng.normal(size=5).astype(dtype)
    before = x.copy()
    witness(lambda x: (x * x).sum(), x)
    assert np.array_equal(x, before)
    with pytest.raises(ZeroDivisionError):
        witness(lambda x: 1 / 0, x)
    assert np.array_equal(x, before)


def test_the_complex_step_leaves_a_real_array_alone(rng):
    x = rng.normal(size=5)
    seen = []
    complex_step(lambda z: (seen.append(z), (z * z).sum())[1], x)
    assert all(z is not x and np.iscomplexobj(z) for z in seen)
    assert np.array_equal(
        complex_step(lambda z: (z * z).sum(), np.arange(3)), [0, 2, 4]
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: central_difference(f, [1.0]), "x: expected a NumPy array, got list"),
        (lambda f: central_difference(f, np.ones(0)), "x: expected at least one elem"),
        (lambda f: central_difference(f, np.arange(3)), "x: expected real .* int64"),
        (lambda f: central_difference(f, 1j * np.ones(3)), "real .* complex128"),
        (lambda f: central_difference(f, np.ones(3), h=0), "h: expected .* got 0"),
        (lambda f: central_difference(f, np.ones(3), h=np.nan), "h: .* got nan"),
        (lambda f: complex_step(f, np.ones(3), h=-1e-9), "h: expected .* got -1e-09"),
        (lambda f: complex_step(f, np.ones(0)), "x: expected at least one element"),
        (lambda f: complex_step(f, 2.0), "x: expected a NumPy array, got float"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(lambda x: x.sum())


@pytest.mark.parametrize(
    "witness, f, message",
    [
        (central_difference, lambda x: x, r"real scalar, got float64 of shape \(3,\)"),
        (central_difference, lambda x: 1j * x.sum(), "real scalar, got complex128"),
        (complex_step, lambda z: z, r"complex scalar, got complex128 of shape \(3,\)"),
        (complex_step, lambda z: abs(z).sum(), "complex scalar, got float64"),
        (complex_step, lambda z: z.real.sum(), "complex scalar, got float64"),
    ],
)
def test_a_function_that_returns_something_else_is_named(witness, f, message):
    with pytest.raises(ValueError, match=f"f: expected a {message}"):
        witness(f, np.ones(3))


@pytest.mark.equation("eq:gradient-error")
def test_the_error_is_measured_relative_to_the_larger_gradient():
    error = gradient_error(np.array([3.0, 4.0]), np.array([3.0, 0.0]))
    assert error == GradientError(norm=4 / 5, worst=1.0)
    assert error == gradient_error(np.array([3.0, 0.0]), np.array([3.0, 4.0]))


@pytest.mark.equation("eq:gradient-error")
@given(rng=generators, size=sizes)
def test_the_error_does_not_depend_on_the_units(rng, size):
    gradient, reference = rng.normal(size=(2, size))
    small = gradient_error(1e-6 * gradient, 1e-6 * reference)
    assert np.allclose(small, gradient_error(gradient, reference), rtol=1e-12)


def test_opposite_gradients_are_wrong_by_up_to_twice_their_size():
    assert gradient_error(np.ones(4), -np.ones(4)) == (2, 2)


def test_equal_gradients_have_no_error_also_where_they_are_zero():
    assert gradient_error(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == (0, 0)
    assert gradient_error(np.zeros(3), np.zeros(3)) == (0, 0)


def test_below_the_scale_a_gradient_counts_as_zero():
    noise, zero = np.array([1e-17, -1e-17]), np.zeros(2)
    assert gradient_error(noise, zero) == (1, 1)
    assert gradient_error(noise, zero, scale=1.0).norm < 2e-17
    assert gradient_error(noise, zero, scale=1.0).worst == 1e-17


def test_nan_is_never_a_small_error():
    for gradient in (np.array([np.nan, 1.0]), np.array([1.0, np.nan])):
        assert np.isnan(gradient_error(gradient, np.ones(2))).all()
        assert np.isnan(gradient_error(np.ones(2), gradient)).all()


def test_whole_numbers_can_be_compared():
    assert gradient_error(np.array([3, 4]), np.array([3, 0])).norm == 4 / 5


@pytest.mark.parametrize(
    "gradient, reference, message",
    [
        (np.ones(3), np.ones((3, 1)), r"reference: .* \(3,\), got \(3, 1\)"),
        (np.ones(0), np.ones(0), "gradient: expected at least one element"),
        (np.ones(3), [1.0] * 3, "reference: expected a NumPy array, got list"),
    ],
)
def test_gradients_that_cannot_be_compared_are_named(gradient, reference, message):
    with pytest.raises(ValueError, match=message):
        gradient_error(gradient, reference)


def cubes(arrays):
    """The loss sum(a b^3) and its gradients."""
    a, b = arrays["a"], arrays["b"]
    return (a * b**3).sum(), {"a": b**3, "b": 3 * a * b**2}


@pytest.mark.parametrize(
    "witness, dtype, tolerance",
    [(central_difference, float, 1e-8), (complex_step, complex, 1e-14)],
)
def test_every_array_is_compared_with_the_witness(witness, dtype, tolerance, rng):
    arrays = {name: rng.normal(size=(2, 3)).astype(dtype) for name in "ab"}
    errors = check_gradients(
        lambda: cubes(arrays)[0], arrays, cubes(arrays)[1], witness
    )
    assert errors.keys() == {"a", "b"}
    assert max(error.norm for error in errors.values()) < tolerance


def test_a_wrong_gradient_shows_under_its_name(rng):
    arrays = {name: rng.normal(size=(2, 3)) for name in "ab"}
    loss, grads = cubes(arrays)
    grads["b"] = grads["b"] / 3
    errors = check_gradients(lambda: cubes(arrays)[0], arrays, grads)
    assert errors["a"].norm < 1e-8
    assert np.isclose(errors["b"].norm, 2 / 3)


def test_a_gradient_that_is_zero_in_theory_is_not_compared_with_rounding(rng):
    arrays = {"a": rng.normal(size=3), "idle": rng.normal(size=3)}
    grads = {"a": 2 * arrays["a"], "idle": np.full(3, 1e-16)}
    errors = check_gradients(lambda: (arrays["a"] ** 2).sum(), arrays, grads)
    assert errors["idle"].norm < 1e-9


def test_probes_are_drawn_without_repetition(rng):
    arrays = {"a": rng.normal(size=(4, 5)), "b": rng.normal(size=2)}
    probed = {}

    def witness(f, array, at):
        probed[array.size] = at
        return 2 * array.flat[at]

    grads = {name: 2 * array for name, array in arrays.items()}
    errors = check_gradients(lambda: 0.0, arrays, grads, witness, 7, rng)
    assert len(set(probed[20])) == 7 and len(set(probed[2])) == 2
    assert all(error == (0, 0) for error in errors.values())


@pytest.mark.parametrize(
    "grads, probes, message",
    [
        ({"b": np.ones(2)}, None, "grads: expected 1 names, missing a; unknown b"),
        ({"a": np.ones((2, 1))}, None, r"grads: a: .* \(2\), got \(2, 1\)"),
        ({"a": None}, None, "grads: a: expected a NumPy array, got NoneType"),
        ({"a": np.ones(2)}, 1, "rng: expected a generator to draw the probes, got No"),
    ],
)
def test_gradients_that_do_not_fit_their_arrays_are_named(grads, probes, message):
    with pytest.raises(ValueError, match=message):
        check_gradients(lambda: 0.0, {"a": np.ones(2)}, grads, probes=probes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_few_digits_need_a_step_of_their_own(dtype):
    x = np.ones(3, dtype)
    with pytest.raises(ValueError, match=f"x: expected float64, got {x.dtype}, which"):
        central_difference(lambda x: (x * x).sum(), x)
    with pytest.raises(ValueError, match=f"f: expected float64, got {x.dtype}, which"):
        central_difference(lambda x: (x * x).sum().astype(dtype), np.ones(3))
    measured = central_difference(lambda x: (x * x).sum(), x, h=0.25)
    assert np.array_equal(measured, [2, 2, 2])


@pytest.mark.parametrize("x, h", [(1e12, None), (np.float32(1), 1e-8), (1e300, 1.0)])
def test_a_step_that_rounding_takes_away_is_named(x, h):
    with pytest.raises(ValueError, match="h: expected a step that changes 1"):
        central_difference(lambda x: x.sum(), np.array([x]), h)


@pytest.mark.parametrize("x, h", [(1e10, None), (np.float32(100), np.float64(1e-5))])
def test_a_step_that_rounding_changes_is_taken_as_it_is(x, h):
    start = np.array([x])
    measured = central_difference(lambda x: 3 * (x - start).sum(), start.copy(), h)
    assert np.array_equal(measured, [3])


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e30])
def test_the_error_neither_overflows_nor_underflows(size):
    one, other = np.array([[3, 4], [3, 0]]) * np.float32(size)
    error = gradient_error(one, other)
    assert np.isclose(error.norm, 4 / 5, rtol=1e-4) and error.worst == 1
    assert np.isclose(gradient_error(one * 1e250, other * 1e250).norm, 4 / 5, rtol=1e-4)


def test_small_integers_do_not_wrap():
    one, other = np.array([100, -128], np.int8), np.array([-100, 100], np.int8)
    assert gradient_error(one, other) == gradient_error(one * 1.0, other * 1.0)


def test_the_error_of_what_is_infinite_is_not_a_number():
    infinite, one = np.array([np.inf, 1.0]), np.ones(2)
    for pair in [(infinite, one), (one, infinite), (infinite, infinite)]:
        assert np.isnan(gradient_error(*pair)).all()


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_a_gradient_that_is_not_finite_is_named(rng, wrong):
    arrays = {name: rng.normal(size=3) for name in "ab"}
    loss, grads = cubes(arrays)
    grads["b"][1] = wrong
    with pytest.raises(ValueError, match="grads: b: expected finite numbers, got"):
        check_gradients(lambda: cubes(arrays)[0], arrays, grads)


def test_large_float32_gradients_do_not_make_others_small(rng):
    arrays = {"a": rng.normal(size=3), "b": rng.normal(size=3)}
    grads = {"a": np.full(3, 1e30, np.float32), "b": np.ones(3, np.float32)}

    def witness(f, array, at):
        return grads["a"][at] * (1 if array is arrays["a"] else 2)

    errors = check_gradients(lambda: 0.0, arrays, grads, witness)
    assert errors["a"].norm == 0 and np.isclose(errors["b"].norm, 1)
