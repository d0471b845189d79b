"""Root mean square normalisation with its parameter."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_dtype,
    check_positive,
    check_positive_int,
)
from transformer_core.layers.layer import Layer
from transformer_core.ops.rms_norm import RmsNormCache, rms_norm, rms_norm_backward


class RmsNorm(Layer):
    """y = gamma * x_hat (eq:rms-norm).

    Parameters
    ----------
    width : int
        D.
    dtype : NumPy dtype
    eps : float
        Added to the mean square; in the units of the input squared.

    gamma starts at 1.
    """

    def __init__(self, width: int, dtype: DTypeLike = np.float32, eps: float = 1e-5):
        check_positive_int("width", width)
        check_dtype("dtype", dtype)
        check_positive("eps", eps)
        self.gamma = np.ones(width, dtype)
        self.eps = eps

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, RmsNormCache]:
        """Map x (..., D) to y (..., D)."""
        return rms_norm(x, self.gamma, self.eps)

    def backward(self, dy: np.ndarray, cache: RmsNormCache) -> tuple[np.ndarray, dict]:
        """Return dx (..., D) and the gradient (eq:rms-norm-backward)."""
        dx, dgamma = rms_norm_backward(dy, cache)
        return dx, {"gamma": dgamma}
