import re
from functools import partial

import numpy as np
import pytest
from helpers.cases import OPS
from helpers.witnesses import causal, generators, sizes
from hypothesis import given

from transformer_core import ops
from transformer_core.gradient_check import (
    GradientError,
    central_difference,
    check_backward,
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
        (central_difference(lambda x: np.exp(x).sum(), x, h) - np.e).item() for h in (1e-2, 1e-3)
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
    parent = rng.normal(size=(4, 3)).astype(complex if witness is complex_step else float)
    measured = witness(lambda _: (parent**2).sum(), parent.T)
    assert np.allclose(measured, 2 * parent.T.real, atol=1e-9)


@pytest.mark.parametrize("witness, dtype", [(central_difference, float), (complex_step, complex)])
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
    assert np.array_equal(complex_step(lambda z: (z * z).sum(), np.arange(3)), [0, 2, 4])


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


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_the_error_of_what_is_not_finite_is_not_a_number(wrong):
    bad, one = np.array([wrong, 1.0]), np.ones(2)
    for pair in [(bad, one), (one, bad), (bad[::-1], one), (bad, bad)]:
        assert np.isnan(gradient_error(*pair)).all()


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
    "witness, dtype, tolerance", [(central_difference, float, 1e-8), (complex_step, complex, 1e-14)]
)
def test_every_array_is_compared_with_the_witness(witness, dtype, tolerance, rng):
    arrays = {name: rng.normal(size=(2, 3)).astype(dtype) for name in "ab"}
    errors = check_gradients(lambda: cubes(arrays)[0], arrays, cubes(arrays)[1], witness)
    assert errors.keys() == {"a", "b"}
    assert max(error.norm for error in errors.values()) < tolerance


def test_a_wrong_gradient_shows_under_its_name(rng):
    arrays = {name: rng.normal(size=(2, 3)) for name in "ab"}
    loss, grads = cubes(arrays)
    grads["b"] = grads["b"] / 3
    errors = check_gradients(lambda: cubes(arrays)[0], arrays, grads)
    assert errors["a"].norm < 1e-8
    assert np.isclose(errors["b"].norm, 2 / 3)


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


# --- the verdict ------------------------------------------------------------------------


def at_a_point(dtype=float, **factors):
    """Give the arrays of ``cubes``, and gradients wrong by a factor."""
    rng = np.random.default_rng(1)
    arrays = {name: rng.normal(size=(2, 3)).astype(dtype) for name in "ab"}
    grads = cubes(arrays)[1]
    return arrays, {name: factors.get(name, 1) * grads[name] for name in "ab"}


@pytest.mark.parametrize(
    "witness, dtype, kind, limit",
    [
        (central_difference, float, "central differences", 1e-7),
        (complex_step, complex, "complex step", 1e-12),
    ],
)
def test_the_verdict_depends_on_how_sharp_the_witness_is(witness, dtype, kind, limit):
    def verdict(error):
        arrays, grads = at_a_point(dtype, b=1 - error)
        report = check_gradients(lambda: cubes(arrays)[0], arrays, grads, witness)
        return report.right, report.verdict

    def measure(size):
        return f"{size:.2g} in b ({kind}, limit {limit:.0e})"

    right, sentence = verdict(limit / 5)
    assert right and sentence == f"right: largest relative error {measure(limit / 5)}"
    right, sentence = verdict(limit * 20)
    assert not right and sentence.startswith("cannot tell: a relative error of ")
    assert f"e{'-11' if dtype is complex else '-06'} in b ({kind}" in sentence
    right, sentence = verdict(limit * 2e4)
    assert not right
    expected = measure(limit * 2e4).replace(" in b", "")
    assert sentence == f"wrong in b: relative error up to {expected}"


def test_a_report_gives_the_verdict_first_then_the_largest_errors_then_warnings():
    arrays, grads = at_a_point(a=0.5)
    report = check_gradients(lambda: cubes(arrays)[0], arrays, grads)
    first, a, b = str(report).split("\n")
    assert first == report.verdict == f"wrong in a: {report.reason}"
    assert a == "  a  0.5" and b.startswith("  b  ")
    assert list(report) == ["a", "b"] and report["a"].norm == report["a"][0]

    arrays["a"][...] = 1
    report = check_gradients(lambda: cubes(arrays)[0], arrays, cubes(arrays)[1])
    assert str(report).split("\n")[-1] == report.warnings[0]
    assert report.right
    assert report.verdict.startswith("right as far as this check shows: largest")


def test_a_long_report_shows_the_worst_of_many():
    arrays = {f"array {n}": np.array([1.0, 2.0]) for n in range(15)}
    grads = {name: np.ones(2) for name in arrays}
    grads["array 14"] = np.array([1.0, 1.5])
    report = check_gradients(lambda: sum(a.sum() for a in arrays.values()), arrays, grads)
    lines = str(report).split("\n")
    assert len(lines) == 14 and lines[1].startswith("  array 14  0.")
    assert lines[-1] == "  3 more, with smaller errors"


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("what", ["arrays", "grads"])
def test_few_bits_cannot_tell(what, dtype):
    arrays, grads = at_a_point(a=1.01)
    low = arrays if what == "arrays" else grads
    low["a"] = low["a"].astype(dtype)
    witness = partial(central_difference, h=1e-2)
    report = check_gradients(lambda: cubes(arrays)[0], arrays, grads, witness)
    assert report.verdict == (f"cannot tell: a is in {np.dtype(dtype)}, and a check needs 64 bits")


def test_a_loss_that_draws_anew_cannot_tell(rng):
    arrays, grads = at_a_point()
    report = check_gradients(
        lambda: cubes(arrays)[0] * rng.normal(), arrays, grads, central_difference
    )
    assert report.verdict.startswith("cannot tell: the loss changes from call to call")


@pytest.mark.parametrize("loss", [np.inf, np.nan])
def test_a_loss_that_is_not_finite_cannot_tell(loss):
    arrays, grads = at_a_point()
    with np.errstate(invalid="ignore"):
        report = check_gradients(lambda: loss, arrays, grads)
    assert report.verdict == f"cannot tell: the loss is {loss}"


def test_a_gradient_that_drowns_in_the_rounding_of_the_loss_cannot_tell():
    arrays, grads = at_a_point()
    report = check_gradients(lambda: cubes(arrays)[0] + 1e13, arrays, grads)
    assert report.outcome == "cannot tell"
    assert report.reason == "the rounding of a loss of 1e+13 hides the gradient of a, b"
    arrays, grads = at_a_point(complex)
    report = check_gradients(lambda: cubes(arrays)[0] + 1e13, arrays, grads, complex_step)
    assert report.outcome == "cannot tell"
    arrays, grads = at_a_point()
    assert check_gradients(lambda: cubes(arrays)[0] + 100, arrays, grads).right


@pytest.mark.parametrize("zero", [0.0, 1e-17])
def test_a_gradient_of_zeros_alone_cannot_tell(zero):
    x = {"x": np.array([1.0, 2.0])}
    report = check_gradients(lambda: 0.0, x, {"x": np.full(2, zero)})
    assert report.outcome == "cannot tell"


def test_a_backward_pass_that_returns_zeros_is_wrong():
    arrays, _ = at_a_point()
    grads = {name: np.zeros((2, 3)) for name in arrays}
    report = check_gradients(lambda: cubes(arrays)[0], arrays, grads)
    assert report.outcome == "wrong in a, b" and report.warnings == []


def test_real_arrays_for_the_complex_step_are_told_what_to_do():
    arrays, grads = at_a_point()
    message = r"arrays: a: expected complex numbers.* float64; .* array.astype\(complex\)"
    with pytest.raises(ValueError, match=message):
        check_gradients(lambda: cubes(arrays)[0], arrays, grads, complex_step)


def test_no_arrays_are_named():
    with pytest.raises(ValueError, match="arrays: expected at least one, got none"):
        check_gradients(lambda: 0.0, {}, {})


# --- special points ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "array, warning",
    [
        (np.ones(3), r"All entries of a \(3,\) are equal"),
        (np.zeros(1), r"All entries of a \(1,\) are equal"),
        (np.array([[1.0, 2.0, 4.0]]), r"An axis of a \(1, 3\) has the size 1"),
        (np.array([[1.0, 2.0], [3.0, 5.0]]), r"Two sizes are equal in a \(2, 2\)"),
        (np.array([[1.0, 2.0], [2.0, 5.0]]), r"a \(2, 2\) is symmetric"),
    ],
)
@every_witness
def test_a_special_point_is_warned_of(witness, array, warning):
    dtype = complex if witness is complex_step else float
    arrays = {"a": array.astype(dtype), "b": np.array([0.3, -0.7]).astype(dtype)}
    grads = {"a": np.exp(arrays["a"]), "b": np.exp(arrays["b"])}
    report = check_gradients(
        lambda: sum(np.exp(a).sum() for a in arrays.values()), arrays, grads, witness
    )
    assert report.right
    warned = [text for text in report.warnings if re.match(warning, text)]
    assert len(warned) == 1


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (4, 2, 3)])
def test_a_generic_point_is_not_warned_of(rng, shape):
    arrays = {"a": rng.normal(size=shape)}
    report = check_gradients(lambda: np.exp(arrays["a"]).sum(), arrays, {"a": np.exp(arrays["a"])})
    assert report.right and report.warnings == []


def test_a_gradient_of_zeros_beside_others_is_not_compared_with_rounding_but_warned_of(rng):
    arrays = {"a": rng.normal(size=3), "idle": rng.normal(size=3)}
    grads = {"a": 2 * arrays["a"], "idle": np.full(3, 1e-16)}
    report = check_gradients(lambda: (arrays["a"] ** 2).sum(), arrays, grads)
    assert report.right and report["idle"].norm < 1e-9
    assert [text[:27] for text in report.warnings] == ["The gradient of idle (3,) i"]


def test_what_was_not_measured_is_said(rng):
    arrays, grads = at_a_point()
    report = check_gradients(lambda: cubes(arrays)[0], arrays, grads, probes=4, rng=rng)
    assert report.right
    assert report.warnings == ["Of a (2, 3), b (2, 3) only 4 entries were measured."]


# --- a function and its backward pass ---------------------------------------------------

LAYER_NORM = {"x": (2, 3, 5), "gamma": (5,), "beta": (5,)}
FRESH = {"x": (1, 3, 5), "gamma": np.ones(5), "beta": np.zeros(5)}


def gamma_outside(dy, cache):
    """LayerNorm's backward pass with gamma outside the means."""
    _, dgamma, dbeta = ops.layer_norm_backward(dy, cache)
    plain = cache._replace(gamma=np.ones(5))
    return cache.gamma * ops.layer_norm_backward(dy, plain)[0], dgamma, dbeta


THOROUGH = {f"tiled_attention, {mask}" for mask in ("padding", "causal", "a query without keys")}


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=[pytest.mark.thorough] if name in THOROUGH else [], id=name)
        for name, op in OPS.items()
    ],
)
def test_every_op_is_right_at_the_point_that_is_drawn(op):
    forward = partial(op.forward, **op.settings)
    report = check_backward(forward, op.backward, **op.shapes)
    assert report.right and report.keys() == op.shapes.keys()
    assert "complex step" in report.verdict


def test_gamma_outside_the_means_is_wrong_at_the_point_that_is_drawn():
    report = check_backward(ops.layer_norm, gamma_outside, **LAYER_NORM)
    assert report.outcome == "wrong in x" and report["x"].norm > 0.1
    assert report.warnings == []


def test_a_newcomers_point_passes_it_with_warnings():
    report = check_backward(ops.layer_norm, gamma_outside, cotangent=np.ones((1, 3, 5)), **FRESH)
    assert report.verdict.startswith("right as far as this check shows")
    assert [text.partition(":")[0] for text in report.warnings] == [
        "All entries of beta (5,), gamma (5,) are equal",
        "An axis of x (1, 3, 5) has the size 1",
        "The gradient of x (1, 3, 5) is 0, or nearly",
        "The cotangent is constant along the last axis",
    ]


def test_the_cotangent_is_drawn():
    def zeros(dweights, cache):
        return np.zeros_like(dweights)

    assert check_backward(ops.softmax, zeros, x=(2, 3, 5)).outcome == "wrong in x"
    ones = np.ones((2, 3, 5))
    report = check_backward(ops.softmax, zeros, cotangent=ones, x=(2, 3, 5))
    assert report.outcome == "cannot tell"


def test_the_seed_draws_the_point():
    one, again, other = (
        check_backward(ops.layer_norm, gamma_outside, seed=seed, **LAYER_NORM) for seed in (1, 1, 2)
    )
    assert one == again and one["x"] != other["x"]


def test_equal_sizes_on_the_way_are_warned_of():
    shapes = {"query": (2, 3, 4, 6), "key": (2, 3, 4, 6), "value": (2, 3, 4, 5)}
    report = check_backward(ops.attention, ops.attention_backward, keep=causal(4), **shapes)
    assert report.right
    assert [text.partition(":")[0] for text in report.warnings] == [
        "Two sizes are equal in (2, 3, 4, 4)"
    ]


def by_deviation(x):
    """Divide by ``np.std``, which loses the imaginary part."""
    return x / np.std(x, axis=-1, keepdims=True), {"x": [x]}


def by_deviation_backward(dy, cache):
    (x,) = cache["x"]
    centred = x - x.mean(axis=-1, keepdims=True)
    std = x.std(axis=-1, keepdims=True)
    return dy / std - centred * (dy * x).mean(axis=-1, keepdims=True) / std**3


def test_central_differences_decide_where_the_complex_step_is_lost():
    report = check_backward(by_deviation, by_deviation_backward, x=(2, 3, 5))
    assert report.right and "central differences" in report.verdict
    assert report.warnings[0].startswith("The complex step measures something else")
    twice = check_backward(
        by_deviation, lambda dy, cache: 2 * by_deviation_backward(dy, cache), x=(2, 3, 5)
    )
    assert twice.outcome == "wrong in x" and np.isclose(twice["x"].norm, 0.5)


def test_a_term_that_is_lost_on_both_sides_is_wrong():
    report = check_backward(
        by_deviation, lambda dy, cache: dy / np.std(cache["x"][0], -1, keepdims=True), x=(2, 3, 5)
    )
    assert report.outcome == "wrong in x" and report["x"].norm > 0.1


def test_the_complex_step_decides_where_rounding_hides_the_gradient():
    def shifted(x):
        return x * x + 1e10, x

    report = check_backward(shifted, lambda dy, x: 2 * dy * x, x=(2, 3))
    assert report.verdict.startswith("right: ") and "complex step" in report.verdict
    report = check_backward(shifted, lambda dy, x: dy * x, x=(2, 3))
    assert report.outcome == "cannot tell" and "not be analytic" in report.warnings[0]


@pytest.mark.parametrize(
    "square",
    [
        lambda x: (abs(x) ** 2, x),
        lambda x: (x.astype(float) ** 2, x),
        lambda x: (np.array([[float(entry) ** 2 for entry in row] for row in x]), x),
    ],
)
def test_a_function_of_real_numbers_alone_has_central_differences(square):
    report = check_backward(square, lambda dy, x: 2 * dy * x, x=(2, 3))
    assert report.verdict.startswith("right: ") and "central" in report.verdict


def test_a_function_may_write_into_what_it_is_given(rng):
    def halve(x, keep):
        x *= 0.5 * keep
        keep[...] = False
        return x, None

    x, keep = rng.normal(size=(2, 3)), np.ones((2, 3), bool)
    before = x.copy()
    report = check_backward(halve, lambda dy, cache: dy / 2, x=x, keep=keep)
    assert report.right and np.array_equal(x, before) and keep.all()


def test_a_generator_starts_anew_in_every_call():
    def call(forward, **settings):
        return check_backward(forward, ops.dropout_backward, x=(2, 3, 4), **settings)

    generator = np.random.default_rng(3)
    assert call(ops.dropout, rate=0.3, rng=generator).right
    drawn = call(lambda x: ops.dropout(x, 0.3, generator))
    assert drawn.verdict.startswith("cannot tell: the loss changes")


def test_float32_is_taken_as_float64():
    x = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)
    assert check_backward(ops.gelu, ops.gelu_backward, x=x).right


def test_an_array_without_a_gradient_is_hidden_in_a_partial(rng):
    targets, weights = np.array([[0, 4, 2], [2, 2, 1]]), rng.random((2, 3))
    forward = partial(ops.cross_entropy, weights=weights)
    backward = ops.cross_entropy_backward
    assert check_backward(forward, backward, logits=(2, 3, 5), targets=targets).right


def identity(x, **settings):
    return x, None


def hand_on(dy, cache):
    return dy


@pytest.mark.parametrize(
    "forward, backward, arguments, message",
    [
        (identity, hand_on, {}, "arguments: expected a shape or an array of floats"),
        (identity, hand_on, {"x": np.ones(3, int)}, "arguments: expected a shape or"),
        (lambda x: x, hand_on, {"x": (3,)}, r"forward: .* \(y, cache\), got ndarray"),
        (lambda x: None, hand_on, {"x": (3,)}, r"forward: .* cache\), got NoneType"),
        (lambda x: (x, x, x), hand_on, {"x": (3,)}, r"forward: .* cache\), got tuple"),
        (identity, hand_on, {"x": (3,), "b": (3,)}, "2 gradients, of x, b; got 1"),
        (identity, lambda dy, _: (dy, dy), {"x": (3,)}, "1 gradients, of x; got 2"),
        (identity, lambda dy, _: None, {"x": (3,)}, "x: .* NumPy array, got NoneType"),
        (identity, lambda dy, _: dy[:2], {"x": (3,)}, r"x: .* \(3\), got \(2,\)"),
        (identity, lambda dy, _: dy * np.nan, {"x": (3,)}, "grads: x: expected finite"),
        (
            identity,
            hand_on,
            {"x": (3,), "cotangent": np.ones(4)},
            r"cotangent: expected shape \(3\), got \(4,\)",
        ),
        (
            lambda x: (x.astype(np.float32), None),
            hand_on,
            {"x": (3,)},
            "y: expected float64 from float64, got float32",
        ),
    ],
)
def test_what_cannot_be_checked_is_named(forward, backward, arguments, message):
    with pytest.raises(ValueError, match=message):
        check_backward(forward, backward, **arguments)


@pytest.mark.parametrize("witness, dtype", [(central_difference, float), (complex_step, complex)])
def test_an_array_that_cannot_be_stepped_is_named(witness, dtype):
    x = np.ones(2, dtype)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="x: expected an array that can be changed"):
        witness(lambda x: (x * x).sum(), x)
    assert np.allclose(complex_step(lambda x: (x * x).sum(), x.real), 2)  # steps a copy
