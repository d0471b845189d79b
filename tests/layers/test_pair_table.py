import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import PairTable
from transformer_core.layers.pair_table import FACTOR, pair_rows

IDS = np.array([[3, 1, 3, 1], [0, 2, 2, 2]])


@pytest.mark.equation("eq:pair-table-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["PairTable"])


@pytest.mark.equation("eq:pair-table-backward")
def test_gradients_are_exact(symbolic):
    layer = PairTable(3, 2, dtype=object)  # so few rows that pairs share them
    layer.table[...] = symbols("p", 3, 2)
    x, dy = symbols("x", 2, 4, 2), symbols("d", 2, 4, 2)
    y, cache = layer.forward(x, IDS)
    dx, grads = layer.backward(dy, cache)
    assert_exact((y * dy).sum(), [x, layer.table], [dx, grads["table"]])


@pytest.mark.equation("eq:pair-rows")
@given(generators, sizes, sizes, st.integers(1, 50))
def test_the_row_is_that_of_the_definition(rng, batch, length, rows):
    ids, before = rng.integers(9, size=(batch, length)), rng.integers(9, size=batch)
    found = pair_rows(ids, rows, before)
    none = pair_rows(ids, rows)
    for b, t in np.ndindex(batch, length):
        earlier = int(ids[b, t - 1]) if t else int(before[b])
        assert found[b, t] == (FACTOR * earlier + int(ids[b, t])) % rows
    assert np.array_equal(none[:, 0], (ids[:, 0] - FACTOR) % rows)
    assert np.array_equal(none[:, 1:], found[:, 1:])


@pytest.mark.equation("eq:pair-table")
@given(generators, sizes, sizes, sizes)
def test_each_token_gets_the_row_of_its_pair(rng, batch, length, width):
    layer = PairTable(5, width, np.float64)
    layer.table[...] = rng.normal(size=layer.table.shape)
    ids, x = rng.integers(9, size=(batch, length)), rng.normal(size=(batch, length, width))
    y, _ = layer.forward(x, ids)
    assert np.array_equal(y, x + layer.table[pair_rows(ids, 5)])


def test_a_new_table_changes_nothing_and_can_learn(rng):
    layer, x = PairTable(64, 3, np.float64), rng.normal(size=(2, 4, 3))
    y, cache = layer.forward(x, IDS)
    assert np.array_equal(y, x)
    dx, grads = layer.backward(x, cache)
    assert np.array_equal(dx, x)
    assert np.count_nonzero(grads["table"].any(axis=1)) == len(np.unique(pair_rows(IDS, 64)))


def test_pairs_that_share_a_row_differ_in_both_tokens():
    vocabulary, rows = 30, 32
    ids = np.stack(np.meshgrid(*2 * [np.arange(vocabulary)], indexing="ij"), -1).reshape(-1, 2)
    of_second = pair_rows(ids, rows)[:, 1].reshape(vocabulary, vocabulary)
    for table in (of_second, of_second.T):
        assert all(len(np.unique(row)) == vocabulary for row in table)


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.uint64])
def test_whole_numbers_of_any_width_give_the_same_rows(kind):
    large = 4000 + IDS
    assert np.array_equal(pair_rows(large.astype(kind), 32768), pair_rows(large, 32768))


@pytest.mark.parametrize(
    "given, message",
    [
        ((np.ones((2, 4, 3)), IDS[0]), r"ids: expected shape \(B, T\), got \(4,\)"),
        ((np.ones((2, 3, 3)), IDS), r"x: expected shape \(2, 4, 3\), got \(2, 3, 3\)"),
        ((np.ones((2, 4, 3)), IDS - 1), "ids: expected ids from 0 to "),
        ((np.ones((2, 4, 3)), IDS, IDS[0]), r"before: expected shape \(2\), got \(4,\)"),
    ],
)
def test_what_does_not_fit_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        PairTable(5, 3, np.float64).forward(*given)
