"""Low-rank adaptation: a linear layer that is frozen, and what a narrow product adds to it."""

from collections.abc import Iterable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    as_list,
    check_generator,
    check_kind,
    check_positive,
    check_positive_int,
)
from transformer_core.foundation.names import summary
from transformer_core.layers.frozen import (
    Frozen,
    FrozenLinear,
    FrozenLinearCache,
    frozen,
    replace_layers,
)
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.low_rank import LowRankCache, low_rank, low_rank_backward


class LoraLinearCache(NamedTuple):
    linear: FrozenLinearCache
    low_rank: LowRankCache


class LoraLinear(Layer):
    """y = x W + b + (alpha / r) x A B, of which A and B are trained (eq:lora).

    Parameters
    ----------
    linear : Linear
        Its W and b stay as they are, and are not parameters here.
    rank : int
        r.
    alpha : float
        The scale is alpha / r.
    rng : numpy.random.Generator

    A starts uniform between -1 / sqrt(D_in) and 1 / sqrt(D_in), as PEFT draws it. B starts at 0: at
    first the layer does what ``linear`` does.

    Source: Hu et al. 2022.
    """

    def __init__(
        self, linear: Linear, rank: int, alpha: float, rng: np.random.Generator
    ):
        check_kind("linear", linear, Linear)
        check_positive_int("rank", rank)
        check_positive("alpha", alpha)
        check_generator("rng", rng)
        self.linear = FrozenLinear(linear)
        width_in, width_out = linear.weight.shape
        bound = width_in**-0.5
        a = rng.uniform(-bound, bound, (width_in, rank))
        self.a = a.astype(linear.weight.dtype)
        self.b = np.zeros((rank, width_out), linear.weight.dtype)
        self.alpha = alpha

    @property
    def scale(self) -> float:
        """alpha / r."""
        return self.alpha / self.a.shape[1]

    @property
    def weight(self) -> np.ndarray:
        """Return W + (alpha / r) A B, of which a plain linear layer does the same."""
        return self.linear.weight + self.scale * (self.a @ self.b)

    def merged(self) -> Linear:
        """Return the plain linear layer that does the same (eq:lora-merged)."""
        linear = copy(self.linear.layer)
        linear.weight = self.weight
        return linear

    def forward(
        self, x: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, LoraLinearCache]:
        """Map x (..., D_in) to y (..., D_out); nothing is dropped here."""
        y, linear_cache = self.linear.forward(x)
        added, low_rank_cache = low_rank(x, self.a, self.b, self.alpha)
        return y + added, LoraLinearCache(linear_cache, low_rank_cache)

    def backward(
        self, dy: np.ndarray, cache: LoraLinearCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx, the sum of both paths, and the gradients of A and B (eq:lora-backward)."""
        dx, _ = self.linear.backward(dy, cache.linear)
        dadded, da, db = low_rank_backward(dy, cache.low_rank)
        return dx + dadded, {"a": da, "b": db}


def add_lora(
    model: Any,
    targets: Iterable[str],
    rank: int,
    alpha: float,
    rng: np.random.Generator,
) -> None:
    """Adapt linear layers of a model, and freeze all else in it.

    The layers are replaced where they stand; their arrays are not copied.

    Parameters
    ----------
    model : layer or model
    targets : iterable of str
        The last parts of dotted names: "query_key_value" is that layer of every block.
    rank, alpha, rng
        As for :class:`LoraLinear`.

    Raises
    ------
    ValueError
        If a target names no plain linear layer; nothing is replaced then.
    """
    endings = as_list("targets", targets)
    linear = linear_layers(model)
    unknown = [t for t in endings if not any(ends_with(name, t) for name in linear)]
    if unknown or not endings or isinstance(targets, str):
        raise ValueError(
            f"targets: expected some of the linear layers {summary(linear)}, got {targets!r}"
        )

    def replacement(name, part):
        if any(ends_with(name, target) for target in endings) and name in linear:
            return LoraLinear(part, rank, alpha, rng)
        if part.sublayers():
            return part
        return frozen(part)

    replace_layers(model, replacement)


def merge_lora(model: Any) -> None:
    """Put plain layers in place of those that are adapted or frozen: all is trained again.

    Raises
    ------
    ValueError
        If nothing is adapted: perhaps it is merged already.
    """
    if not lora_layers(model):
        raise ValueError("model: expected adapted layers to merge, got none")

    def replacement(name, part):
        if isinstance(part, LoraLinear):
            return part.merged()
        return part.layer if isinstance(part, Frozen) else part

    replace_layers(model, replacement)


def lora_layers(model: Any) -> dict[str, LoraLinear]:
    """Return the adapted layers of a model, by the dotted names that they have without it."""
    return layers_of(model, LoraLinear)


def linear_layers(model: Any) -> dict[str, Linear]:
    """Return the plain linear layers of a model, by their dotted names."""
    return layers_of(model, Linear)


def layers_of(model, kind):
    """Find the layers of a kind, however deep."""
    found = {}

    def look(name, part):
        if isinstance(part, kind):
            found[name] = part
        return part

    replace_layers(model, look)
    return found


def ends_with(name, target):
    """Tell whether the last parts of a dotted name are the target."""
    return f".{name}".endswith(f".{target}")
