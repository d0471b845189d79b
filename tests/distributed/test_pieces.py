"""Which arrays are cut: pieces, the whole of them again, and the norm of all together."""

import numpy as np
import pytest
from helpers.cut_bert import bert
from helpers.witnesses import assert_same_bits, normal

from transformer_core.distributed import (
    Cut,
    ParallelSelfAttention,
    TensorParallelBert,
    conjugate_pair,
    cut,
    gather,
    norm_of_pieces,
)
from transformer_core.layers import AttentionSpec, MultiHeadSelfAttention
from transformer_core.optim.clipping import global_norm
from transformer_core.ranks import on_threads

SIZES = [1, 2, 3, pytest.param(4, marks=pytest.mark.thorough)]
CUT = {"query_key_value", "hidden", "tokens", "readout"}
CUTS = {"hidden.bias": Cut(0)}


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own"])
@pytest.mark.parametrize("size", SIZES)
def test_pieces_make_up_the_whole(size, tied):
    model = bert(tied=tied)
    arrays = model.parameters()
    moments = {f"first_moment.{name}": array for name, array in arrays.items()}

    def work(c):
        part = TensorParallelBert(model, c)
        return [part.gather(part.cut(whole)) for whole in (arrays, moments)]

    for of_rank in on_threads(size, work):
        for found, whole in zip(of_rank, (arrays, moments), strict=True):
            assert list(found) == list(whole)
            assert_same_bits(found, whole)


def test_every_entry_of_what_is_cut_is_on_one_rank_and_the_rest_on_all():
    model = bert(tied=False)
    arrays = model.parameters()
    pieces = on_threads(3, lambda c: TensorParallelBert(model, c).parameters())
    for name, array in arrays.items():
        *_, layer, last = name.split(".")
        of_output = layer == "output" and last == "weight"
        count = 1 if layer in CUT or of_output else 3
        assert sum(piece[name].size for piece in pieces) == count * array.size, name


def test_a_rank_has_the_queries_the_keys_and_the_values_of_its_heads(rng):
    """Six heads of queries of width 2 share two of keys, whose values have the width 5."""
    layer = MultiHeadSelfAttention(8, AttentionSpec(6, 2, 5, key_heads=2), rng, float)
    query, key, value = np.split(layer.query_key_value.weight, [12, 16], axis=1)
    own = on_threads(2, lambda c: ParallelSelfAttention(layer, *conjugate_pair(c), c).parameters())
    for rank, found in enumerate(own):
        parts = [np.split(part, 2, axis=1)[rank] for part in (query, key, value)]
        np.testing.assert_array_equal(found["query_key_value.weight"], np.concatenate(parts, 1))


def test_pieces_are_arrays_of_their_own(rng):
    arrays = {"norm.gamma": normal(rng, 3), "hidden.bias": normal(rng, 4)}
    (pieces,) = on_threads(1, lambda c: cut(arrays, CUTS, c))
    for name, array in arrays.items():
        assert not np.shares_memory(pieces[name], array)


@pytest.mark.equation("eq:global-norm-sharded")
@pytest.mark.parametrize("size", SIZES)
def test_the_norm_counts_what_every_rank_has_once(size):
    whole = bert(tied=False)
    grads = whole.parameters()

    def work(c):
        model = TensorParallelBert(whole, c)
        return model.norm(model.cut(grads))

    norms = on_threads(size, work)
    assert len(set(norms)) == 1
    assert norms[0] == pytest.approx(global_norm(grads), rel=1e-14)


def test_the_norm_of_large_pieces_does_not_overflow():
    grads = {"hidden.bias": np.full(4, 1e150), "norm.gamma": np.full(4, 1e150)}
    norms = on_threads(2, lambda c: norm_of_pieces(cut(grads, CUTS, c), CUTS, c))
    assert norms[0] == pytest.approx(8**0.5 * 1e150)


def test_sections_that_are_not_those_of_the_array_are_refused(rng):
    cuts = {"weight": Cut(1, (4, 2, 2))}
    for work in (cut, gather):
        with pytest.raises(
            ValueError, match=r"weight: expected sections of \(4, 2, 2\) along axis"
        ):
            on_threads(2, lambda c, w=work: w({"m.weight": normal(rng, (3, 6))}, cuts, c))
