"""The linear layer with its parameters."""

import numpy as np

from transformer_core.foundation.checks import check_positive_int
from transformer_core.ops.linear import linear, linear_backward


class Linear:
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

    def __init__(self, width_in, width_out, rng, dtype=np.float32, bias=True):
        check_positive_int("width_in", width_in)
        check_positive_int("width_out", width_out)
        bound = width_in**-0.5
        weight = rng.uniform(-bound, bound, (width_in, width_out))
        self.weight = weight.astype(dtype)
        self.bias = np.zeros(width_out, dtype) if bias else None

    def parameters(self):
        return self.named(self.weight, self.bias)

    def forward(self, x):
        return linear(x, self.weight, self.bias)

    def backward(self, dy, cache):
        dx, dweight, dbias = linear_backward(dy, cache)
        return dx, self.named(dweight, dbias)

    def named(self, weight, bias):
        return {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
