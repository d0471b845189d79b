"""The linear layer with its parameters."""

import numpy as np

from transformer_core.checks import check_positive_int
from transformer_core.ops.linear import linear, linear_backward


class Linear:
    """y = x W + b (eq:linear).

    Parameters
    ----------
    width_in, width_out : int
        D_in and D_out.
    rng : numpy.random.Generator
    dtype : NumPy dtype

    W starts uniform between -1 / sqrt(D_in) and 1 / sqrt(D_in), as PyTorch's ``nn.Linear`` does:
    inputs of unit variance give outputs of variance 1/3. b starts at 0.
    """

    def __init__(self, width_in, width_out, rng, dtype=np.float32):
        check_positive_int("width_in", width_in)
        check_positive_int("width_out", width_out)
        bound = width_in**-0.5
        weight = rng.uniform(-bound, bound, (width_in, width_out))
        self.weight = weight.astype(dtype)
        self.bias = np.zeros(width_out, dtype)

    def parameters(self):
        return {"weight": self.weight, "bias": self.bias}

    def forward(self, x):
        return linear(x, self.weight, self.bias)

    def backward(self, dy, cache):
        dx, dweight, dbias = linear_backward(dy, cache)
        return dx, {"weight": dweight, "bias": dbias}
