"""The linear layer with its parameters."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_dtype,
    check_generator,
    check_positive_int,
)
from transformer_core.layers.layer import Layer
from transformer_core.ops.linear import LinearCache, linear, linear_backward


class Linear(Layer):
    """y = x W + b (eq:linear).

    Parameters
    ----------
    width_in, width_out : int
        D_in and D_out.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    bias : bool
        False: there is no b.

    W starts uniform between -1 / sqrt(D_in) and 1 / sqrt(D_in), as PyTorch's ``nn.Linear`` does:
    inputs of unit variance give outputs of variance 1/3. b starts at 0.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        bias: bool = True,
    ):
        check_positive_int("width_in", width_in)
        check_positive_int("width_out", width_out)
        check_dtype("dtype", dtype)
        check_generator("rng", rng)
        bound = width_in**-0.5
        weight = rng.uniform(-bound, bound, (width_in, width_out))
        self.weight = weight.astype(dtype)
        self.bias = np.zeros(width_out, dtype) if bias else None

    def forward(
        self, x: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, LinearCache]:
        """Map x (..., D_in) to y (..., D_out); nothing is dropped here."""
        return linear(x, self.weight, self.bias)

    def backward(self, dy: np.ndarray, cache: LinearCache) -> tuple[np.ndarray, dict]:
        """Return dx (..., D_in) and the gradients (eq:linear-backward)."""
        dx, dweight, dbias = linear_backward(dy, cache)
        grads = {"weight": dweight}
        return dx, grads if dbias is None else grads | {"bias": dbias}
