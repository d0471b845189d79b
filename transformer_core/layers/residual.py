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
        Maps (..., D) to (..., D); its ``forward`` takes the keyword ``rng``.
    norm : layer
        Maps (..., D) to (..., D), such as ``LayerNorm``.
    placement : {"post", "pre"}
    dropout : float
        Rate at which entries of the branch's output are dropped in training, before the sum.
    """

    def __init__(self, branch: Any, norm: Layer, placement: str, dropout: float = 0.0):
        check_placement(placement)
        check_rate("dropout", dropout)
        self.branch, self.norm = branch, norm
        self.pre = placement == "pre"
        self.dropout = dropout

    def forward(
        self, x: np.ndarray, *context: object, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, ResidualCache]:
        """Map x (..., D) to y (..., D); ``context`` and ``rng`` go to the branch, too.

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        inner, norm_cache = self.norm.forward(x) if self.pre else (x, None)
        out, branch_cache = self.branch.forward(inner, *context, rng=rng)
        dropped, dropout_cache = dropout(out, self.dropout, rng)
        y = x + dropped
        if not self.pre:
            y, norm_cache = self.norm.forward(y)
        return y, ResidualCache(branch_cache, norm_cache, dropout_cache)

    def step(self, x: np.ndarray, *context: object) -> tuple:
        """Map new positions x (B, N, D) to y in evaluation, with the branch's ``step``.

        Return y and the state that the branch returns.
        """
        inner = self.norm.forward(x)[0] if self.pre else x
        out, state = self.branch.step(inner, *context)
        y = x + out
        return (y if self.pre else self.norm.forward(y)[0]), state

    def backward(self, dy: np.ndarray, cache: ResidualCache) -> tuple:
        """Add the gradients of the two paths of x, skip and branch.

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

        Source: text 001 and text 002 (Post-LN), with both paths added; text 003, equations 5 to 9
        (Pre-LN).
        """
        dskip = dy
        if not self.pre:
            dskip, dnorm = self.norm.backward(dy, cache.norm)
        dout = dropout_backward(dskip, cache.dropout)
        dthrough, *dcontext, dbranch = self.branch.backward(dout, cache.branch)
        if self.pre:
            dthrough, dnorm = self.norm.backward(dthrough, cache.norm)
        return dskip + dthrough, *dcontext, join({"branch": dbranch, "norm": dnorm})


def check_placement(placement):
    """Raise ``ValueError`` unless norms have one of the two places."""
    if placement not in ("post", "pre"):
        raise ValueError(f"placement: expected 'post' or 'pre', got {placement!r}")
