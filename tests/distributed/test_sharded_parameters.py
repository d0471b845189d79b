"""ZeRO 3: the same training as one process alone, and what it sends and holds."""

import copy
from functools import partial

import numpy as np
import pytest
from sharding import (
    ADAMW,
    B,
    EVERYTHING,
    SIZES,
    T,
    V,
    VARIANTS,
    alone,
    assert_close,
    assert_equal_to_one_process,
    assert_same_bits,
    bert,
    bytes_of,
    sent_in_one_step,
    train,
    trained,
)
from witnesses import arrays_in, normal, randomise

from transformer_core.distributed import Communicator, on_threads
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import EncoderDecoder, StackSpec
from transformer_core.optim import Muon

every_size = pytest.mark.parametrize("size", SIZES)


@every_size
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.equation("eq:zero-3")
def test_the_training_is_that_of_one_process(size, variant):
    assert_equal_to_one_process(size, ShardedParameters, variant)


@every_size
def test_the_bits_are_those_of_stage_2(size):
    for one, other in zip(
        trained(size, ShardedParameters),
        trained(size, partial(ShardedOptimizer, stage=2)),
        strict=True,
    ):
        assert one[0] == other[0]
        assert_same_bits(one[1], other[1])


@every_size
@pytest.mark.equation("eq:zero-3")
def test_a_step_sends_each_layer_three_times_and_the_rest_twice(size):
    whole, rest = bytes_of(bert().parameters())
    sent = sent_in_one_step(size, ShardedParameters)
    for traffic, own in sent:
        assert traffic["reduce_scatter"] == whole - own
    moved = sum(t["reduce_scatter"] + t["all_gather"] for t, _ in sent)
    assert moved == (size - 1) * (3 * whole - rest)
