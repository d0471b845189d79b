"""The residual connection around a layer, with its normalisation."""

from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_rate
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward


class ResidualCache(NamedTuple):
    branch: tuple
    norm: tuple
    dropout: DropoutCache


class Residual(Layer):
    """Post-LN: y = LN(x + branch(x)) (eq:post-ln). Pre-LN: y = x + branch(LN(x)) (eq:pre-ln).

    Parameters
    ----------
    branch : layer
        Maps (..., D) to (..., D).
    norm : layer
        Maps (..., D) to (..., D), such as ``LayerNorm``.
    placement : {"post", "pre"}
    dropout : float
        Rate at which entries of the branch's output are dropped in training, before the sum.
    """

    def __init__(self, branch: Any, norm: Layer, placement: str, dropout: float = 0.0):
        if placement not in ("post", "pre"):
            raise ValueError(f"placement: expected 'post' or 'pre', got {placement!r}")
        check_rate("dropout", dropout)
        self.branch, self.norm = branch, norm
        self.pre = placement == "pre"
        self.dropout = dropout

    def forward(
        self, x: np.ndarray, *context: object, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, ResidualCache]:
        """Map x (..., D) to y (..., D); ``context`` goes to the branch as it is.

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        if self.pre:
            normalised, norm_cache = self.norm.forward(x)
            out, branch_cache = self.branch.forward(normalised, *context)
            dropped, dropout_cache = dropout(out, self.dropout, rng)
            return x + dropped, ResidualCache(branch_cache, norm_cache, dropout_cache)
        out, branch_cache = self.branch.forward(x, *context)
        dropped, dropout_cache = dropout(out, self.dropout, rng)
        y, norm_cache = self.norm.forward(x + dropped)
        return y, ResidualCache(branch_cache, norm_cache, dropout_cache)

    def step(self, x: np.ndarray, *context: object) -> tuple:
        """Map one position x (B, 1, D) to y in evaluation, with the branch's ``step``.

        Return y and the state that the branch returns.
        """
        if self.pre:
            normalised, _ = self.norm.forward(x)
            out, state = self.branch.step(normalised, *context)
            return x + out, state
        out, state = self.branch.step(x, *context)
        y, _ = self.norm.forward(x + out)
        return y, state

    def backward(self, dy: np.ndarray, cache: ResidualCache) -> tuple:
        """Add the gradients of the two ways that x goes, skip and branch.

        Post-LN: eq:post-ln-backward. Pre-LN: eq:pre-ln-backward.

        Parameters
        ----------
        dy : ndarray (..., D)
            Cotangent of ``y``.
        cache : ResidualCache

        Returns
        -------
        dx : ndarray (..., D)
        *dcontext : ndarray
            The gradient of each context that has one.
        grads : dict of str to ndarray

        Source: text 001 and text 002 (Post-LN), with both ways added; text 003, equations 5 to 9
        (Pre-LN).
        """
        if self.pre:
            dout = dropout_backward(dy, cache.dropout)
            dnormalised, *dcontext, dbranch = self.branch.backward(dout, cache.branch)
            dthrough, dnorm = self.norm.backward(dnormalised, cache.norm)
            dskip = dy
        else:
            dskip, dnorm = self.norm.backward(dy, cache.norm)
            dout = dropout_backward(dskip, cache.dropout)
            dthrough, *dcontext, dbranch = self.branch.backward(dout, cache.branch)
        return dskip + dthrough, *dcontext, join({"branch": dbranch, "norm": dnorm})
