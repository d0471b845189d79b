import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.ops import pairs_to_halves, rotary, rotary_backward, rotary_frequencies
from transformer_core.ops.rotary import RotaryCache

LAYOUTS = pytest.mark.parametrize("halves", [False, True], ids=["pairs", "halves"])
LLAMA = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
shifts = st.integers(0, 1000)


@pytest.mark.equation("eq:rotary-backward")
@LAYOUTS
def test_gradient_agrees_with_the_witnesses(check, halves):
    check.op(OPS["rotary, halves" if halves else "rotary, pairs"])


@pytest.mark.equation("eq:rotary-backward")
@LAYOUTS
def test_gradient_is_exact(halves):
    x, dy, angles = symbols("x", 2, 4), symbols("d", 2, 4), symbols("a", 2, 2)
    cos, sin = np.vectorize(sympy.cos)(angles), np.vectorize(sympy.sin)(angles)
    y = np.empty_like(x)
    for i in range(2):
        one, other = (i, i + 2) if halves else (2 * i, 2 * i + 1)
        y[:, one] = x[:, one] * cos[:, i] - x[:, other] * sin[:, i]
        y[:, other] = x[:, one] * sin[:, i] + x[:, other] * cos[:, i]
    dx = rotary_backward(dy, RotaryCache(cos, sin, halves, x.shape))
    assert_exact((y * dy).sum(), [x], [dx])


@pytest.mark.equation("eq:rotary")
@given(generators, sizes, sizes, sizes)
def test_a_pair_is_a_complex_number_that_is_turned(rng, batch, length, pairs):
    x = rng.normal(size=(batch, length, 2 * pairs))
    positions, frequencies = rng.integers(0, 50, length), rng.normal(size=pairs)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * np.outer(positions, frequencies))
    y, _ = rotary(x, positions, frequencies)
    assert np.allclose(y[..., ::2], turned.real, atol=1e-14)
    assert np.allclose(y[..., 1::2], turned.imag, atol=1e-14)


@pytest.mark.equation("eq:rotary")
@given(generators, sizes, sizes, sizes)
def test_halves_are_those_of_files(rng, batch, length, pairs):
    """x cos + rotate_half(x) sin, with cosines and sines that are there twice."""
    x = rng.normal(size=(batch, length, 2 * pairs))
    positions, frequencies = rng.integers(0, 50, length), rng.normal(size=pairs)
    angles = np.tile(np.outer(positions, frequencies), 2)
    rotated = np.concatenate([-x[..., pairs:], x[..., :pairs]], axis=-1)
    y, _ = rotary(x, positions, frequencies, halves=True)
    assert np.allclose(y, x * np.cos(angles) + rotated * np.sin(angles), atol=1e-14)


@LAYOUTS
@given(generators, sizes, sizes)
def test_the_backward_pass_undoes_the_forward_pass(halves, rng, length, pairs):
    x = rng.normal(size=(2, length, 2 * pairs))
    y, cache = rotary(x, np.arange(length), rotary_frequencies(2 * pairs), halves)
    assert np.allclose(rotary_backward(y, cache), x, atol=1e-14)
    assert np.allclose((y**2).sum(axis=-1), (x**2).sum(axis=-1), rtol=1e-13)


@pytest.mark.equation("eq:rotary-backward")
@LAYOUTS
@given(generators, sizes, sizes)
def test_the_backward_pass_is_the_adjoint_map(halves, rng, length, pairs):
    x, dy = rng.normal(size=(2, 3, length, 2 * pairs))
    y, cache = rotary(x, rng.integers(0, 99, length), rng.normal(size=pairs), halves)
    assert np.isclose((dy * y).sum(), (rotary_backward(dy, cache) * x).sum(), atol=1e-12)


@pytest.mark.equation("eq:rotary-relative")
@LAYOUTS
@given(generators, sizes, sizes, sizes, shifts)
def test_scores_depend_on_distances_alone(halves, rng, length, sources, pairs, shift):
    query, key = rng.normal(size=(length, 2 * pairs)), rng.normal(size=(sources, 2 * pairs))
    frequencies = rotary_frequencies(2 * pairs)

    def scores(first):
        q, _ = rotary(query, first + np.arange(length), frequencies, halves)
        k, _ = rotary(key, first + np.arange(sources), frequencies, halves)
        return q @ k.T

    assert np.allclose(scores(shift), scores(0), atol=1e-10)
    for t, s in np.ndindex(length, sources):
        q, _ = rotary(query[t : t + 1], np.array([t - s]), frequencies, halves)
        assert np.isclose(scores(0)[t, s], q[0] @ key[s], atol=1e-12)


@pytest.mark.equation("eq:rotary-permutation")
@given(generators, sizes, sizes)
def test_the_order_leads_from_one_layout_to_the_other(rng, length, pairs):
    x, order = rng.normal(size=(length, 2 * pairs)), pairs_to_halves(2 * pairs)
    positions, frequencies = np.arange(length), rotary_frequencies(2 * pairs)
    of_pairs, _ = rotary(x, positions, frequencies)
    of_halves, _ = rotary(x[:, order], positions, frequencies, halves=True)
    assert np.allclose(of_pairs[:, order], of_halves, atol=1e-15)
    assert np.array_equal(of_halves[:, np.argsort(order)], of_pairs)


def test_the_order_of_six():
    assert pairs_to_halves(6).tolist() == [0, 2, 4, 1, 3, 5]


def test_every_sequence_may_have_positions_of_its_own(rng):
    x, frequencies = rng.normal(size=(2, 3, 4, 6)), rotary_frequencies(6)
    positions = np.array([[0, 1, 2, 3], [0, 0, 0, 1]])
    y, cache = rotary(x, positions[:, np.newaxis], frequencies)
    for b in range(2):
        assert np.array_equal(y[b], rotary(x[b], positions[b], frequencies)[0])
    assert np.allclose(rotary_backward(y, cache), x)


def test_angles_are_exact_at_far_positions(rng):
    x, positions = rng.normal(size=(3, 8)), np.array([10**4, 10**5, 10**6 + 1])
    exact, _ = rotary(x, positions, rotary_frequencies(8))
    single, _ = rotary(x.astype(np.float32), positions, rotary_frequencies(8))
    assert single.dtype == np.float32
    assert np.abs(single - exact).max() < 1e-6


@pytest.mark.equation("eq:rotary-frequencies")
@given(sizes)
def test_frequencies_fall_by_one_factor(pairs):
    frequencies = rotary_frequencies(2 * pairs, 500.0)
    assert frequencies.dtype == np.float64
    assert np.allclose(frequencies, [500 ** (-i / pairs) for i in range(pairs)], rtol=1e-14)


@pytest.mark.equation("eq:rotary-interpolation")
@given(generators, sizes, sizes)
def test_interpolated_positions_are_fractions(rng, length, pairs):
    x = rng.normal(size=(length, 2 * pairs))
    scaling = {"rope_type": "linear", "factor": 4.0}
    slower = rotary_frequencies(2 * pairs, scaling=scaling)
    between, _ = rotary(x, np.arange(length) / 4, rotary_frequencies(2 * pairs))
    assert np.allclose(rotary(x, np.arange(length), slower)[0], between, atol=1e-14)


@pytest.mark.equation("eq:rotary-llama3")
def test_llama3_divides_what_turns_slowly():
    """Wavelengths, as the files of models have it, and not turns."""
    plain = rotary_frequencies(128, 500000.0)
    scaled = rotary_frequencies(128, 500000.0, LLAMA)
    wavelengths = 2 * np.pi / plain
    fast, slow = wavelengths < 8192 / 4, wavelengths > 8192
    assert fast.any() and slow.any() and not (fast | slow).all()
    assert np.array_equal(scaled[fast], plain[fast])
    assert np.allclose(scaled[slow], plain[slow] / 8, rtol=1e-14)
    middle = ~(fast | slow)
    smooth = (8192 / wavelengths[middle] - 1) / (4 - 1)
    expected = (1 - smooth) * plain[middle] / 8 + smooth * plain[middle]
    assert np.allclose(scaled[middle], expected, rtol=1e-14)


@pytest.mark.equation("eq:rotary-ntk")
@given(st.integers(2, 5), st.floats(1.5, 20))
def test_another_base_keeps_the_fastest_and_divides_the_slowest(pairs, factor):
    width = 2 * pairs
    plain = rotary_frequencies(width)
    stretched = rotary_frequencies(width, 10000 * factor ** (width / (width - 2)))
    assert stretched[0] == plain[0] == 1
    assert np.isclose(stretched[-1], plain[-1] / factor, rtol=1e-12)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rope_type": "yarn"}, r"scaling: rope_type: expected .*linear.*llama3.*'yarn'"),
        ({"factor": 0}, "scaling: factor: .* got 0"),
        ({"factor": None}, "scaling: factor: .* got None"),
        ({"low_freq_factor": 4}, r"low_freq_factor below high_freq_factor, got \[4, 4.0\]"),
    ],
)
def test_a_scaling_that_cannot_be_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        rotary_frequencies(8, scaling=LLAMA | change)
