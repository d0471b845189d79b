"""Pieces of every sequence between the cut layers: f' and g', and what they send."""

import numpy as np
import pytest
from helpers.cut_bert import B, D, T, bert
from helpers.ranks import adjoint_gap
from helpers.witnesses import normal

from transformer_core.distributed import SequenceParallelEncoder, TensorParallelBert, sequence_pair
from transformer_core.distributed.sequence_parallel import join_pieces
from transformer_core.ranks import Communicator, on_threads

SIZES = [1, 2, 3, 4]


@pytest.mark.equation("eq:sequence-parallel")
@pytest.mark.parametrize("size", SIZES)
def test_g_is_the_adjoint_of_f(rng, size):
    assert adjoint_gap(lambda c: sequence_pair(c)[0], "pieces", "terms", size, rng) < 1e-13
    assert adjoint_gap(lambda c: sequence_pair(c)[1], "terms", "pieces", size, rng) < 1e-13


@pytest.mark.equation("eq:sequence-parallel")
@pytest.mark.parametrize("size", SIZES)
def test_before_work_that_is_the_same_on_all_ranks_a_slice_is_the_adjoint(rng, size):
    assert adjoint_gap(join_pieces, "pieces", "copies", size, rng) < 1e-13


@pytest.mark.parametrize("size", SIZES)
def test_f_and_g_there_and_back_send_as_much_as_two_all_reduces(rng, size):
    x = normal(rng, (2, 12, 3))

    def work(c):
        f, g = sequence_pair(c)
        piece = np.split(x, size, axis=1)[c.rank]
        f.forward(piece), f.backward(x)
        g.forward(x), g.backward(piece)
        return sum(traffic.bytes for traffic in c.sent.values())

    assert sum(on_threads(size, work)) == 2 * 2 * (size - 1) * x.nbytes


def test_between_the_layers_a_rank_has_its_piece_alone(rng):
    x = normal(rng, (B, T, D))

    def work(c):
        encoder = TensorParallelBert(bert(), c, sequence=True).encoder
        _, cache = encoder.forward(x)
        return [layer.attention.norm.x_hat.shape for layer in cache.layers]

    for shapes in on_threads(4, work):
        assert set(shapes) == {(B, T // 4, D)}


def test_positions_that_the_ranks_do_not_divide_are_refused(rng):
    def work(c):
        TensorParallelBert(bert(), c, True).encoder.forward(normal(rng, (2, 7, D)))

    with pytest.raises(ValueError, match="positions: expected a multiple of the 2"):
        on_threads(2, work)


def test_an_encoder_that_is_not_cut_is_refused():
    with pytest.raises(ValueError, match="encoder: expected one of the class ParallelSelfAtt"):
        SequenceParallelEncoder(bert().encoder, Communicator())
