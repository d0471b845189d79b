"""The feed-forward layer with its parameters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import check_choice
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.gelu import gelu, gelu_backward, gelu_tanh, gelu_tanh_backward
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.relu import relu, relu_backward
from transformer_core.ops.silu import silu, silu_backward

ACTIVATIONS: dict[str, tuple[Callable, Callable]] = {
    "relu": (relu, relu_backward),
    "gelu": (gelu, gelu_backward),
    "gelu_tanh": (gelu_tanh, gelu_tanh_backward),
    "silu": (silu, silu_backward),
}


class FeedForwardCache(NamedTuple):
    hidden: LinearCache
    activation: tuple
    output: LinearCache


class FeedForward(Layer):
    """y = f(x W_1 + b_1) W_2 + b_2, the same at every position (eq:feed-forward).

    Parameters
    ----------
    width, hidden_width : int
        D and F.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    activation : {"relu", "gelu", "gelu_tanh", "silu"}
        f; "gelu" needs SciPy, except in single precision.
    """

    # Which of its linear layers tensor parallelism cuts by columns, and which by rows.
    columns, rows = ("hidden",), ("output",)

    def __init__(
        self,
        width: int,
        hidden_width: int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        activation: str = "relu",
    ):
        check_choice("activation", activation, ACTIVATIONS)
        self.activate, self.activate_backward = ACTIVATIONS[activation]
        self.hidden = Linear(width, hidden_width, rng, dtype)
        self.output = Linear(hidden_width, width, rng, dtype)

    def forward(
        self, x: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, FeedForwardCache]:
        """Map x (..., D) to y (..., D); nothing is dropped here."""
        hidden, hidden_cache = self.hidden.forward(x)
        active, activation_cache = self.activate(hidden)
        y, output_cache = self.output.forward(active)
        return y, FeedForwardCache(hidden_cache, activation_cache, output_cache)

    def backward(
        self, dy: np.ndarray, cache: FeedForwardCache
    ) -> tuple[np.ndarray, dict]:
        """Run the pass backwards (eq:feed-forward-backward)."""
        dactive, doutput = self.output.backward(dy, cache.output)
        dhidden = self.activate_backward(dactive, cache.activation)
        dx, dhidden_parameters = self.hidden.backward(dhidden, cache.hidden)
        return dx, join({"hidden": dhidden_parameters, "output": doutput})
