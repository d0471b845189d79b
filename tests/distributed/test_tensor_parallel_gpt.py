"""A GPT on ranks is the GPT of one process: shared key heads, norms, its tied table, bytes."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from helpers.cut_gpt import B, D, K, L, T, Training, V, batch, gpt, train_cut, trained_and_sent
from helpers.cut_models import assert_gradients_of_one_process
from helpers.ranks import on_mpi, on_processes
from helpers.witnesses import assert_close, assert_same_bits

from transformer_core.distributed import (
    ParallelSelfAttention,
    TensorParallelGpt,
    conjugate_pair,
    cost,
    cuts_of,
)
from transformer_core.distributed.pieces import Cut, cut, gather, norm_of_pieces, replicated
from transformer_core.layers import AttentionSpec, LayerSpec, MultiHeadSelfAttention, NormSpec
from transformer_core.models import Gpt, StackSpec
from transformer_core.optim.clipping import global_norm
from transformer_core.ranks import Communicator, on_threads

KEY_HEADS = 1, 2, 3, 4, 6, 12
QUICK = [(1, 1), (1, 2), (2, 4), (6, 3)]  # a head of keys for one rank, for two; two for each
FITTING = [
    pytest.param(g, n, marks=[] if (g, n) in QUICK else pytest.mark.thorough)
    for g, n in product(KEY_HEADS, (1, 2, 3, 4))
    if g % n == 0 or n % g == 0
]
fitting = pytest.mark.parametrize("key_heads, size", FITTING)
both = pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])
WIDTHS = K, 3  # of a key and a value


def sharers(size, key_heads):
    return max(size // key_heads, 1)


@pytest.mark.equation("eq:shared-key-heads-backward")
@pytest.mark.equation("eq:qk-norm-over-ranks")
@both
@fitting
def test_gradients_are_those_of_one_process(key_heads, size, sequence):
    model, inputs = gpt(key_heads, dropout=0.2), batch(np.random.default_rng(3))
    assert_gradients_of_one_process(TensorParallelGpt, model, inputs, size, sequence)


@pytest.mark.equation("eq:tied-vocabulary-parallel")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own"])
@pytest.mark.parametrize("transform", [None, "rotary_halves", "qk_norm_rotary_halves"])
@pytest.mark.parametrize(
    "size",
    [pytest.param(2, marks=pytest.mark.thorough), 3, pytest.param(4, marks=pytest.mark.thorough)],
)
def test_tables_and_transforms_of_every_kind(size, transform, tied):
    model, inputs = gpt(12, tied, transform, bias=False), batch(np.random.default_rng(3))
    assert_gradients_of_one_process(TensorParallelGpt, model, inputs, size)


@pytest.mark.equation("eq:shared-key-heads")
def test_ranks_in_turn_have_the_same_head_of_keys():
    """Six heads of queries, two of keys, on six ranks: three in turn share one."""
    layer = MultiHeadSelfAttention(
        7, AttentionSpec(6, 2, 3, key_heads=2), np.random.default_rng(0), float
    )
    query, key, value = np.split(layer.query_key_value.weight, [12, 16], axis=1)
    own = on_threads(6, lambda c: ParallelSelfAttention(layer, *conjugate_pair(c), c).parameters())
    for rank, found in enumerate(own):
        parts = (
            np.split(query, 6, axis=1)[rank],
            np.split(key, 2, axis=1)[rank // 3],
            np.split(value, 2, axis=1)[rank // 3],
        )
        np.testing.assert_array_equal(found["query_key_value.weight"], np.concatenate(parts, 1))


@pytest.mark.equation("eq:shared-key-heads")
@fitting
def test_a_rank_holds_the_parameters_that_the_formula_says(key_heads, size):
    model = gpt(key_heads)
    whole, cuts = model.parameters(), cuts_of(TensorParallelGpt(model, Communicator()))
    pieces = on_threads(size, lambda c: TensorParallelGpt(model, c).parameters())
    total = sum(array.size for of_rank in pieces for array in of_rank.values())
    once = sum(array.size for name, array in whole.items() if name in cuts)
    on_all = sum(whole[name].size for name in replicated(whole, cuts))
    copied = L * key_heads * (sharers(size, key_heads) - 1) * (D + 1) * sum(WIDTHS)
    assert total == once + size * on_all + copied


def sent_in_a_step(model, size):
    """What all ranks send, operation by operation."""
    inputs = batch(np.random.default_rng(3))

    def work(c):
        TensorParallelGpt(model, c).loss_and_gradients(*inputs)
        return c.sent.values()

    return [traffic for of_rank in on_threads(size, work) for traffic in of_rank]


@pytest.mark.equation("eq:gpt-ranks-bytes")
@fitting
def test_a_step_sends_what_the_formula_says(key_heads, size):
    """With biases: a head of keys and values has D + 1 rows."""
    rows = B * T
    activations = (4 * L + 2) * rows * D + 3 * rows
    norms = L * 2 * K
    keys = L * key_heads * (sharers(size, key_heads) - 1) * (D + 1) * sum(WIDTHS)
    expected = 2 * 8 * ((size - 1) * (activations + norms) + keys)
    assert sum(traffic.bytes for traffic in sent_in_a_step(gpt(key_heads), size)) == expected


@pytest.mark.equation("eq:gpt-ranks-bytes")
@pytest.mark.parametrize("key_heads, size", [(1, 2), (1, 4), (2, 4), (4, 2)])
def test_the_cost_model_has_the_same_bytes_and_messages(key_heads, size):
    sizes = cost.Sizes(1, L, 16, 17, 4, T, 8)
    sent = sent_in_a_step(gpt_of_equal_widths(key_heads), size)
    load = cost.tensor_parallel(sizes, B * T, size, key_heads=key_heads, norms=True).load
    assert sum(t.bytes for t in sent) == load.bytes
    assert sum(t.messages for t in sent) == load.messages


def gpt_of_equal_widths(key_heads):
    """Four heads, each d_k = d_v = D / H wide, as ``Sizes`` has them; without biases."""
    spec = AttentionSpec(4, bias=False, key_heads=key_heads, transform="qk_norm_rotary")
    layer = LayerSpec(16, spec, 17, "pre", NormSpec("rms_norm"), "swiglu", dtype="float64")
    return Gpt(layer, StackSpec(V, T, L), np.random.default_rng(1))


@cache
def trained_alone(key_heads):
    model = gpt(key_heads, dropout=0.2)
    losses = Training(model).run(range(3))
    return {"losses": np.array(losses)} | model.parameters()


@pytest.mark.parametrize(
    "key_heads, size, sequence",
    [
        pytest.param(
            g,
            n,
            way == "sequence",
            id=f"{g}-{n}-{way}",
            marks=[] if quick else pytest.mark.thorough,
        )
        for g, n, way, quick in [
            (1, 2, "tensor", True),
            (1, 2, "sequence", False),
            (1, 3, "tensor", False),
            (1, 3, "sequence", False),
            (2, 4, "tensor", False),
            (2, 4, "sequence", True),
        ]
    ],
)
def test_training_with_clipping_and_dropout_ends_where_one_process_does(key_heads, size, sequence):
    def work(c):
        return train_cut(c, sequence, key_heads=key_heads, dropout=0.2)

    for found in on_threads(size, work):
        assert_close(found, trained_alone(key_heads), 1e-12)


@both
def test_copies_stay_the_same_bit_for_bit(sequence):
    """What every rank has, and the head of keys and values that two of four share."""

    def work(c):
        model = TensorParallelGpt(gpt(2, dropout=0.2), c, sequence)
        Training(model).run(range(2))
        parameters = model.parameters()
        of_keys = {n: a[..., -sum(WIDTHS) :] for n, a in parameters.items() if "key_va" in n}
        return {n: parameters[n] for n in replicated(parameters, model.cuts)}, of_keys

    ranks = on_threads(4, work)
    for one, other in [(0, 1), (2, 3)]:
        assert_same_bits(ranks[other][1], ranks[one][1])
    assert any("query_transform" in name for name in ranks[0][0])
    for whole, _ in ranks[1:]:
        assert_same_bits(whole, ranks[0][0])


@cache
def saved_by_four():
    def work(c):
        training = Training(TensorParallelGpt(gpt(2, dropout=0.2), c))
        training.run(range(2))
        return training.gathered()

    return on_threads(4, work)[0]


@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_checkpoint_of_four_ranks_goes_on_with_any_number(after):
    saved = saved_by_four()

    def second(c):
        training = Training(TensorParallelGpt(gpt(2, dropout=0.2), c), saved)
        training.run(range(2, 3))
        return training.gathered()[0]

    alone = {n: a for n, a in trained_alone(2).items() if n != "losses"}
    for found in on_threads(after, second):
        assert_close(found, alone, 1e-12)


@pytest.mark.equation("eq:global-norm-sharded")
def test_shared_pieces_are_cut_joined_and_counted_once():
    """Three sections on six ranks: one of each rank's own, one shared by two, one by three."""
    how = Cut(1, (12, 6, 4), (1, 2, 3))
    whole = {"w": np.random.default_rng(5).normal(size=(3, 22)), "gamma": np.ones(3)}

    def work(c):
        pieces = cut(whole, {"w": how}, c)
        return pieces["w"], gather(pieces, {"w": how}, c), norm_of_pieces(pieces, {"w": how}, c)

    a, b, d = np.split(whole["w"], [12, 18], axis=1)
    for rank, (piece, joined, norm) in enumerate(on_threads(6, work)):
        parts = a[:, 2 * rank : 2 * rank + 2], np.split(b, 3, 1)[rank // 2]
        parts = *parts, np.split(d, 2, 1)[rank // 3]
        np.testing.assert_array_equal(piece, np.concatenate(parts, axis=1))
        np.testing.assert_array_equal(joined["w"], whole["w"])
        assert norm == pytest.approx(global_norm(whole), rel=1e-14)


@pytest.mark.parametrize(
    "heads, key_heads, message",
    [
        (4, 4, "heads: expected a multiple of the 3 ranks, got 4"),
        (12, 2, "key_heads: expected a multiple or a divisor of the 3 ranks, got 2"),
        (12, 4, "key_heads: expected a multiple or a divisor of the 3 ranks, got 4"),
    ],
)
def test_heads_that_ranks_cannot_share_are_refused(heads, key_heads, message):
    spec = AttentionSpec(heads, K, key_heads=key_heads, value_width=2)
    layer = MultiHeadSelfAttention(D, spec, np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        on_threads(3, lambda c: ParallelSelfAttention(layer, *conjugate_pair(c), c))


def test_rows_for_pairs_are_refused():
    model = Gpt(gpt().spec, StackSpec(V, T, L), np.random.default_rng(1), pairs=5)
    with pytest.raises(ValueError, match="expected no rows for pairs of tokens, .* got 5"):
        TensorParallelGpt(model, Communicator())


def test_weights_of_targets_are_refused():
    inputs = batch(np.random.default_rng(3))
    with pytest.raises(ValueError, match="weights: expected None, .* got ndarray"):
        TensorParallelGpt(gpt(), Communicator()).loss_and_gradients(*inputs, np.ones((B, T)))


@on_mpi
def test_two_processes_end_where_two_threads_do_and_send_as_much(tmp_path):
    ranks = on_processes(2, trained_and_sent, tmp_path), on_threads(2, trained_and_sent)
    for found, expected in zip(*ranks, strict=True):
        sent = [name for name in expected if name.startswith("sent ")]
        assert {name: found[name] for name in sent} == {name: expected[name] for name in sent}
        assert_close(found, expected, 1e-12)
