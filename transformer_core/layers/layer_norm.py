"""Layer normalisation with its parameters."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_dtype,
    check_positive,
    check_positive_int,
)
from transformer_core.layers.layer import Layer
from transformer_core.ops.layer_norm import (
    LayerNormCache,
    layer_norm,
    layer_norm_backward,
)


class LayerNorm(Layer):
    """y = gamma * x_hat + beta (eq:layer-norm).

    Parameters
    ----------
    width : int
        D.
    dtype : NumPy dtype
    eps : float
        Added to the variance; in the units of the input squared.

    gamma starts at 1, beta at 0.
    """

    def __init__(self, width: int, dtype: DTypeLike = np.float32, eps: float = 1e-5):
        check_positive_int("width", width)
        check_dtype("dtype", dtype)
        check_positive("eps", eps)
        self.gamma = np.ones(width, dtype)
        self.beta = np.zeros(width, dtype)
        self.eps = eps

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, LayerNormCache]:
        """Map x (..., D) to y (..., D)."""
        return layer_norm(x, self.gamma, self.beta, self.eps)

    def backward(
        self, dy: np.ndarray, cache: LayerNormCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx (..., D) and the gradients (eq:layer-norm-backward)."""
        dx, dgamma, dbeta = layer_norm_backward(dy, cache)
        return dx, {"gamma": dgamma, "beta": dbeta}
