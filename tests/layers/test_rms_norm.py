import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import normal

from transformer_core.layers import RmsNorm


@pytest.mark.equation("eq:rms-norm-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["RmsNorm"])


def test_at_first_every_row_has_the_mean_square_1(rng):
    y, _ = RmsNorm(5, np.float64, eps=1e-30).forward(3 * normal(rng, (2, 4, 5)) + 1)
    np.testing.assert_allclose((y**2).mean(axis=-1), 1, rtol=1e-14)
