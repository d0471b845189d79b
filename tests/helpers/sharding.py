"""What the tests of the sharded trainings share: a model, its batches, and one process alone."""

from functools import partial

import numpy as np
import pytest
from helpers.cases import split_variant
from helpers.witnesses import randomise

from transformer_core.distributed import ShardedParameters
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, EncoderDecoder, StackSpec
from transformer_core.optim import AdamW
from transformer_core.ranks import on_threads

SIZES = [1, 2, 3, pytest.param(4, marks=pytest.mark.thorough)]
EVERYTHING = {
    "tied": True,
    "segments": 2,
    "embedding_norm": True,
    "placement": "pre",
    "feed_forward": "gelu",
}
VARIANTS = {"own output layer": {"tied": False}, "everything": EVERYTHING}
# The gradient of the keys' bias is 0, and so rounding: Adam would divide it by its own size.
ADAMW = partial(AdamW, eps=1e-5)
STEPS, MAX_NORM, B, T, V = 3, 0.5, 6, 5, 11


def bert(variant=EVERYTHING, dtype=np.float64, layers=2, width=6, hidden=7):
    """A model at a generic point, the same at every call: its parameters are an odd number."""
    rng = np.random.default_rng(1)
    spec, others = split_variant(width, AttentionSpec(2), hidden, variant, dtype=dtype)
    return randomise(Bert(spec, StackSpec(V, T, layers), rng, **others), rng)


def encoder_decoder(**options):
    """An encoder-decoder at a generic point, the same at every call."""
    rng = np.random.default_rng(6)
    spec, stack = LayerSpec(6, 2, 7, "pre", dtype=np.float64), StackSpec(9, 5, 2)
    return randomise(EncoderDecoder(spec, stack, stack, rng, **options), rng)


def batch(model, step):
    """Six sequences with unequal numbers of masked tokens: the last but one has none."""
    rng = np.random.default_rng([2, step])
    ids, targets = rng.integers(V, size=(2, B, T))
    masked = rng.random((B, T)) < np.array([[0.9], [0.2], [0.5], [0.1], [0], [0.7]])
    masked[[0, 1, 2, 3, 5], [0, 1, 2, 3, 4]] = True
    segments = rng.integers(2, size=(B, T)) if model.segments else None
    return ids, targets, masked, None, segments


def masked_tokens(ids, targets, masked, *others):
    return masked.sum()


def part(arrays, communicator):
    """This rank's sequences and its counted tokens; one without any works for nothing."""
    edges = [[0, 6], [0, 4, 6], [0, 1, 4, 6], [0, 1, 4, 5, 6]][communicator.size - 1]
    rows = slice(*edges[communicator.rank : communicator.rank + 2])
    shard = [None if array is None else array[rows] for array in arrays]
    weight = shard[2].sum()
    if weight == 0:
        shard = [None if array is None else array[:1] for array in arrays]
    return shard, weight


def gradients(communicator, sharded, step=0):
    """The loss and the pieces of the gradients for this rank's part of a batch."""
    shard, weight = part(batch(sharded.model, step), communicator)
    return sharded.of_shard(*shard, weight=weight)


def alone(model, build=ADAMW, max_norm=MAX_NORM, steps=STEPS):
    """Train on the whole batches; return losses, parameters, and the optimiser."""
    optimizer = build(model.parameters())
    losses = []
    for step in range(steps):
        loss, grads = model.loss_and_gradients(*batch(model, step))
        optimizer.step(grads, max_norm)
        losses.append(loss)
    return losses, optimizer.parameters, optimizer


def train(communicator, sharded, max_norm=MAX_NORM, first=0, steps=STEPS):
    """Train on this rank's parts of the batches; return the losses."""
    losses = []
    for step in range(first, steps):
        loss, grads = gradients(communicator, sharded, step)
        sharded.optimizer.step(grads, max_norm)
        losses.append(loss)
    return losses


def trained(size, shard, variant=EVERYTHING, max_norm=MAX_NORM, steps=STEPS):
    """Train on ranks; return for each the losses, and what :meth:`gather` returns."""

    def work(communicator):
        sharded = shard(bert(variant), ADAMW, communicator)
        return train(communicator, sharded, max_norm, 0, steps), *sharded.gather()

    return on_threads(size, work)


def trained_at_stage_3(communicator):
    """Return the parameters and the moments after some steps of ZeRO 3."""
    sharded = ShardedParameters(bert(), ADAMW, communicator)
    train(communicator, sharded)
    parameters, optimizer = sharded.gather()
    return parameters | optimizer.state()


def assert_equal_to_one_process(size, shard, variant, max_norm=MAX_NORM):
    losses, parameters, optimizer = alone(bert(variant), max_norm=max_norm)
    assert sum(array.size for array in parameters.values()) % 2
    for own_losses, own_parameters, own in trained(size, shard, variant, max_norm):
        np.testing.assert_allclose(own_losses, losses, rtol=0, atol=1e-12)
        assert_close(own_parameters, parameters)
        assert_close(own.state(), optimizer.state())
        assert own.steps == STEPS


def assert_close(arrays, expected, tolerance=1e-12):
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert arrays[name].shape == array.shape
        np.testing.assert_allclose(arrays[name], array, rtol=0, atol=tolerance, err_msg=name)


def sent_in_one_step(size, shard, variant=EVERYTHING):
    """The bytes that each rank sends in one step, by operation, and its share of the parameters."""

    def work(communicator):
        sharded = shard(bert(variant), ADAMW, communicator)
        communicator.sent.clear()
        train(communicator, sharded, steps=1)
        own = sum(piece.nbytes for piece in sharded.optimizer.parameters.values())
        return {name: traffic.bytes for name, traffic in communicator.sent.items()}, own

    return on_threads(size, work)


def bytes_of(parameters):
    """The bytes of all parameters, and of those that belong to no encoder layer."""
    whole = sum(array.nbytes for array in parameters.values())
    rest = sum(a.nbytes for n, a in parameters.items() if ".layer_" not in n)
    return whole, rest
