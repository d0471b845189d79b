"""The feed-forward layer with its parameters."""

from typing import NamedTuple

import numpy as np

from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.names import join
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.relu import ReluCache, relu, relu_backward


class FeedForwardCache(NamedTuple):
    hidden: LinearCache
    relu: ReluCache
    output: LinearCache


class FeedForward(Layer):
    """y = max(0, x W_1 + b_1) W_2 + b_2, the same at every position (eq:feed-forward).

    Parameters
    ----------
    width, hidden_width : int
        D and F.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    """

    def __init__(self, width, hidden_width, rng, dtype=np.float32):
        self.hidden = Linear(width, hidden_width, rng, dtype)
        self.output = Linear(hidden_width, width, rng, dtype)
        self.sublayers = {"hidden": self.hidden, "output": self.output}

    def forward(self, x):
        """Map x (..., D) to y (..., D)."""
        hidden, hidden_cache = self.hidden.forward(x)
        active, relu_cache = relu(hidden)
        y, output_cache = self.output.forward(active)
        return y, FeedForwardCache(hidden_cache, relu_cache, output_cache)

    def backward(self, dy, cache):
        dactive, doutput = self.output.backward(dy, cache.output)
        dhidden = relu_backward(dactive, cache.relu)
        dx, dhidden_parameters = self.hidden.backward(dhidden, cache.hidden)
        return dx, join({"hidden": dhidden_parameters, "output": doutput})
