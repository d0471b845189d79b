"""The residual connection around a layer, with its normalisation."""

from typing import NamedTuple

import numpy as np

from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.names import join
from transformer_core.ops.layer_norm import LayerNormCache


class ResidualCache(NamedTuple):
    branch: NamedTuple
    norm: LayerNormCache


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
    """

    def __init__(self, branch, width, norm, dtype=np.float32):
        if norm not in ("post", "pre"):
            raise ValueError(f"norm: expected 'post' or 'pre', got {norm!r}")
        self.branch = branch
        self.norm = LayerNorm(width, dtype)
        self.pre = norm == "pre"
        self.sublayers = {"branch": self.branch, "norm": self.norm}

    def forward(self, x, *context):
        """Map x (..., D) to y (..., D); ``context`` goes to the branch as it is."""
        if self.pre:
            normalised, norm_cache = self.norm.forward(x)
            out, branch_cache = self.branch.forward(normalised, *context)
            return x + out, ResidualCache(branch_cache, norm_cache)
        out, branch_cache = self.branch.forward(x, *context)
        y, norm_cache = self.norm.forward(x + out)
        return y, ResidualCache(branch_cache, norm_cache)

    def backward(self, dy, cache):
        if self.pre:
            dnormalised, dbranch = self.branch.backward(dy, cache.branch)
            dthrough, dnorm = self.norm.backward(dnormalised, cache.norm)
            dskip = dy
        else:
            dskip, dnorm = self.norm.backward(dy, cache.norm)
            dthrough, dbranch = self.branch.backward(dskip, cache.branch)
        return dskip + dthrough, join({"branch": dbranch, "norm": dnorm})
