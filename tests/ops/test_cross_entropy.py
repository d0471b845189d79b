import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given, strategies

from book.sentence import KEY, QUERY
from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    log_softmax,
    softmax,
    softmax_backward,
)
from transformer_core.ops.cross_entropy import CrossEntropyCache

settings = pytest.mark.parametrize(
    "name", ["cross_entropy", "cross_entropy, weights"], ids=["plain", "weights"]
)
vocabularies = strategies.integers(2, 6)
smoothings = strategies.sampled_from([0.0, 0.1, 0.7])


def draw(rng, rows, vocabulary, spread=1.0):
    logits = rng.normal(0, spread, (rows, vocabulary))
    return logits, rng.integers(vocabulary, size=rows), rng.uniform(0.1, 2, rows)


def gradient(logits, targets, weights=None, smoothing=0):
    _, cache = cross_entropy(logits, targets, weights, smoothing)
    return cross_entropy_backward(1.0, cache)


@pytest.mark.equation("eq:cross-entropy-backward")
@settings
def test_gradient_agrees_with_the_witnesses(check, name):
    check.op(OPS[name])


@pytest.mark.equation("eq:cross-entropy-backward")
def test_gradient_is_exact(symbolic):
    z, w = symbols("z", 2, 3), np.array(sympy.symbols("w0:2", positive=True))
    dloss = sympy.Symbol("d", real=True)
    targets, share = np.array([2, 0]), w / w.sum()
    totals = np.exp(z).sum(axis=-1)
    loss = sum(share[n] * (sympy.log(totals[n]) - z[n, t]) for n, t in enumerate(targets))
    cache = CrossEntropyCache(np.exp(z) / totals[:, None], targets, share)
    assert_exact(loss * dloss, [z], [cross_entropy_backward(dloss, cache)])


@pytest.mark.equation("eq:label-smoothing-backward")
def test_gradient_agrees_with_the_witnesses_when_labels_are_smoothed(check):
    check.op(OPS["cross_entropy, smoothing"])


@pytest.mark.equation("eq:label-smoothing-backward")
def test_gradient_is_exact_when_labels_are_smoothed(symbolic):
    z, w = symbols("z", 2, 3), np.array(sympy.symbols("w0:2", positive=True))
    dloss, eps = sympy.symbols("d e", real=True)
    targets, share = np.array([2, 0]), w / w.sum()
    totals = np.exp(z).sum(axis=-1)
    q = (1 - eps) * np.eye(3, dtype=int)[targets] + eps * sympy.Rational(1, 3)
    loss = -(share[:, None] * q * (z - [[sympy.log(t)] for t in totals])).sum()
    cache = CrossEntropyCache(np.exp(z) / totals[:, None], targets, share, eps)
    assert_exact(loss * dloss, [z], [cross_entropy_backward(dloss, cache)])


@pytest.mark.equation("eq:log-sum-exp-gradient")
def test_gradient_of_log_sum_exp_is_softmax_exactly(symbolic):
    z = symbols("z", 3)
    total = np.exp(z).sum()
    assert_exact(sympy.log(total), [z], [np.exp(z) / total])


@pytest.mark.equation("eq:cross-entropy-backward")
@given(generators, sizes, vocabularies)
def test_both_derivations_agree(rng, rows, vocabulary):
    logits, targets, weights = draw(rng, rows, vocabulary)
    p, cache = softmax(logits)
    at_targets = np.arange(rows), targets
    dp = np.zeros_like(p)
    dp[at_targets] = -weights / weights.sum() / p[at_targets]
    expected = softmax_backward(dp, cache)
    assert np.allclose(gradient(logits, targets, weights), expected, atol=1e-14)


@pytest.mark.parametrize(
    "target, probability, expected",
    [(0, 4 / 7, [-3, 1, 2]), (1, 1 / 7, [4, -6, 2]), (2, 2 / 7, [4, 1, -5])],
)
def test_scores_of_the_sentence_as_logits(target, probability, expected):
    logits = QUERY[1] @ KEY.T / np.sqrt(4)
    loss, cache = cross_entropy(logits, np.array(target))
    assert np.isclose(loss, -np.log(probability), rtol=1e-14)
    assert np.allclose(cross_entropy_backward(7, cache), expected, rtol=1e-14)


@pytest.mark.equation("eq:cross-entropy")
@given(generators, sizes, vocabularies)
def test_loss_is_the_weighted_mean_of_the_surprise(rng, rows, vocabulary):
    logits, targets, weights = draw(rng, rows, vocabulary)
    surprise = [-np.log(softmax(z)[0][t]) for z, t in zip(logits, targets, strict=True)]
    loss, _ = cross_entropy(logits, targets, weights)
    assert np.isclose(loss, np.average(surprise, weights=weights), rtol=1e-12)
    assert np.isclose(cross_entropy(logits, targets)[0], np.mean(surprise), rtol=1e-12)


@given(generators, sizes, vocabularies, smoothings)
def test_gradient_rows_sum_to_zero(rng, rows, vocabulary, smoothing):
    dlogits = gradient(*draw(rng, rows, vocabulary), smoothing)
    assert np.abs(dlogits.sum(axis=-1)).max() < 1e-15


@pytest.mark.equation("eq:log-sum-exp-shift")
@given(generators, sizes, vocabularies, smoothings)
def test_a_shift_of_a_row_changes_nothing(rng, rows, vocabulary, smoothing):
    logits, *rest = draw(rng, rows, vocabulary)
    shifted = logits + rng.normal(0, 10, (rows, 1))
    loss, _ = cross_entropy(logits, *rest, smoothing)
    assert np.isclose(cross_entropy(shifted, *rest, smoothing)[0], loss, rtol=1e-12)
    expected = gradient(logits, *rest, smoothing)
    assert np.allclose(gradient(shifted, *rest, smoothing), expected, atol=1e-13)


def smooth(targets, vocabulary, smoothing):
    """Return the distributions q that take the place of the right answers."""
    return (1 - smoothing) * np.eye(vocabulary)[targets] + smoothing / vocabulary


@pytest.mark.equation("eq:label-smoothing")
@given(generators, sizes, vocabularies, smoothings)
def test_smoothing_spreads_what_is_right(rng, rows, vocabulary, smoothing):
    logits, targets, weights = draw(rng, rows, vocabulary)
    q, p = smooth(targets, vocabulary, smoothing), softmax(logits)[0]
    expected = np.average(-(q * np.log(p)).sum(axis=-1), weights=weights)
    loss, _ = cross_entropy(logits, targets, weights, smoothing)
    assert np.isclose(loss, expected, rtol=1e-12)
    share = (weights / weights.sum())[:, None]
    dlogits = gradient(logits, targets, weights, smoothing)
    assert np.allclose(dlogits, share * (p - q), atol=1e-14)


@given(generators, sizes, vocabularies)
def test_a_smoothed_loss_is_smallest_at_the_spread_answers(rng, rows, vocabulary):
    logits, targets, weights = draw(rng, rows, vocabulary)
    q = smooth(targets, vocabulary, 0.1)
    smallest, cache = cross_entropy(np.log(q), targets, weights, 0.1)
    assert np.abs(cross_entropy_backward(1, cache)).max() < 1e-15
    assert np.isclose(smallest, -(q[0] * np.log(q[0])).sum(), rtol=1e-12)
    assert smallest <= cross_entropy(logits, targets, weights, 0.1)[0] + 1e-15


def test_smoothing_of_the_sentence():
    logits = QUERY[1] @ KEY.T / np.sqrt(4)
    loss, cache = cross_entropy(logits, np.array(0), smoothing=0.3)
    assert np.isclose(loss, np.log(7) - 1.7 * np.log(2), rtol=1e-14)
    expected = np.array([-16, 3, 13]) / 70
    assert np.allclose(cross_entropy_backward(1, cache), expected, rtol=1e-13)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 2, np.nan])
def test_a_bad_smoothing_is_named(smoothing):
    with pytest.raises(ValueError, match=r"smoothing: expected a number in \[0, 1\)"):
        cross_entropy(LOGITS, ANSWERS, smoothing=smoothing)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_logits_do_not_overflow(dtype):
    logits = np.array([[1e4, 0, -1e4], [-1e30, -1e30, 1e30]], dtype)
    targets = np.array([2, 0])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        loss, cache = cross_entropy(logits, targets)
        dlogits = cross_entropy_backward(1, cache)
    assert np.isclose(loss, (2e4 + 2e30) / 2)
    assert np.array_equal(dlogits, [[0.5, 0, -0.5], [-0.5, 0, 0.5]])


@given(generators, sizes, vocabularies)
def test_uncounted_positions_take_no_part(rng, rows, vocabulary):
    logits, targets, weights = draw(rng, 2 * rows, vocabulary)
    counted = rng.permutation(2 * rows) < rows
    weights[~counted] = 0
    loss, cache = cross_entropy(logits, targets, weights)
    dlogits = cross_entropy_backward(1.0, cache)
    gathered = logits[counted], targets[counted], weights[counted]
    assert np.isclose(loss, cross_entropy(*gathered)[0], rtol=1e-14)
    assert not dlogits[~counted].any()
    assert np.allclose(dlogits[counted], gradient(*gathered), rtol=1e-14)


def test_weights_count_like_repeated_positions(rng):
    logits, targets, _ = draw(rng, 4, 5)
    counts = np.array([2, 0, 1, 3])
    repeated = np.repeat(logits, counts, axis=0), np.repeat(targets, counts)
    loss, cache = cross_entropy(logits, targets, counts)
    assert np.isclose(loss, cross_entropy(*repeated)[0], rtol=1e-14)
    scaled, _ = cross_entropy(logits, targets, 0.3 * counts)
    assert np.isclose(loss, scaled, rtol=1e-14)


def test_a_boolean_mask_counts_as_zeros_and_ones(rng):
    logits, targets, _ = draw(rng, 4, 5)
    mask = np.array([True, False, True, False])
    loss, cache = cross_entropy(logits.astype(np.float32), targets, mask)
    as_numbers, _ = cross_entropy(logits.astype(np.float32), targets, mask.astype("f8"))
    assert loss == as_numbers
    assert loss.dtype == cache.share.dtype == np.float32


@given(generators, vocabularies)
def test_no_constant_answer_beats_the_frequencies(rng, vocabulary):
    counts = rng.integers(1, 9, vocabulary)
    targets = np.repeat(np.arange(vocabulary), counts)
    frequencies = counts / counts.sum()

    def constant(logits):
        return cross_entropy(np.tile(logits, (len(targets), 1)), targets)

    loss, cache = constant(np.log(frequencies))
    assert np.isclose(loss, -(frequencies * np.log(frequencies)).sum(), rtol=1e-14)
    assert np.abs(cross_entropy_backward(1.0, cache).sum(axis=0)).max() < 1e-15
    assert loss <= constant(rng.normal(size=vocabulary))[0] + 1e-15


LOGITS, ANSWERS = np.ones((2, 3)), np.array([0, 2])


@pytest.mark.parametrize(
    "logits, targets, weights, message",
    [
        (np.array(1.0), np.array(0), None, r"logits: .* \(\.\.\., V\), got \(\)"),
        (LOGITS, np.array([0.0, 2.0]), None, "targets: expected .*, got float64"),
        (LOGITS, np.array([True, False]), None, "targets: expected .*, got bool"),
        (LOGITS, np.array([0, 3]), None, "targets: expected ids from 0 to 2, got 3"),
        (LOGITS, np.array([-100, 0]), None, "targets: .* from 0 to 2, got -100"),
        (LOGITS, np.array([[0, 2]]), None, r"targets: .* \(2\), got \(1, 2\)"),
        (LOGITS, ANSWERS, np.ones((2, 1)), r"weights: .* \(2\), got \(2, 1\)"),
        (LOGITS, ANSWERS, np.array([1, -1]), "weights: .* at least 0, got -1"),
        (LOGITS, ANSWERS, np.array([1, np.nan]), "weights: .* finite .*, got nan"),
        (LOGITS, ANSWERS, np.array([1, np.inf]), "weights: .* finite .*, got inf"),
        (LOGITS, ANSWERS, np.array([1j, 1]), "weights: expected real .* complex128"),
        (LOGITS, ANSWERS, np.zeros(2), "weights: expected at least one counted pos"),
    ],
)
def test_bad_input_is_named(logits, targets, weights, message):
    with pytest.raises(ValueError, match=message):
        cross_entropy(logits, targets, weights)


@pytest.mark.parametrize("smoothing", [0, 0.1])
def test_what_a_position_that_does_not_count_rules_out_is_nothing(rng, smoothing):
    logits, targets, _ = draw(rng, 3, 4)
    logits[1, targets[1]] = -np.inf
    logits[2] = -np.inf
    weights = np.array([2.0, 0, 0])
    loss, cache = cross_entropy(logits, targets, weights, smoothing)
    dlogits = cross_entropy_backward(1.0, cache)
    assert loss == cross_entropy(logits[:1], targets[:1], None, smoothing)[0]
    assert not dlogits[1:].any() and np.isfinite(dlogits).all()


def test_the_loss_is_infinite_where_the_right_token_is_ruled_out(rng):
    logits, targets, weights = draw(rng, 3, 4)
    logits[1, targets[1]] = -np.inf
    assert cross_entropy(logits, targets, weights)[0] == np.inf


@pytest.mark.parametrize("size", [1e308, 1e-300, 5e-324])
def test_the_size_of_the_weights_does_not_count(rng, size):
    logits, targets, _ = draw(rng, 2, 4)
    loss, _ = cross_entropy(logits, targets, np.full(2, size))
    assert loss == cross_entropy(logits, targets)[0]


def test_many_weights_of_16_bits_have_a_sum(rng):
    logits, targets = np.zeros((70_000, 2), np.float32), np.zeros(70_000, int)
    loss, _ = cross_entropy(logits, targets, np.ones(70_000, np.float16))
    assert np.isclose(loss, np.log(2), rtol=1e-5)


def test_it_is_the_mean_of_the_logarithms_of_softmax(rng):
    logits, targets, weights = draw(rng, 3, 4, spread=1e3)
    expected = -np.average(log_softmax(logits)[range(3), targets], weights=weights)
    assert np.isclose(cross_entropy(logits, targets, weights)[0], expected, rtol=1e-14)


def test_the_gradient_of_transposed_logits_is_that_of_copies(rng):
    logits = rng.normal(size=(2, 5, 3)).swapaxes(1, 2)
    targets = rng.integers(5, size=(2, 3))
    dlogits = gradient(logits, targets)
    assert np.abs(dlogits.sum(axis=-1)).max() < 1e-15
    assert np.allclose(dlogits, gradient(logits.copy(), targets), rtol=1e-14)
