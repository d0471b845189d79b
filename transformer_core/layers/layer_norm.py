"""Layer normalisation with its parameters."""

import numpy as np

from transformer_core.foundation.checks import check_positive_int
from transformer_core.ops.layer_norm import layer_norm, layer_norm_backward


class LayerNorm:
    """y = gamma * x_hat + beta (eq:layer-norm).

    Parameters
    ----------
    width : int
        D.
    dtype : NumPy dtype

    gamma starts at 1, beta at 0.
    """

    def __init__(self, width, dtype=np.float32):
        check_positive_int("width", width)
        self.gamma = np.ones(width, dtype)
        self.beta = np.zeros(width, dtype)

    def parameters(self):
        return {"gamma": self.gamma, "beta": self.beta}

    def forward(self, x):
        return layer_norm(x, self.gamma, self.beta)

    def backward(self, dy, cache):
        dx, dgamma, dbeta = layer_norm_backward(dy, cache)
        return dx, {"gamma": dgamma, "beta": dbeta}
