import numpy as np
import pytest
from helpers.witnesses import normal, randomise

from transformer_core.gradient_check import central_difference, check_gradients
from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec

IDS = np.array([[3, 0, 3, 5], [3, 1, 0, 1]])
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
KEEP = np.array([[True, True, True, False], [True, True, True, True]])[:, None, None]


def encoder(rng, **settings):
    spec = LayerSpec(6, 2, 7, "post", feed_forward="gelu_tanh", dtype="float64")
    stack = StackSpec(9, 5, 2)
    made = BertEncoder(spec, stack, rng, 2, True, final_norm=False, **settings)
    return randomise(made, rng)


@pytest.mark.equation("eq:bert-input-backward")
@pytest.mark.parametrize("pooler", [False, True])
def test_every_gradient_is_that_of_differences(rng, pooler):
    model = encoder(rng, pooler=pooler)
    h, cache = model.forward(IDS, KEEP, SEGMENTS)
    dh = normal(rng, h.shape)
    dpooled = normal(rng, cache.pooled.shape) if pooler else None
    _, grads = model.backward(dh, cache, dpooled)

    def loss():
        h, cache = model.forward(IDS, KEEP, SEGMENTS)
        return (h * dh).sum() + ((cache.pooled * dpooled).sum() if pooler else 0)

    report = check_gradients(loss, model.parameters(), grads, central_difference, 8, rng)
    assert report.right, report


def test_what_is_not_pooled_has_gradient_zero(rng):
    model = encoder(rng, pooler=True)
    h, cache = model.forward(IDS, KEEP, SEGMENTS)
    _, grads = model.backward(np.ones_like(h), cache)
    assert not grads["pooler.dense.weight"].any()


def test_a_cotangent_without_a_pooler_is_refused(rng):
    model = encoder(rng)
    h, cache = model.forward(IDS, KEEP, SEGMENTS)
    with pytest.raises(ValueError, match="dpooled: expected None"):
        model.backward(h, cache, np.ones((2, 6)))
