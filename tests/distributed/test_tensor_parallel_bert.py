"""A BERT on ranks is the BERT of one process: gradients, drops, training, checkpoints, bytes."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from helpers.cut_bert import B, D, L, T, Training, batch, bert, train_cut, trainings
from helpers.cut_models import assert_gradients_of_one_process
from helpers.ranks import on_mpi, on_processes
from helpers.witnesses import assert_close, assert_same_bits

from transformer_core.distributed import TensorParallelBert, cuts_of
from transformer_core.distributed.pieces import replicated
from transformer_core.layers import FEED_FORWARDS, FeedForward, LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import SGD, AdamW
from transformer_core.ranks import Communicator, on_threads
from transformer_core.training import train

both = pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])
sizes = pytest.mark.parametrize("size", [1, 2, 3, 4])
placements = pytest.mark.parametrize("placement", ["pre", "post"])
ties = pytest.mark.parametrize("tied", [True, False], ids=["tied", "own"])
QUICK = [(0.0, True, "pre"), (0.3, False, "post")]
models = pytest.mark.parametrize(
    "dropout, tied, placement",
    [
        pytest.param(
            *model,
            id=f"{model[0]}-{'tied' if model[1] else 'own'}-{model[2]}",
            marks=[] if model in QUICK else pytest.mark.thorough,
        )
        for model in product([0.0, 0.3], [True, False], ["pre", "post"])
    ],
)


@both
@pytest.mark.parametrize("size", [1, 2, 3, pytest.param(4, marks=pytest.mark.thorough)])
@models
def test_gradients_are_those_of_one_process(size, sequence, placement, tied, dropout):
    model, inputs = bert(placement, tied, dropout), batch(np.random.default_rng(3))
    assert_gradients_of_one_process(TensorParallelBert, model, inputs, size, sequence)


def test_without_a_generator_nothing_is_dropped():
    model, inputs = bert(dropout=0.3), batch(np.random.default_rng(3))
    expected, _ = model.loss_and_gradients(*inputs)

    def work(c):
        return TensorParallelBert(model, c, True).loss_and_gradients(*inputs)[0]

    assert on_threads(2, work) == pytest.approx([expected] * 2, rel=1e-13)


@pytest.mark.equation("eq:megatron-bytes")
@sizes
def test_bytes_are_those_of_megatron(size):
    model, inputs = bert(), batch(np.random.default_rng(3))
    masked = inputs[2].sum()

    def work(c):
        part = TensorParallelBert(model, c)
        part.loss_and_gradients(*inputs)
        return sum(traffic.bytes for traffic in c.sent.values())

    layers = (2 + 2) * L * B * T * D
    numbers = layers + B * T * D + masked * D + 3 * masked
    assert sum(on_threads(size, work)) == 2 * (size - 1) * 8 * numbers


@pytest.mark.equation("eq:megatron-bytes")
@sizes
def test_layers_send_as_much_with_pieces_of_sequences(size):
    model, x = bert(), np.random.default_rng(3).normal(size=(B, T, D))

    def work(c):
        encoder = TensorParallelBert(model, c, sequence=True).encoder
        _, cache = encoder.forward(x)
        encoder.backward(x, cache)
        return {operation: traffic.bytes for operation, traffic in c.sent.items()}

    parameters = model.encoder.parameters()
    cuts = cuts_of(TensorParallelBert(model, Communicator()).encoder)
    summed = sum(parameters[name].size for name in replicated(parameters, cuts))
    sent = on_threads(size, work)
    scattered = (size - 1) * 8 * (4 * L * B * T * D + summed)
    ends = 2 * (size - 1) * 8 * B * T * D  # of the sequence, joined there and back
    assert sum(traffic["reduce_scatter"] for traffic in sent) == scattered
    assert sum(traffic["all_gather"] for traffic in sent) == scattered + ends


@cache
def trained_alone(placement, tied):
    training = Training(bert(placement, tied, 0.2))
    losses = training.run(range(5))
    return {"losses": np.array(losses)} | training.model.parameters()


@pytest.mark.slow
@both
@sizes
@placements
@ties
def test_training_with_clipping_and_dropout_ends_where_one_process_does(
    size, sequence, placement, tied
):
    settings = {"placement": placement, "tied": tied, "dropout": 0.2}
    for found in on_threads(size, lambda c: train_cut(c, sequence, **settings)):
        assert_close(found, trained_alone(placement, tied), 1e-12)


@both
def test_what_every_rank_has_stays_the_same_bit_for_bit(sequence):
    def work(c):
        model = TensorParallelBert(bert(dropout=0.2, dtype="float32"), c, sequence)
        Training(model).run(range(2))
        parameters = model.parameters()
        return {name: parameters[name] for name in replicated(parameters, model.cuts)}

    first, *others = on_threads(4, work)
    assert len(first) > 10
    for other in others:
        assert_same_bits(other, first)


@pytest.mark.slow
@both
@pytest.mark.parametrize("after", [1, 2, 3, 4])
@pytest.mark.parametrize("before", [2, 3])
def test_a_checkpoint_goes_on_with_any_number_of_ranks(before, after, sequence):
    def first(c):
        training = Training(TensorParallelBert(bert(dropout=0.2), c, sequence))
        training.run(range(3))
        return training.gathered()

    saved = on_threads(before, first)[0]
    assert saved[0].keys() == bert().parameters().keys()
    assert saved[1].keys() == AdamW(bert().parameters).state().keys()

    def second(c):
        training = Training(TensorParallelBert(bert(dropout=0.2), c, sequence), saved)
        training.run(range(3, 5))
        return training.gathered()[0]

    alone = without_losses(trained_alone("post", True))
    never_stopped, *_ = on_threads(before, lambda c: train_cut(c, sequence, dropout=0.2))
    for found in on_threads(after, second):
        assert_close(found, alone, 1e-12)
        if after == before:
            assert_same_bits(found, without_losses(never_stopped))


def without_losses(trained):
    return {name: array for name, array in trained.items() if name != "losses"}


def test_the_whole_model_is_left_as_it_was():
    model = bert()
    before = {name: array.copy() for name, array in model.parameters().items()}
    on_threads(2, lambda c: Training(TensorParallelBert(model, c)).run(range(2)))
    assert_same_bits(model.parameters(), before)


@on_mpi
@pytest.mark.slow
def test_four_processes_end_where_four_threads_do(tmp_path):
    alone = trained_alone("post", True)
    ranks = on_processes(4, trainings, tmp_path), on_threads(4, trainings)
    for found, expected in zip(*ranks, strict=True):
        assert_close(found, expected, 1e-12)
        for way in ("tensor", "sequence", "pair"):
            assert_close({name: expected[f"{way} {name}"] for name in alone}, alone, 1e-12)


@pytest.mark.parametrize(
    "heads, hidden_width, vocabulary, message",
    [
        (4, 8, 9, "heads: expected a multiple of the 3 ranks, got 4"),
        (3, 2, 9, "hidden_width: expected at least 3, one a rank, got 2"),
        (3, 8, 2, "vocabulary: expected at least 3, one a rank, got 2"),
    ],
)
def test_a_model_that_cannot_be_cut_is_refused(heads, hidden_width, vocabulary, message):
    spec = LayerSpec(12, heads, hidden_width, "pre")
    model = Bert(spec, StackSpec(vocabulary, 6, 1), np.random.default_rng(1))
    with pytest.raises(ValueError, match=message):
        on_threads(3, lambda c: TensorParallelBert(model, c))


def test_a_feed_forward_layer_that_does_not_say_how_it_is_cut_is_refused(monkeypatch):
    class Other(FeedForward):
        """What is done to the hidden units has a parameter, of which nothing is said."""

        def __init__(self, *settings):
            super().__init__(*settings)
            self.scale = np.ones(8)

    monkeypatch.setitem(FEED_FORWARDS, "other", Other)
    spec = LayerSpec(12, 3, 8, "pre", feed_forward="other")
    model = Bert(spec, StackSpec(9, 6, 1), np.random.default_rng(1))
    with pytest.raises(ValueError, match="feed_forward: expected one whose columns .* got Other"):
        TensorParallelBert(model, Communicator())


def test_an_optimiser_of_its_parameters_clips_by_the_norm_of_all_ranks():
    """With nothing to remember, be it built from the parameters or from what returns them."""

    def work(c):
        model = TensorParallelBert(bert(), c)
        for optimizer in (SGD(model.parameters(), 0.1), SGD(model.parameters, 0.1)):
            rng = np.random.default_rng(3)
            for _ in range(2):
                optimizer.step(model.loss_and_gradients(*batch(rng))[1], 0.5)
        return model.gather(model.parameters())

    (expected,), ranks = on_threads(1, work), on_threads(2, work)
    for found in ranks:
        assert_close(found, expected, 1e-12)


def test_a_norm_that_is_not_finite_is_told_by_every_rank():
    def work(c):
        model = TensorParallelBert(bert(), c)
        _, grads = model.loss_and_gradients(*batch(np.random.default_rng(3)))
        for name in ("readout.bias", "encoder.layer_0.attention.norm.gamma"):
            spoiled = {n: np.full_like(g, np.nan) if n == name else g for n, g in grads.items()}
            mine = spoiled if c.rank == 1 else grads
            with pytest.raises(ValueError, match=r"grads: expected a finite norm, got nan from"):
                model.norm(mine)

    on_threads(2, work)


def test_training_with_the_norm_of_one_rank_is_refused():
    def work(c):
        model = TensorParallelBert(bert(), c)
        optimizer = SGD(dict(model.parameters()), 0.1)
        with pytest.raises(ValueError, match="optimizer: expected one with the norm of the model"):
            train(model, optimizer, [()], 1, progress=False)

    on_threads(2, work)
