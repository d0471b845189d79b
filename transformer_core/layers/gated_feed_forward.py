"""The gated feed-forward layer with its parameters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import check_choice
from transformer_core.foundation.names import join
from transformer_core.layers.feed_forward import ACTIVATIONS
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.gated_product import (
    GatedProductCache,
    gated_product,
    gated_product_backward,
)
from transformer_core.ops.linear import LinearCache


class GatedFeedForwardCache(NamedTuple):
    gate: LinearCache
    activation: tuple
    value: LinearCache
    product: GatedProductCache
    output: LinearCache


class GatedFeedForward(Layer):
    """y = (f(x W_g) * x W_v) W_2, the same at every position (eq:gated-feed-forward).

    Parameters
    ----------
    width, hidden_width : int
        D and F.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    activation : str
        f, by its name in ``ACTIVATIONS``: with "silu" it is SwiGLU, with "gelu" GEGLU.

    There are no biases.
    """

    # Which of its linear layers tensor parallelism cuts by columns, and which by rows.
    columns, rows = ("gate", "value"), ("output",)

    def __init__(
        self,
        width: int,
        hidden_width: int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        activation: str = "silu",
    ):
        check_choice("activation", activation, ACTIVATIONS)
        self.activate, self.activate_backward = ACTIVATIONS[activation]
        self.gate = Linear(width, hidden_width, rng, dtype, bias=False)
        self.value = Linear(width, hidden_width, rng, dtype, bias=False)
        self.output = Linear(hidden_width, width, rng, dtype, bias=False)

    def forward(
        self, x: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, GatedFeedForwardCache]:
        """Map x (..., D) to y (..., D); nothing is dropped here."""
        hidden, gate_cache = self.gate.forward(x)
        gate, activation_cache = self.activate(hidden)
        value, value_cache = self.value.forward(x)
        product, product_cache = gated_product(gate, value)
        y, output_cache = self.output.forward(product)
        return y, GatedFeedForwardCache(
            gate_cache, activation_cache, value_cache, product_cache, output_cache
        )

    def backward(
        self, dy: np.ndarray, cache: GatedFeedForwardCache
    ) -> tuple[np.ndarray, dict]:
        """Run the pass backwards (eq:gated-feed-forward-backward)."""
        dproduct, doutput = self.output.backward(dy, cache.output)
        dgate, dvalue = gated_product_backward(dproduct, cache.product)
        dhidden = self.activate_backward(dgate, cache.activation)
        gate_term, dgate_weight = self.gate.backward(dhidden, cache.gate)
        value_term, dvalue_weight = self.value.backward(dvalue, cache.value)
        grads = {"gate": dgate_weight, "value": dvalue_weight, "output": doutput}
        return gate_term + value_term, join(grads)
