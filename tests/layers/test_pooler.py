import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import normal

from transformer_core.layers import Pooler


@pytest.mark.equation("eq:pooler-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["Pooler"])


@pytest.mark.equation("eq:pooler")
def test_the_first_token_alone_counts(rng):
    pooler = Pooler(6, rng, "float64")
    h = normal(rng, (2, 5, 6))
    y, cache = pooler.forward(h)
    h[:, 1:] += 1
    assert np.array_equal(pooler.forward(h)[0], y)
    dh, _ = pooler.backward(normal(rng, (2, 6)), cache)
    assert (dh[:, 0] != 0).all() and not dh[:, 1:].any()
