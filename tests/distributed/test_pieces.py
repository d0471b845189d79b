"""Which arrays are cut: pieces, the whole of them again, and the norm of all together."""

import numpy as np
import pytest
from helpers.cut_bert import bert
from helpers.witnesses import normal

from transformer_core.distributed import cut, gather, norm_of_pieces
from transformer_core.optim.clipping import global_norm
from transformer_core.ranks import on_threads

SIZES = [1, 2, 3, 4]
CUT = {"query_key_value", "hidden", "tokens", "readout"}


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own"])
@pytest.mark.parametrize("size", SIZES)
def test_pieces_make_up_the_whole(size, tied):
    arrays = bert(tied=tied).parameters()
    moments = {f"first_moment.{name}": array for name, array in arrays.items()}
    for whole in (arrays, moments):
        for found in on_threads(size, lambda c, a=whole: gather(cut(a, c), c)):
            assert list(found) == list(whole)
            for name, array in whole.items():
                np.testing.assert_array_equal(found[name], array)


def test_every_entry_of_what_is_cut_is_on_one_rank_and_the_rest_on_all():
    arrays = bert(tied=False).parameters()
    pieces = on_threads(3, lambda c: cut(arrays, c))
    for name, array in arrays.items():
        *_, layer, last = name.split(".")
        of_output = layer == "output" and last == "weight"
        count = 1 if layer in CUT or of_output else 3
        assert sum(piece[name].size for piece in pieces) == count * array.size, name


def test_a_rank_has_the_queries_the_keys_and_the_values_of_its_heads(rng):
    weight = normal(rng, (24, 72))
    heads = weight.reshape(24, 3, 12, 2)
    arrays = {"attention.query_key_value.weight": weight}
    for rank, piece in enumerate(on_threads(4, lambda c: cut(arrays, c))):
        (found,) = piece.values()
        np.testing.assert_array_equal(found, heads[:, :, 3 * rank : 3 * rank + 3].reshape(24, -1))


def test_pieces_are_arrays_of_their_own(rng):
    arrays = {"norm.gamma": normal(rng, 3), "hidden.bias": normal(rng, 4)}
    (pieces,) = on_threads(1, lambda c: cut(arrays, c))
    for name, array in arrays.items():
        assert not np.shares_memory(pieces[name], array)


@pytest.mark.equation("eq:global-norm-sharded")
@pytest.mark.parametrize("size", SIZES)
def test_the_norm_counts_what_every_rank_has_once(size):
    grads = bert(tied=False).parameters()
    norms = on_threads(size, lambda c: norm_of_pieces(cut(grads, c), c))
    assert len(set(norms)) == 1
    assert norms[0] == pytest.approx(global_norm(grads), rel=1e-14)


def test_the_norm_of_large_pieces_does_not_overflow():
    grads = {"hidden.bias": np.full(4, 1e150), "norm.gamma": np.full(4, 1e150)}
    norms = on_threads(2, lambda c: norm_of_pieces(cut(grads, c), c))
    assert norms[0] == pytest.approx(8**0.5 * 1e150)


def test_a_norm_that_is_not_finite_is_refused():
    grads = {"hidden.bias": np.array([1.0, np.nan]), "norm.gamma": np.ones(2)}
    with pytest.raises(ValueError, match=r"got nan from (hidden\.bias|other ranks)"):
        on_threads(2, lambda c: norm_of_pieces(cut(grads, c), c))
