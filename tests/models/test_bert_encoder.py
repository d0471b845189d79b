import numpy as np
import pytest
from helpers.witnesses import randomise

from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec

IDS = np.array([[3, 0, 3, 5], [3, 1, 0, 1]])
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
KEEP = np.array([[True, True, True, False], [True, True, True, True]])[:, None, None]


def encoder(rng, dtype=np.float64, **settings):
    spec = LayerSpec(6, 2, 7, "post", feed_forward="gelu_tanh", dtype=dtype)
    stack = StackSpec(9, 5, 2)
    made = BertEncoder(spec, stack, rng, 2, True, final_norm=False, **settings)
    return randomise(made, rng)


@pytest.mark.equation("eq:bert-input-backward")
@pytest.mark.parametrize("pooler", [False, True])
def test_gradients_agree_with_the_witnesses(check, rng, pooler):
    """With what is pooled as one more position."""
    model = encoder(rng, check.witness.dtype, pooler=pooler)

    def forward():
        h, cache = model.forward(IDS, KEEP, SEGMENTS)
        return np.append(h, cache.pooled[:, np.newaxis], axis=1) if pooler else h, cache

    def backward(dy, cache):
        dh, dpooled = (dy[:, :-1], dy[:, -1]) if pooler else (dy, None)
        return model.backward(dh, cache, dpooled)[-1]

    check.model(forward, backward, model.parameters())


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
