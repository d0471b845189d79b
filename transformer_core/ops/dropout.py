"""Dropout."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_rate


class DropoutCache(NamedTuple):
    mask: np.ndarray | None  # None: nothing was dropped
    rate: float


def dropout(
    x: np.ndarray, rate: float, rng: np.random.Generator | None
) -> tuple[np.ndarray, DropoutCache]:
    r"""Set each entry to 0 with probability p, and enlarge the others (eq:dropout).

    .. math:: y = \frac{m \odot x}{1 - p}, \qquad m_i = 1 \text{ with probability } 1 - p,
              \text{ else } 0

    so that the mean of y over all masks m is x.

    Parameters
    ----------
    x : ndarray (...)
    rate : float
        p, in [0, 1).
    rng : numpy.random.Generator or None
        Draws the mask in training. None: evaluation, nothing is dropped.

    Returns
    -------
    y : ndarray (...)
        ``x`` itself, not a copy, if ``rng`` is None or ``rate`` is 0.
    cache : DropoutCache

    Raises
    ------
    ValueError
        If ``x`` is empty or not of floating-point numbers, or ``rate`` is not in [0, 1).

    Source: Srivastava et al. 2014, with the scale moved from evaluation to training.
    """
    check_floats("x", x, ...)
    check_rate("rate", rate)
    if rng is None or rate == 0:
        return x, DropoutCache(None, rate)
    mask = rng.random(x.shape, np.float32) >= rate
    y = x * mask
    y /= 1 - rate
    return y, DropoutCache(mask, rate)


def dropout_backward(dy: np.ndarray, cache: DropoutCache) -> np.ndarray:
    r"""Backward pass of :func:`dropout` (eq:dropout-backward).

    .. math:: \bar{x} = \frac{m \odot \bar{y}}{1 - p}

    with the mask m of the forward pass.

    Parameters
    ----------
    dy : ndarray (...)
        Cotangent of ``y``.
    cache : DropoutCache

    Returns
    -------
    dx : ndarray (...)
        ``dy`` itself, not a copy, if nothing was dropped.

    Raises
    ------
    ValueError
        If ``dy`` has not the shape of ``y``; not checked if nothing was dropped.

    Source: derived in the book.
    """
    mask, rate = cache
    if mask is None:
        return dy
    check_floats("dy", dy, *mask.shape)
    dx = dy * mask
    dx /= 1 - rate
    return dx
