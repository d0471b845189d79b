"""Clipping: a gradient that is too long keeps its direction and loses its length."""

import math

import numpy as np

from transformer_core.blocks import blocks
from transformer_core.checks import check_array
from transformer_core.names import summary


def clip_by_global_norm(grads, max_norm, out=None, map=map):
    r"""Shorten all gradients by one factor if their common norm is too large (eq:global-norm).

    .. math::
        g \leftarrow \frac{c}{\max(\|g\|, c)} \, g, \qquad
        \|g\|^2 = \sum_{\text{arrays}} \sum_i g_i^2

    Parameters
    ----------
    grads : dict of str to ndarray
        Not modified, unless they are ``out``.
    max_norm : float
        c, in the units of the gradient.
    out : dict of str to ndarray, optional
        Where to write the clipped gradients: ``grads``, to clip in place. Default: new arrays.
    map : callable
        What to call for each block of an array: the builtin, or :meth:`DataParallel.map`.

    Returns
    -------
    clipped : dict of str to ndarray
    norm : float
        Of all gradients together, before clipping.

    Raises
    ------
    ValueError
        If ``max_norm`` is not positive and finite, or the norm is not finite.

    Source: Pascanu et al. 2013; seed 004, section 7.3.
    """
    if not 0 < max_norm < math.inf:
        raise ValueError(f"max_norm: expected a positive number, got {max_norm}")
    for name, grad in grads.items():
        check_array(f"gradient of {name}", grad)
    _, parts = blocks(grads)
    norm = math.sqrt(sum(map(sum_of_squares, parts)))
    if not math.isfinite(norm):
        wrong = [n for n, grad in grads.items() if not np.isfinite(grad).all()]
        raise ValueError(
            f"grads: expected a finite norm, got {norm} from {summary(wrong)}"
        )
    scale = max_norm / max(norm, max_norm)
    if out is None:
        out = {name: np.empty_like(grad) for name, grad in grads.items()}

    def shorten(grad, clipped):
        np.multiply(grad, scale, out=clipped)

    _, parts, clipped_parts = blocks(grads, out)
    list(map(shorten, parts, clipped_parts))
    return out, norm


def sum_of_squares(block):
    """Sum in float64 if need be: squares of float32 numbers overflow above 1e19."""
    total = float(np.vdot(block, block))
    return (
        total if total < math.inf else float(np.square(block, dtype=np.float64).sum())
    )
