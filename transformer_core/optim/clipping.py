"""Clipping: a gradient that is too long keeps its direction and loses its length."""

import math

import numpy as np

from transformer_core.checks import check_array
from transformer_core.names import summary


def clip_by_global_norm(grads, max_norm):
    r"""Shorten all gradients by one factor if their common norm is too large (eq:global-norm).

    .. math::
        g \leftarrow \frac{c}{\max(\|g\|, c)} \, g, \qquad
        \|g\|^2 = \sum_{\text{arrays}} \sum_i g_i^2

    Parameters
    ----------
    grads : dict of str to ndarray
        Not modified.
    max_norm : float
        c, in the units of the gradient.

    Returns
    -------
    clipped : dict of str to ndarray
        New arrays.
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
    squares = {}
    for name, grad in grads.items():
        check_array(f"gradient of {name}", grad)
        # In float64, because squares of float32 numbers overflow above 1e19.
        squares[name] = float(np.square(grad, dtype=np.float64).sum())
    norm = math.sqrt(sum(squares.values()))
    if not math.isfinite(norm):
        wrong = [name for name in squares if not math.isfinite(squares[name])]
        raise ValueError(
            f"grads: expected a finite norm, got {norm} from {summary(wrong)}"
        )
    scale = max_norm / max(norm, max_norm)
    return {name: grad * scale for name, grad in grads.items()}, norm
