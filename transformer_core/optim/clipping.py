"""Clipping: a gradient that is too long keeps its direction and loses its length."""

import math
from collections.abc import Callable

import numpy as np

from transformer_core.foundation.checks import check_names, check_positive, check_reals
from transformer_core.foundation.chunks import chunks
from transformer_core.foundation.names import summary


def clip_by_global_norm(
    grads: dict[str, np.ndarray], max_norm: float
) -> tuple[dict[str, np.ndarray], float]:
    r"""Shorten all gradients by one factor if their common norm is too large (eq:global-norm).

    .. math::
        g \leftarrow \frac{c}{\max(\|g\|, c)} \, g, \qquad
        \|g\|^2 = \sum_{\text{arrays}} \sum_i g_i^2

    ``Optimizer.step(grads, max_norm)`` does the same on the way to the parameters.

    Parameters
    ----------
    grads : dict of str to ndarray
        Not modified.
    max_norm : float
        c, in the units of the gradient.

    Returns
    -------
    clipped : dict of str to ndarray
    norm : float
        Of all gradients together, before clipping.

    Raises
    ------
    ValueError
        If ``max_norm`` is not positive and finite, a gradient is not of real numbers, or the
        norm is not finite.

    Source: Pascanu et al. 2013; text 004, section 7.3.
    """
    norm = global_norm(grads)
    factor = clipping_factor(norm, max_norm)
    return {name: factor * grad for name, grad in grads.items()}, norm


def global_norm(grads: dict[str, np.ndarray], map: Callable = map) -> float:
    """Return the norm of all gradients together (eq:global-norm).

    Parameters
    ----------
    grads : dict of str to ndarray
    map : callable
        What to call for each block of an array: the builtin, or :meth:`DataParallel.map`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a gradient is not of real numbers, or the norm is not finite, naming the gradients
        that are not; all, if only their squares overflow.
    """
    return checked_norm(own_norm(grads, map), grads, summary(grads))


def own_norm(grads: dict[str, np.ndarray], map: Callable = map) -> float:
    """Return the norm of what this rank has of the gradients, finite or not."""
    check_real_gradients(grads)
    _, parts = chunks(grads)
    return math.sqrt(sum(map(sum_of_squares, parts)))


def checked_norm(
    norm: float, grads: dict[str, np.ndarray], otherwise: str = "other ranks"
) -> float:
    """Return a norm; raise ``ValueError`` if it is not finite, naming the gradients at fault."""
    if not math.isfinite(norm):
        wrong = [n for n, grad in grads.items() if not np.isfinite(grad).all()]
        source = summary(wrong) if wrong else otherwise
        raise ValueError(f"grads: expected a finite norm, got {norm} from {source}")
    return norm


def check_real_gradients(grads: dict[str, np.ndarray]) -> None:
    """Raise ``ValueError`` unless ``grads`` is a dict of arrays of real numbers."""
    check_names("grads", grads)
    for name, grad in grads.items():
        check_reals(f"gradient of {name}", grad, ...)


def clipping_factor(norm: float, max_norm: float) -> float:
    """Return what makes a gradient of this norm no longer than ``max_norm``: at most 1."""
    check_positive("max_norm", max_norm)
    return max_norm / max(norm, max_norm)


def sum_of_squares(block):
    """Sum in float64 if need be: squares of float32 overflow above 1e19, whole numbers wrap."""
    kind = block.dtype.kind
    if kind in "fO" and (total := float(np.vdot(block, block))) < math.inf:
        return total
    with np.errstate(over="ignore"):  # an infinite norm tells it better than a warning
        return float(np.square(block, dtype=np.float64).sum())
