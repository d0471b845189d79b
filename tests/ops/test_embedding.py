import numpy as np
import pytest
from helpers.cases import IDS, OPS, Op
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from book.sentence import EMBEDDING
from transformer_core.ops import embedding, embedding_backward, tied_readout, tied_readout_backward
from transformer_core.ops.embedding import add_rows


def look_up_and_read_out(table, scale, bias):
    """Use one table twice, with something in between."""
    rows, look_up = embedding(IDS, table)
    logits, readout = tied_readout(rows * rows * scale, table, bias)
    return logits, (rows, scale, look_up, readout)


def look_up_and_read_out_backward(dlogits, cache):
    rows, scale, look_up, readout = cache
    dh, dtable, dbias = tied_readout_backward(dlogits, readout)
    drows = 2 * rows * scale * dh
    return (embedding_backward(drows, look_up) + dtable, (rows * rows * dh).sum(axis=(0, 1)), dbias)


TIED = Op(
    look_up_and_read_out,
    look_up_and_read_out_backward,
    {"table": (7, 3), "scale": (3,), "bias": (7,)},
)


@pytest.mark.equation("eq:embedding-backward")
def test_look_up_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["embedding"])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@given(rng=generators, vocabulary=st.integers(1, 256), width=sizes)
def test_rows_are_added_as_numpy_adds_them(dtype, rng, vocabulary, width):
    """Also where the place of an entry is a number too large for the dtype of the ids."""
    ids = rng.integers(vocabulary, size=(3, 40)).astype(dtype)
    rows, table = rng.normal(size=(3, 40, width)), rng.normal(size=(vocabulary, width))
    expected = table.copy()
    np.add.at(expected, ids, rows)
    add_rows(table, ids, rows)
    assert np.array_equal(table, expected)


@pytest.mark.equation("eq:tied-readout-backward")
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
def test_readout_gradients_agree_with_the_witnesses(check, shape):
    op = OPS["tied_readout"]
    check.op(op._replace(shapes=op.shapes | {"h": shape}))


@pytest.mark.equation("eq:tied-embedding-backward")
def test_tied_gradient_agrees_with_the_witnesses(check):
    check.op(TIED)


@pytest.mark.equation("eq:embedding-backward")
def test_look_up_gradient_is_exact(symbolic):
    table, drows = symbols("e", 4, 2), symbols("d", 2, 3, 2)
    rows, cache = embedding(np.array([[2, 1, 2], [0, 2, 1]]), table)
    assert_exact((rows * drows).sum(), [table], [embedding_backward(drows, cache)])


@pytest.mark.equation("eq:tied-readout-backward")
def test_readout_gradients_are_exact(symbolic):
    arrays = symbols("h", 2, 2, 2), symbols("e", 3, 2), symbols("b", 3)
    dlogits = symbols("d", 2, 2, 3)
    logits, cache = tied_readout(*arrays)
    gradients = tied_readout_backward(dlogits, cache)
    assert_exact((logits * dlogits).sum(), arrays, gradients)


@pytest.mark.equation("eq:tied-embedding-backward")
def test_tied_gradient_is_exact(symbolic):
    table, bias = symbols("e", 3, 2), symbols("b", 3)
    dlogits = symbols("d", 3, 3)
    rows, look_up = embedding(np.array([2, 1, 2]), table)
    logits, readout = tied_readout(rows, table, bias)
    drows, dtable, _ = tied_readout_backward(dlogits, readout)
    dtable = dtable + embedding_backward(drows, look_up)
    assert_exact((logits * dlogits).sum(), [table], [dtable])


@pytest.mark.equation("eq:tied-embedding-backward")
@given(generators, sizes, sizes, sizes, sizes)
def test_a_tied_table_receives_both_terms(rng, batch, length, vocabulary, width):
    """Along any direction, the loss changes by both terms together, and not by one."""
    ids = rng.integers(vocabulary, size=(batch, length))
    table, direction = rng.normal(size=(2, vocabulary, width))
    bias, dlogits = (rng.normal(size=vocabulary), rng.normal(size=(*ids.shape, vocabulary)))

    def read_out(look_up_table, readout_table):
        rows, look_up = embedding(ids, look_up_table)
        logits, readout = tied_readout(rows, readout_table, bias)
        return logits, look_up, readout

    _, look_up, readout = read_out(table, table)
    drows, of_readout, _ = tied_readout_backward(dlogits, readout)
    of_look_up = embedding_backward(drows, look_up)
    stepped = table + 1e-20j * direction
    for tables, gradient in [
        ((stepped, table), of_look_up),
        ((table, stepped), of_readout),
        ((stepped, stepped), of_look_up + of_readout),
    ]:
        change = (dlogits * read_out(*tables)[0]).sum().imag / 1e-20
        assert np.isclose(change, (gradient * direction).sum(), rtol=1e-10, atol=1e-12)


def test_mice_chase_mice_adds_both_mice():
    rows, cache = embedding(np.array([2, 1, 2]), EMBEDDING)
    assert np.array_equal(rows, EMBEDDING[[2, 1, 2]])
    drows = np.array([[1.0, 0, 2, -1], [0, 3, 1, 0], [2, 1, 0, 1]])
    dtable = embedding_backward(drows, cache)
    assert np.array_equal(dtable, [[0, 0, 0, 0], [0, 3, 1, 0], [3, 1, 2, 0]])


@pytest.mark.equation("eq:embedding-one-hot")
@given(generators, sizes, sizes, sizes, sizes)
def test_look_up_is_a_product_with_one_hot_rows(rng, batch, length, vocabulary, width):
    ids = rng.integers(vocabulary, size=(batch, length))
    table = rng.normal(size=(vocabulary, width))
    drows = rng.normal(size=(batch, length, width))
    rows, cache = embedding(ids, table)
    one_hot = np.eye(vocabulary)[ids.ravel()]
    assert np.array_equal(rows.reshape(-1, width), one_hot @ table)
    product = one_hot.T @ drows.reshape(-1, width)
    assert np.allclose(embedding_backward(drows, cache), product, atol=1e-14)


@pytest.mark.equation("eq:tied-readout")
@given(generators, sizes, sizes, sizes, sizes)
def test_each_logit_is_an_inner_product(rng, batch, length, vocabulary, width):
    h = rng.normal(size=(batch, length, width))
    table, bias = rng.normal(size=(vocabulary, width)), rng.normal(size=vocabulary)
    logits, _ = tied_readout(h, table, bias)
    for b, t, v in np.ndindex(logits.shape):
        assert np.isclose(logits[b, t, v], h[b, t] @ table[v] + bias[v], atol=1e-13)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_ids_may_be_any_whole_numbers(dtype):
    rows, _ = embedding(IDS.astype(dtype), np.ones((300, 2)))
    assert rows.shape == (2, 4, 2)


@pytest.mark.parametrize(
    "ids, table, message",
    [
        (np.array([0, -1]), np.ones((5, 2)), "ids: expected ids from 0 to 4, got -1"),
        (np.array([[5], [1]]), np.ones((5, 2)), "ids: .* from 0 to 4, got 5"),
        (np.array([0.0]), np.ones((5, 2)), "ids: expected whole numbers, got float64"),
        (np.array([True]), np.ones((5, 2)), "ids: expected whole numbers, got bool"),
        (np.zeros((2, 0), int), np.ones((5, 2)), "ids: expected at least one element"),
        (np.array([0]), np.ones(5), r"table: expected shape \(V, D\), got \(5,\)"),
    ],
)
def test_bad_input_is_named(ids, table, message):
    with pytest.raises(ValueError, match=message):
        embedding(ids, table)


@pytest.mark.parametrize(
    "h, table, bias, message",
    [
        (np.ones((2, 3)), np.ones(3), np.ones(4), r"table: .* \(V, D\), got \(3,\)"),
        (np.ones((2, 4)), np.ones((4, 3)), np.ones(4), r"h: .* \(\.\.\., 3\), got \(2"),
        (np.ones((2, 3)), np.ones((4, 3)), np.ones(3), r"bias: .* \(4\), got \(3,\)"),
    ],
)
def test_bad_input_of_the_readout_is_named(h, table, bias, message):
    with pytest.raises(ValueError, match=message):
        tied_readout(h, table, bias)


def test_rows_are_added_to_a_table_of_any_layout():
    for table in (np.zeros((4, 3), order="F"), np.zeros((8, 3))[::2]):
        add_rows(table, IDS % 4, np.ones((*IDS.shape, 3)))
        counts = np.bincount(IDS.ravel() % 4, minlength=4)
        assert np.array_equal(table, np.tile(counts[:, np.newaxis], 3))
