"""What is the same, however a training is cut: to the last bit, or to how many digits.

Each test is a row of the table in the chapter *Many machines*; the largest difference that it
meets is in its report (``--junitxml``) as the property ``difference``.
"""

import numpy as np
import pytest
from helpers.one_step import masked_tokens, model_and_batch, one_step
from helpers.ranks import on_mpi, on_processes

from transformer_core.ops import cross_entropy, cross_entropy_backward
from transformer_core.optim import AdamW
from transformer_core.ranks import Communicator, on_threads
from transformer_core.tasks.bert.recipe import RECIPE
from transformer_core.training import Run, combine, train_on_disk

DTYPES = "float32", "float64"
# Sums in another order: a few units in the last place of the largest gradient; in training, what
# the optimiser makes of them in 12 steps.
CLOSE = {"float32": 2e-6, "float64": 1e-14}
TRAINED = {"float32": 1e-5, "float64": 1e-13}

thorough = pytest.mark.thorough
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture
def difference(record_property):
    """Return the largest difference of arrays by name, over the largest number, and record it."""

    def measure(left, right):
        assert left.keys() == right.keys()
        largest = max(abs(array).max() for array in right.values())
        found = max(abs(left[name] - right[name]).max() for name in right) / largest
        record_property("difference", float(found))
        return found

    return measure


@every_dtype
def test_accumulation_is_one_batch(dtype, difference):
    model, batch = model_and_batch(dtype)
    parts = []
    for rows in (slice(0, 2), slice(2, 3), slice(3, 7)):
        shard = [array[rows] for array in batch]
        if masked_tokens(*shard):
            parts.append((masked_tokens(*shard), *model.loss_and_gradients(*shard)))
    assert len(parts) == 2
    _, loss, grads = combine(parts)
    whole_loss, whole = model.loss_and_gradients(*batch)
    left, right = grads | {"loss": np.array(loss)}, whole | {"loss": whole_loss}
    assert difference(left, right) <= CLOSE[dtype]


@every_dtype
@pytest.mark.parametrize(
    "shards", [2, pytest.param(3, marks=thorough), pytest.param(4, marks=thorough), 7]
)
def test_shards_are_one_batch(shards, dtype, difference):
    sharded = one_step(Communicator(), dtype, shards)
    assert difference(sharded, one_step(Communicator(), dtype)) <= CLOSE[dtype]


@every_dtype
@pytest.mark.parametrize("shards", [1, 2, 3, pytest.param(4, marks=thorough), 8])
def test_shards_on_thread_ranks_are_shards_over_threads_bit_for_bit(shards, dtype, difference):
    over_threads = one_step(Communicator(), dtype, shards)
    for on_rank in on_threads(shards, one_step, dtype):
        assert difference(on_rank, over_threads) == 0


@on_mpi
@every_dtype
@pytest.mark.parametrize("shards", [2, 4])
def test_shards_over_processes_are_shards_over_threads_bit_for_bit(
    shards, dtype, difference, tmp_path
):
    over_threads = one_step(Communicator(), dtype, shards)
    for on_rank in on_processes(shards, one_step, tmp_path, dtype):
        assert difference(on_rank, over_threads) == 0


@every_dtype
def test_masked_rows_are_the_full_readout(dtype, difference):
    model, (ids, targets, masked) = model_and_batch(dtype)
    loss, grads = model.loss_and_gradients(ids, targets, masked)
    logits, cache = model.forward(ids)
    full_loss, loss_cache = cross_entropy(logits, targets, masked)
    _, full = model.backward(cross_entropy_backward(1, loss_cache), cache)
    left, right = grads | {"loss": np.array(loss)}, full | {"loss": full_loss}
    assert difference(left, right) <= CLOSE[dtype]


# Trainings


@pytest.fixture
def trained(tmp_path, text, monkeypatch):
    """Train a Mini-BERT on ranks, with dropout; in 12 steps, unless another number is killed."""

    def train(ranks, name, dtype, killed_in=None, resume=False, seed=0):
        spec = {"width": 32, "hidden_width": 64, "dropout": 0.1, "dtype": dtype}
        given = {"length": 16, "layers": 1, "vocabulary": 60, "batch": 7, "spec": spec}
        given |= {"text": text, "steps": 12, "checkpoint_every": 5, "seed": seed}
        update = AdamW.step

        def step(optimizer, *arguments):
            if optimizer.steps + 1 == killed_in:
                raise InterruptedError
            update(optimizer, *arguments)

        def work(communicator):
            return train_on_disk(RECIPE, tmp_path / name, given, resume, communicator)

        with monkeypatch.context() as patch:
            patch.setattr(AdamW, "step", step)
            optimizer = on_threads(ranks, work)[0].optimizer
        losses = [record["loss"] for record in Run(tmp_path / name).history()]
        return optimizer.parameters | optimizer.state() | {"losses": np.array(losses)}

    return train


@pytest.mark.slow
@every_dtype
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_training_resumed_is_one_never_interrupted_bit_for_bit(ranks, dtype, trained, difference):
    with pytest.raises(InterruptedError):
        trained(ranks, "run", dtype, killed_in=9)
    resumed = trained(ranks, "run", dtype, resume=True)
    assert difference(resumed, trained(ranks, "whole", dtype)) == 0


@pytest.mark.slow
@every_dtype
@pytest.mark.parametrize("ranks, then", [(3, 1), (1, 4), (2, 3)])
def test_resumed_on_another_number_of_ranks_it_differs_by_rounding(
    ranks, then, dtype, trained, difference
):
    """Its sums over the batch are cut at other places."""
    with pytest.raises(InterruptedError):
        trained(ranks, "run", dtype, killed_in=9)
    resumed = trained(then, "run", dtype, resume=True)
    assert 0 < difference(resumed, trained(ranks, "whole", dtype)) <= TRAINED[dtype]


@pytest.mark.slow
@every_dtype
def test_resumed_on_as_many_shards_the_bits_are_the_same(dtype, trained, difference):
    """One process alone has two, in two threads."""
    with pytest.raises(InterruptedError):
        trained(2, "run", dtype, killed_in=9)
    resumed = trained(1, "run", dtype, resume=True)
    assert difference(resumed, trained(2, "whole", dtype)) == 0


@pytest.mark.slow
@every_dtype
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_same_seed_twice_gives_the_same_bits(ranks, dtype, trained, difference):
    one, other = (trained(ranks, name, dtype) for name in ("one", "other"))
    assert difference(one, other) == 0
    assert difference(trained(ranks, "next", dtype, seed=1), one) > 1e-3
