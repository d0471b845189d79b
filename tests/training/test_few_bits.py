from functools import partial

import numpy as np
import pytest

from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, StackSpec
from transformer_core.ops import round_to, softmax
from transformer_core.training import few_bits, rounded_arrays

SPEC = LayerSpec(
    12,
    AttentionSpec(3, bias=False, key_heads=1, transform="rotary_halves"),
    20,
    "pre",
    NormSpec("rms_norm"),
    "swiglu",
)
BFLOAT16 = partial(round_to, format="bfloat16")
FLOAT8 = partial(round_to, format="float8_e4m3fn")


def is_rounded(x, rounding=BFLOAT16):
    return np.array_equal(x, rounding(np.asarray(x)))


@pytest.fixture
def gpt(rng):
    return Gpt(SPEC, StackSpec(17, 8, 2), rng)


def batch(rng):
    return rng.integers(0, 17, (3, 7)), rng.integers(0, 17, (3, 7))


def test_without_rounding_nothing_changes(rng, gpt):
    ids, targets = batch(rng)
    loss, grads = gpt.loss_and_gradients(ids, targets)
    found_loss, found = few_bits(gpt, lambda x: x)(ids, targets)
    assert found_loss == loss and found.keys() == grads.keys()
    for name, grad in grads.items():
        assert type(found[name]) is np.ndarray and np.array_equal(found[name], grad)


def test_gradients_are_numbers_of_the_format_near_those_of_float32(rng, gpt):
    ids, targets = batch(rng)
    _, exact = gpt.loss_and_gradients(ids, targets)
    _, grads = few_bits(gpt, BFLOAT16)(ids, targets)
    for name, grad in grads.items():
        error = np.linalg.norm(grad - exact[name]) / np.linalg.norm(exact[name])
        assert is_rounded(grad) and 1e-4 < error < 0.1, name


def test_the_cotangent_of_the_loss_scales_every_gradient(rng, gpt):
    ids, targets = batch(rng)
    _, grads = gpt.loss_and_gradients(ids, targets)
    _, scaled = gpt.loss_and_gradients(ids, targets, dloss=2.0**7)
    assert all(np.array_equal(scaled[name], 2.0**7 * grads[name]) for name in grads)


def test_master_weights_stay_as_they_are_also_after_an_error(rng, gpt):
    before = {name: array.copy() for name, array in gpt.parameters().items()}
    arrays = gpt.parameters()
    few_bits(gpt, BFLOAT16)(*batch(rng))
    with pytest.raises(ValueError):
        few_bits(gpt, BFLOAT16)(np.array([[17]]), np.array([[0]]))
    for name, array in gpt.parameters().items():
        assert array is arrays[name] and np.array_equal(array, before[name])


def test_a_product_is_summed_in_float32_and_rounded_once(rng):
    kind = rounded_arrays(BFLOAT16, FLOAT8)
    x, weight = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 300), (300, 5)))
    y = x.view(kind) @ weight
    assert type(y) is kind
    assert np.array_equal(y, BFLOAT16(FLOAT8(x) @ FLOAT8(weight)))


def test_every_operation_rounds_what_it_returns(rng):
    kind = rounded_arrays(BFLOAT16)
    x = BFLOAT16(rng.normal(size=(3, 9)).astype(np.float32)).view(kind)
    for y in (np.exp(x), x * 0.1, x.sum(axis=1), x.mean(axis=0), x[1:] / 3, softmax(x)[0]):
        assert type(y) is kind and is_rounded(y)
    assert np.array_equal(x.sum(axis=1), BFLOAT16(np.asarray(x).sum(axis=1)))
    assert (x > 0).dtype == bool and np.argmax(x) == np.argmax(np.asarray(x))


def test_operations_in_place_round_too(rng):
    kind = rounded_arrays(BFLOAT16)
    x = rng.normal(size=(3, 9)).astype(np.float32)
    for target in (x.copy(), x.copy().view(kind)):
        before = target
        target *= np.full((3, 9), 0.3, np.float32).view(kind)
        assert target is before and is_rounded(target)
        assert np.array_equal(target, BFLOAT16(x * np.float32(0.3)))
