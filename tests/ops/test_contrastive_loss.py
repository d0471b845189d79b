import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.ops import contrastive_loss, contrastive_loss_backward, l2_normalize
from transformer_core.ops.contrastive_loss import ContrastiveLossCache
from transformer_core.ops.cross_entropy import CrossEntropyCache

temperatures = st.floats(0.05, 5)


def drawn(rng, batch, more, width):
    return rng.normal(size=(batch, width)), rng.normal(size=(batch + more, width))


@pytest.mark.equation("eq:contrastive-loss-backward")
@pytest.mark.parametrize("name", [name for name in OPS if name.startswith("contrastive_loss")])
def test_gradients_agree_with_the_witnesses(check, name):
    check.op(OPS[name])


@pytest.mark.equation("eq:contrastive-loss-backward")
def test_gradient_of_the_temperature_agrees_with_the_witnesses(check, rng):
    query, key = drawn(rng, 3, 1, 5)
    tau = np.array(0.5, check.witness.dtype)
    check.compare(
        lambda: contrastive_loss(query, key, tau[()]),
        lambda dy, cache: {"tau": np.asarray(contrastive_loss_backward(dy, cache)[2])},
        {"tau": tau},
    )


@pytest.mark.thorough
@pytest.mark.equation("eq:contrastive-loss-backward")
def test_gradients_are_exact():
    query, key = symbols("q", 2, 2), symbols("k", 3, 2)
    tau = sympy.Symbol("tau", positive=True)
    scores = query @ key.T / tau
    p = np.vectorize(sympy.exp)(scores)
    total = p.sum(axis=-1, keepdims=True)
    loss = (np.vectorize(sympy.log)(total[:, 0]) - scores.diagonal()).sum() / 2
    share = np.full(2, sympy.Rational(1, 2))
    inner = CrossEntropyCache(p / total, np.arange(2), share)
    cache = ContrastiveLossCache(query, key, scores, tau, inner)
    *gradients, dtau = contrastive_loss_backward(sympy.Integer(1), cache)
    assert_exact(loss, [query, key, np.array(tau)], [*gradients, np.array(dtau)])


@pytest.mark.equation("eq:contrastive-loss")
def test_two_queries_by_hand():
    query, key = np.array([[1.0, 0], [0, 1]]), np.array([[0.6, 0.8], [0, 1]])
    loss, cache = contrastive_loss(query, key, 0.2)
    assert np.allclose(cache.scores, [[3, 0], [4, 5]])
    assert np.isclose(loss, (np.log1p(np.exp(-3)) + np.log1p(np.exp(-1))) / 2)


@pytest.mark.equation("eq:contrastive-sum")
@given(generators, sizes, st.integers(0, 3), sizes, temperatures)
def test_the_gradients_of_the_keys_sum_to_zero(rng, batch, more, width, tau):
    query, key = drawn(rng, batch, more, width)
    loss, cache = contrastive_loss(query, key, tau)
    _, dkey, _ = contrastive_loss_backward(1.0, cache)
    assert np.allclose(dkey.sum(axis=0), 0, atol=1e-11)
    shifted, _ = contrastive_loss(query, key + rng.normal(size=width), tau)
    assert np.isclose(shifted, loss, atol=1e-9)


@pytest.mark.equation("eq:contrastive-euler")
@given(generators, sizes, st.integers(0, 3), sizes, temperatures)
def test_queries_keys_and_temperature_agree_about_the_scale(rng, batch, more, width, tau):
    query, key = drawn(rng, batch, more, width)
    _, cache = contrastive_loss(query, key, tau)
    dquery, dkey, dtau = contrastive_loss_backward(1.0, cache)
    assert np.isclose((dquery * query).sum(), -tau * dtau, atol=1e-9)
    assert np.isclose((dkey * key).sum(), -tau * dtau, atol=1e-9)


@pytest.mark.equation("eq:contrastive-least")
@given(generators, st.integers(2, 6), sizes, temperatures)
def test_the_loss_of_unit_vectors_has_a_floor(rng, batch, width, tau):
    query, key = (l2_normalize(x)[0] for x in drawn(rng, batch, 0, width))
    floor = np.log1p((batch - 1) * np.exp(-batch / (batch - 1) / tau))
    assert contrastive_loss(query, key, tau)[0] >= floor - 1e-12
    corners = np.eye(batch) - 1 / batch  # of a regular simplex, around its centre
    corners, _ = l2_normalize(corners)
    assert np.isclose(contrastive_loss(corners, corners, tau)[0], floor, rtol=1e-9)


@given(st.integers(1, 6), st.integers(0, 3), temperatures)
def test_vectors_that_are_alike_have_the_loss_of_guessing(batch, more, tau):
    loss, _ = contrastive_loss(np.ones((batch, 3)), np.ones((batch + more, 3)), tau)
    assert np.isclose(loss, np.log(batch + more))


def test_too_few_keys_are_named():
    with pytest.raises(ValueError, match="key: expected at least 3, one for each query, got 2"):
        contrastive_loss(np.ones((3, 4)), np.ones((2, 4)), 0.1)
