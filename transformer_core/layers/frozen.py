"""Layers that are not trained: they hand gradients on, and keep none."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind
from transformer_core.layers.embedding import Embedding
from transformer_core.layers.layer import Wrapper, parts
from transformer_core.layers.linear import Linear
from transformer_core.ops.linear import linear


class Frozen(Wrapper):
    """A layer of which nothing is trained: it has no parameters, and returns no gradients of any.

    What is in it can be read as before: ``frozen.weight``.

    Parameters
    ----------
    layer : layer
    """

    def sublayers(self) -> dict:
        return {}

    def parameters(self) -> dict[str, np.ndarray]:
        return {}

    def forward(self, *inputs: Any, **options: Any) -> tuple:  # type: ignore[override]
        """Run the layer's."""
        return self.layer.forward(*inputs, **options)

    def backward(self, dy: np.ndarray, cache: Any) -> tuple:  # type: ignore[override]
        """Return what the layer's does, without the gradients of its parameters."""
        *dinputs, _ = self.layer.backward(dy, cache)
        return *dinputs, {}


class FrozenLinearCache(NamedTuple):
    shape: tuple[int, ...]  # of x
    weight: np.ndarray


class FrozenLinear(Frozen):
    """y = x W + b whose x need not be kept: the backward pass is one product (eq:frozen-linear).

    Parameters
    ----------
    layer : Linear
    """

    def forward(  # type: ignore[override]
        self, x: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, FrozenLinearCache]:
        """Map x (..., D_in) to y (..., D_out); nothing is dropped here."""
        y, _ = linear(x, self.layer.weight, self.layer.bias)
        return y, FrozenLinearCache(x.shape, self.layer.weight)

    def backward(  # type: ignore[override]
        self, dy: np.ndarray, cache: FrozenLinearCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx (..., D_in) and no gradients: it is linear with the transpose of W."""
        check_kind("cache", cache, FrozenLinearCache)
        check_floats("dy", dy, *cache.shape[:-1], cache.weight.shape[1])
        dx, _ = linear(dy, cache.weight.T)
        return dx, {}


class FrozenEmbedding(Frozen):
    """A table that is looked into, and not trained: nothing is to be added up.

    Parameters
    ----------
    layer : Embedding
    """

    def backward(self, drows: np.ndarray, cache: Any) -> tuple[None, dict]:  # type: ignore[override]
        """Return None and no gradients."""
        return None, {}


def frozen(layer: Any) -> Frozen:
    """Return a layer as one that is not trained, and computes no more than that needs."""
    if isinstance(layer, Frozen):
        return layer
    if isinstance(layer, Linear):
        return FrozenLinear(layer)
    return FrozenEmbedding(layer) if isinstance(layer, Embedding) else Frozen(layer)


def replace_layers(
    layer: Any, replacement: Callable[[str, Any], Any], path: str = ""
) -> None:
    """Put other layers in place of those within a layer.

    ``replacement(name, part)``, with the dotted name of the part's parameters, returns what is to
    stand there. If it is the part itself, those within that are asked for in turn.
    """
    for attribute, value in list(vars(layer).items()):
        for at, (name, part) in enumerate(parts(attribute, value)):
            new = replacement(path + name, part)
            if new is part:
                replace_layers(part, replacement, f"{path}{name}.")
            elif isinstance(value, list):
                value[at] = new
            else:
                setattr(layer, attribute, new)
