"""Groups of ranks, and a grid of them: data parallel times tensor parallel."""

import numpy as np
import pytest
from helpers.cut_bert import batch, bert
from helpers.witnesses import assert_close, normal

from transformer_core.distributed import DataParallel, TensorParallelBert
from transformer_core.optim import AdamW
from transformer_core.ranks import Communicator, Group, grid, on_threads


def test_a_group_sums_in_the_order_of_its_ranks(rng):
    x = normal(rng, (4, 5))

    def work(c):
        group = Group(c, [2, 0, 3] if c.rank != 1 else [1])
        return group.rank, group.size, group.all_reduce(x[c.rank])

    ranks, sizes, sums = zip(*on_threads(4, work), strict=True)
    assert (ranks, sizes) == ((1, 0, 0, 2), (3, 1, 3, 3))
    np.testing.assert_array_equal(sums[1], x[1])
    for rank in (0, 2, 3):
        np.testing.assert_array_equal(sums[rank], x[2] + x[0] + x[3])


def test_a_message_counts_in_the_group_and_in_the_whole(rng):
    x = normal(rng, (4, 6))

    def work(c):
        row, column = grid(c, 2)
        row.all_reduce(x[c.rank])
        column.broadcast(x[c.rank])
        return [
            sum(traffic.bytes for traffic in counted.sent.values()) for counted in (row, column, c)
        ]

    of_row, of_column, of_all = np.transpose(on_threads(4, work))
    assert of_row.sum() == 2 * 2 * x[0].nbytes
    assert of_column.sum() == 2 * x[0].nbytes
    np.testing.assert_array_equal(of_all, of_row + of_column)


def test_rows_and_columns_of_a_grid():
    grids = on_threads(6, lambda c: [group.ranks for group in grid(c, 3)])
    assert grids[0] == [[0, 1, 2], [0, 3]]
    assert grids[5] == [[3, 4, 5], [2, 5]]


@pytest.mark.parametrize(
    "masked, sequence",
    [
        pytest.param("unequal", False, id="unequal-tensor", marks=pytest.mark.thorough),
        pytest.param("unequal", True, id="unequal-sequence"),
        pytest.param("none in half of the batch", False, id="none in half of the batch-tensor"),
        pytest.param(
            "none in half of the batch",
            True,
            id="none in half of the batch-sequence",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_data_parallel_times_tensor_parallel_is_one_process(masked, sequence):
    """Two pairs of ranks hold a model each, and train on halves of every batch."""
    inputs = batch(np.random.default_rng(3), 4)
    if masked != "unequal":
        inputs[2][2:] = False
    settings = {"placement": "pre", "dropout": 0.2}

    def steps(model, communicator):
        parallel = DataParallel(
            model,
            lambda ids, targets, masked, *_: int(masked.sum()),
            threads=1,
            communicator=communicator,
        )
        optimizer = AdamW(model.parameters, 1e-2, eps=1e-6)
        losses = []
        for step in range(2):
            loss, grads = parallel.loss_and_gradients(*inputs, rng=np.random.default_rng(step))
            optimizer.step(grads, max_norm=0.5)
            losses.append(loss)
        return {"losses": np.array(losses)}

    alone = bert(**settings)
    expected = steps(alone, Communicator()) | alone.parameters()

    def work(c):
        row, column = grid(c, 2)
        model = TensorParallelBert(bert(**settings), row, sequence)
        return steps(model, column) | model.gather(model.parameters())

    for found in on_threads(4, work):
        assert_close(found, expected, 1e-12)


def test_a_group_needs_this_rank_and_each_once():
    for ranks in ([1, 2], [0, 0]):
        with pytest.raises(ValueError, match="ranks: expected 0 and others, each once"):
            Group(Communicator(), ranks)


def test_a_grid_needs_rows_of_one_length():
    with pytest.raises(ValueError, match="tensor: expected a divisor of the 3 ranks"):
        on_threads(3, lambda c: grid(c, 2))
