import numpy as np
import pytest
import sympy
from helpers.cases import LAYERS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, randomise, sizes
from hypothesis import given

from book.sentence import EMBEDDING
from transformer_core.layers import FeedForward, LayerNorm, Linear, MultiHeadSelfAttention, Residual
from transformer_core.ops import layer_norm, layer_norm_backward


def draw(rng, batch, length, width, norm):
    branch = FeedForward(width, width + 1, rng, np.float64)
    layer = randomise(Residual(branch, LayerNorm(width, np.float64), norm), rng)
    return layer, rng.normal(size=(batch, length, width))


@pytest.mark.equation("eq:post-ln")
@pytest.mark.equation("eq:post-ln-backward")
def test_post_ln_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["Residual, post"])


@pytest.mark.equation("eq:pre-ln")
@pytest.mark.equation("eq:pre-ln-backward")
def test_pre_ln_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["Residual, pre"])


@pytest.mark.equation("eq:post-ln")
@given(generators, sizes, sizes, sizes)
def test_post_ln_normalises_the_sum(rng, batch, length, width):
    layer, x = draw(rng, batch, length, width, "post")
    branch, _ = layer.branch.forward(x)
    expected, _ = layer_norm(x + branch, layer.norm.gamma, layer.norm.beta)
    assert np.allclose(layer.forward(x)[0], expected, rtol=1e-12)


@pytest.mark.equation("eq:pre-ln")
@given(generators, sizes, sizes, sizes)
def test_pre_ln_normalises_the_input_of_the_branch(rng, batch, length, width):
    layer, x = draw(rng, batch, length, width, "pre")
    normalised, _ = layer_norm(x, layer.norm.gamma, layer.norm.beta)
    branch, _ = layer.branch.forward(normalised)
    assert np.allclose(layer.forward(x)[0], x + branch, rtol=1e-12)


@pytest.mark.equation("eq:pre-ln-backward")
@given(generators, sizes, sizes, sizes)
def test_the_pre_ln_jacobian_is_the_identity_and_that_of_the_branch(rng, length, heads, width):
    """Of the last position's output: sequence i of a batch of copies gets row i."""
    model_width = heads * width
    branch = MultiHeadSelfAttention(model_width, heads, rng, np.float64)
    layer = randomise(Residual(branch, LayerNorm(model_width, np.float64), "pre"), rng)
    x = np.tile(rng.normal(size=(length, model_width)), (model_width, 1, 1))
    rows = np.zeros_like(x)
    rows[:, -1] = np.eye(model_width)
    jacobian, _ = layer.backward(rows, layer.forward(x)[1])

    normalised, norm_cache = layer.norm.forward(x)
    dnormalised, _ = branch.backward(rows, branch.forward(normalised)[1])
    of_the_branch, _ = layer.norm.backward(dnormalised, norm_cache)
    assert np.allclose(jacobian - of_the_branch, rows, rtol=0, atol=1e-9)


@pytest.mark.parametrize("norm", ["post", "pre"])
@given(generators, sizes, sizes, sizes)
def test_past_a_silent_branch_the_gradient_passes_through(norm, rng, batch, length, width):
    layer, x = draw(rng, batch, length, width, norm)
    layer.branch.output.weight[...] = 0
    y, cache = layer.forward(x)
    dy = rng.normal(size=y.shape)
    expected = dy if norm == "pre" else layer_norm_backward(dy, cache.norm)[0]
    assert np.array_equal(layer.backward(dy, cache)[0], expected)


def test_another_placement_is_named(rng):
    with pytest.raises(ValueError, match="placement: expected 'post' or 'pre', got 'Pre'"):
        Residual(FeedForward(4, 5, rng), LayerNorm(4), "Pre")


@pytest.mark.slow
@pytest.mark.parametrize(
    "norm",
    [
        pytest.param("post", marks=pytest.mark.equation("eq:post-ln-backward")),
        pytest.param("pre", marks=pytest.mark.equation("eq:pre-ln-backward")),
    ],
)
def test_gradients_are_exact(symbolic, norm):
    """Symbols for the input, the cotangent, the shifts and three weights; D = 3."""
    half, third = sympy.Rational(1, 2), sympy.Rational(1, 3)
    a, b, c = weights = symbols("w", 3)
    branch = Linear(3, 3, np.random.default_rng(0))
    branch.weight = np.array([[a, half, 0], [0, 2, b], [c, 0, -1]])
    branch.bias = symbols("b", 3)
    block = Residual(branch, LayerNorm(3, eps=half), norm)
    block.norm.gamma = np.array([sympy.Integer(2), third, sympy.Integer(-1)])
    block.norm.beta = symbols("h", 3)
    x, dy = symbols("x", 3), symbols("d", 3)
    y, cache = block.forward(x)
    dx, grads = block.backward(dy, cache)
    dweight = grads["branch.weight"]
    assert_exact(
        (y * dy).sum(),
        [x, branch.bias, block.norm.beta, weights],
        [dx, grads["branch.bias"], grads["norm.beta"], dweight[[0, 1, 2], [0, 2, 0]]],
    )


@pytest.mark.parametrize(
    "norm, y, dx",
    [("post", [2, 6, 2, -10], [26, -12, -10, 15]), ("pre", [19, 17, 12, -24], [111, -2, -2, 1])],
)
def test_the_block_on_paper(norm, y, dx):
    block = Residual(Linear(4, 4, np.random.default_rng(0)), LayerNorm(4, np.float64), norm)
    block.branch.weight[...] = 0
    block.branch.weight[3, :2] = 0.5, -0.5
    out, cache = block.forward(EMBEDDING[:1])
    found, _ = block.backward(np.array([[12.0, 0, 0, 0]]), cache)
    assert np.allclose(6 * out[0], y, atol=1e-4)
    assert np.allclose(9 * found[0], dx, atol=1e-4)


@given(generators, sizes, sizes, sizes)
def test_a_second_layer_norm_changes_nothing_but_eps(rng, batch, length, width):
    x = rng.normal(size=(batch, length, width + 2))
    first, second = LayerNorm(width + 2, np.float64), LayerNorm(width + 2, np.float64)
    once, cache = first.forward(x)
    twice, second_cache = second.forward(once)
    variance = x.var(axis=-1, keepdims=True)
    factor = (variance / (variance + 1e-5) + 1e-5) ** -0.5
    assert np.allclose(twice, factor * once, rtol=1e-12)

    dy = rng.normal(size=x.shape)
    dx, _ = first.backward(dy, cache)
    dx_twice, _ = first.backward(second.backward(dy, second_cache)[0], cache)
    change = np.linalg.norm(dx_twice - dx, axis=-1, keepdims=True)
    size = np.linalg.norm(dy, axis=-1, keepdims=True) * cache.inv_std
    along_x_hat = 1e-5 / (variance + 1e-5)
    assert np.all(change <= size * (np.abs(factor - 1) + along_x_hat) + 1e-12)
