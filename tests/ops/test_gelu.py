import importlib
import subprocess
import sys
from math import erf, pi, sqrt

import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import gelu, gelu_backward, gelu_tanh, gelu_tanh_backward
from transformer_core.ops.gelu import GeluCache, GeluTanhCache

FORMS = {"gelu": (gelu, gelu_backward), "gelu_tanh": (gelu_tanh, gelu_tanh_backward)}

each_form = pytest.mark.parametrize("form", FORMS)


def derivative(form, x):
    forward, backward = FORMS[form]
    return backward(np.ones_like(x), forward(x)[1])


@pytest.fixture
def exact(symbolic, monkeypatch):
    """Give the module the constants of its formulas, not their rounded values."""
    module = importlib.import_module("transformer_core.ops.gelu")
    monkeypatch.setattr(sympy.Expr, "tanh", lambda a: sympy.tanh(a), raising=False)
    monkeypatch.setattr(module, "sqrt", sympy.sqrt)
    monkeypatch.setattr(module, "pi", sympy.pi)
    monkeypatch.setattr(module, "SLOPE", sympy.sqrt(2 / sympy.pi))
    monkeypatch.setattr(module, "CUBIC", sympy.Rational("0.044715"))


@pytest.mark.equation("eq:gelu-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["gelu"])


@pytest.mark.equation("eq:gelu-tanh-backward")
def test_gradient_of_the_tanh_form_agrees_with_the_witnesses(check):
    check.op(OPS["gelu_tanh"])


@pytest.mark.equation("eq:gelu-backward")
def test_gradient_is_exact(exact):
    x, dy = symbols("x", 1), symbols("d", 1)
    probability = np.array([(1 + sympy.erf(x[0] / sympy.sqrt(2))) / 2])
    dx = gelu_backward(dy, GeluCache(x, probability))
    assert_exact((x * probability * dy).sum(), [x], [dx])


@pytest.mark.equation("eq:gelu-tanh-backward")
def test_gradient_of_the_tanh_form_is_exact(exact):
    x, dy = symbols("x", 1), symbols("d", 1)
    u = sympy.sqrt(2 / sympy.pi) * (x[0] + sympy.Rational("0.044715") * x[0] ** 3)
    tanh = np.array([sympy.tanh(u)])
    assert_exact(
        (x * (1 + tanh) / 2 * dy).sum(), [x], [gelu_tanh_backward(dy, GeluTanhCache(x, tanh))]
    )


@pytest.mark.equation("eq:gelu")
@given(generators, sizes, sizes)
def test_values_are_those_of_the_formula(rng, rows, columns):
    x = rng.normal(0, 3, (rows, columns))
    expected = [a * (1 + erf(a / sqrt(2))) / 2 for a in x.flat]
    assert np.allclose(gelu(x)[0].ravel(), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.equation("eq:gelu-single")
def test_single_precision_is_that_of_the_formula_to_a_rounding_or_two():
    x = np.linspace(-12, 12, 2_400_001, dtype=np.float32)  # in many parts
    y, (_, probability) = gelu(x)
    expected = gelu(x.astype(float))[1].probability
    assert np.abs(probability - expected).max() < 1e-7
    assert np.allclose(y, x * expected, rtol=1e-6, atol=6e-7)
    assert probability.dtype == y.dtype == np.float32
    assert probability[x.size // 2] == 0.5
    assert np.array_equal(probability[-1000:], np.ones(1000))
    assert np.array_equal(probability[:1000], np.zeros(1000))


def test_in_single_precision_no_number_depends_on_its_place(rng):
    x = rng.normal(0, 3, (3, 70_001)).astype(np.float32)
    y, _ = gelu(x)
    assert np.array_equal(gelu(x[:, 5:8])[0], y[:, 5:8])
    assert np.array_equal(gelu(x.T)[0], y.T)


@pytest.mark.equation("eq:gelu-tanh")
@given(generators, sizes, sizes)
def test_values_of_the_tanh_form_are_those_of_the_formula(rng, rows, columns):
    x = rng.normal(0, 3, (rows, columns))
    u = np.sqrt(2 / pi) * (x + 0.044715 * x**3)
    expected = x * (1 + np.tanh(u)) / 2
    assert np.allclose(gelu_tanh(x)[0], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.equation("eq:activation-mirror")
@each_form
@given(generators, sizes, sizes)
def test_the_output_and_its_mirror_image_differ_by_the_input(form, rng, rows, columns):
    x = rng.normal(0, 3, (rows, columns))
    forward, _ = FORMS[form]
    assert np.allclose(forward(x)[0] - forward(-x)[0], x, rtol=1e-14)
    assert np.allclose(derivative(form, x) + derivative(form, -x), 1, rtol=1e-14)


def test_the_two_forms_differ_by_less_than_a_thousandth():
    x = np.linspace(-8, 8, 160_001)
    difference = np.abs(gelu(x)[0] - gelu_tanh(x)[0])
    assert 4.73e-4 < difference.max() < 4.74e-4
    assert np.isclose(abs(x[difference.argmax()]), 2.70, atol=0.005)


@each_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero_it_is_relu(form, dtype):
    x = np.array([-1e4, -50, 0, 50, 1e4], dtype)
    with np.errstate(all="raise", under="ignore"):
        y, _ = FORMS[form][0](x)
        dx = derivative(form, x)
    assert np.array_equal(y, [0, 0, 0, 50, 1e4])
    assert np.array_equal(dx, [0, 0, 0.5, 1, 1])


@each_form
def test_the_derivative_is_0_or_1_as_far_as_numbers_go(form):
    x = np.array([-3e38, -1e20, -1e13, 1e13, 1e20, 3e38], np.float32)
    with np.errstate(over="ignore"):
        assert np.array_equal(derivative(form, x), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_numbers_that_scipy_would_cut_are_named(dtype):
    with pytest.raises(ValueError, match="^x: expected at most 64 bits a number"):
        gelu(np.ones(2, dtype))


def test_without_scipy_all_forms_run_in_single_precision_and_all_but_one_in_double():
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "import numpy as np\n"
        "from transformer_core.layers import FeedForward\n"
        "for dtype in (np.float32, np.float64):\n"
        "    for activation in ('relu', 'gelu_tanh', 'gelu'):\n"
        "        layer = FeedForward(2, 3, np.random.default_rng(0), dtype, activation)\n"
        "        layer.forward(np.ones((1, 2), dtype))\n"
        "        print(activation)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["relu", "gelu_tanh", "gelu", "relu", "gelu_tanh"]
    assert "ModuleNotFoundError" in done.stderr and "scipy" in done.stderr
