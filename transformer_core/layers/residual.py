"""The residual connection around a layer, with its normalisation."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_rate
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.layer_norm import LayerNormCache


class ResidualCache(NamedTuple):
    branch: NamedTuple
    norm: LayerNormCache
    dropout: DropoutCache


class Residual(Layer):
    """Post-LN: y = LN(x + branch(x)) (eq:post-ln). Pre-LN: y = x + branch(LN(x)) (eq:pre-ln).

    Parameters
    ----------
    branch : layer
        Maps (..., D) to (..., D).
    width : int
        D.
    norm : {"post", "pre"}
    dtype : NumPy dtype
    dropout : float
        Rate at which entries of the branch's output are dropped in training, before the sum.
    """

    def __init__(self, branch, width, norm, dtype=np.float32, dropout=0.0):
        if norm not in ("post", "pre"):
            raise ValueError(f"norm: expected 'post' or 'pre', got {norm!r}")
        check_rate("dropout", dropout)
        self.branch = branch
        self.norm = LayerNorm(width, dtype)
        self.pre = norm == "pre"
        self.dropout = dropout
        self.sublayers = {"branch": self.branch, "norm": self.norm}

    def forward(self, x, *context, rng=None):
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

    def step(self, x, *context):
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

    def backward(self, dy, cache):
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

        Source: seeds 001 and 002 (Post-LN), with both ways added; seed 003, equations 5 to 9
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
