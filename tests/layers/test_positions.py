import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.layers import LearnedPositions, SinusoidalPositions
from transformer_core.ops import sinusoidal_positions


@pytest.mark.equation("eq:learned-positions-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["LearnedPositions"])


@pytest.mark.equation("eq:learned-positions-backward")
def test_gradients_are_exact(rng, symbolic):
    layer = LearnedPositions(3, 2, rng, dtype=object)
    layer.table[...] = symbols("p", 3, 2)
    x, dy = symbols("x", 2, 2, 2), symbols("d", 2, 2, 2)
    y, cache = layer.forward(x)
    dx, grads = layer.backward(dy, cache)
    assert_exact((y * dy).sum(), [x, layer.table], [dx, grads["table"]])


@pytest.mark.equation("eq:learned-positions")
@given(generators, sizes, sizes, sizes)
def test_each_position_gets_its_row(rng, batch, length, width):
    layer = LearnedPositions(5, width, rng, dtype=np.float64)
    x = rng.normal(size=(batch, length, width))
    y, _ = layer.forward(x)
    for b, t in np.ndindex(batch, length):
        assert np.array_equal(y[b, t], x[b, t] + layer.table[t])


def test_the_table_starts_with_the_standard_deviation(rng):
    assert np.isclose(LearnedPositions(500, 40, rng).table.std(), 0.02, rtol=0.02)
    table = LearnedPositions(500, 40, rng, std=0.5).table
    assert np.isclose(table.std(), 0.5, rtol=0.02)


@pytest.mark.parametrize(
    "x, message",
    [
        (np.ones((2, 8, 4)), "x: expected at most 7 positions, got 8"),
        (np.ones((2, 5, 3)), r"x: expected shape \(B, T, 4\), got \(2, 5, 3\)"),
        (np.ones((5, 4)), r"x: expected shape \(B, T, 4\), got \(5, 4\)"),
    ],
)
def test_bad_input_is_named(rng, x, message):
    with pytest.raises(ValueError, match=message):
        LearnedPositions(7, 4, rng).forward(x)


@pytest.mark.parametrize(
    "length, width, message",
    [(0, 4, "length: expected a whole number"), (7, 0, "width: expected a whole num")],
)
def test_bad_sizes_are_named(rng, length, width, message):
    with pytest.raises(ValueError, match=message):
        LearnedPositions(length, width, rng)


# --- sinusoidal positions ---------------------------------------------------------------


def test_sinusoidal_positions_are_added_from_the_first_on_and_not_learnt(rng):
    layer = SinusoidalPositions(7, 6, np.float64)
    x = rng.normal(size=(2, 3, 6))
    y, cache = layer.forward(x, first=4)
    assert np.array_equal(y, x + sinusoidal_positions(7, 6)[4:])
    dy = rng.normal(size=y.shape)
    dx, grads = layer.backward(dy, cache)
    assert np.array_equal(dx, dy) and grads == layer.parameters() == {}


def test_sinusoidal_positions_beyond_the_table_are_named():
    layer = SinusoidalPositions(7, 6)
    with pytest.raises(ValueError, match="x: expected at most 7 positions, got 8"):
        layer.forward(np.ones((1, 3, 6)), first=5)
    with pytest.raises(ValueError, match=r"x: expected shape \(B, T, 6\), got"):
        layer.forward(np.ones((1, 3, 5)))
    with pytest.raises(ValueError, match=r"dy: expected shape \(B, T, 6\), got"):
        layer.backward(np.ones((1, 3, 5)), None)
