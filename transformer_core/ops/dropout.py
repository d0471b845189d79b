"""Dropout."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_generator,
    check_kind,
    check_rate,
)


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

    Source: Srivastava et al. 2014, with the scale moved from evaluation to training.
    """
    check_floats("x", x, ...)
    check_rate("rate", rate)
    if rng is None or rate == 0:
        return x, DropoutCache(None, rate)
    check_generator("rng", rng)
    mask = rng.random(x.shape, np.float32) >= rate
    y = x * mask
    y /= 1 - rate
    return y, DropoutCache(mask, rate)


def dropout_backward(dy: np.ndarray, cache: DropoutCache) -> np.ndarray:
    r"""Backward pass of :func:`dropout` (eq:dropout-backward).

    .. math:: \bar{x} = \frac{m \odot \bar{y}}{1 - p}

    with the mask m of the forward pass. If nothing was dropped, it returns ``dy`` itself, not a
    copy, whatever its shape.

    Source: derived in the book.
    """
    mask, rate = check_kind("cache", cache, DropoutCache)
    if mask is None:
        return dy
    check_floats("dy", dy, *mask.shape)
    dx = dy * mask
    dx /= 1 - rate
    return dx
