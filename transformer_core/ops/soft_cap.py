"""Soft-capping: scores or logits that stay within a bound."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_function,
    check_kind,
    check_positive,
)


class SoftCapCache(NamedTuple):
    tanh: np.ndarray


def soft_cap(x: np.ndarray, cap: float) -> tuple[np.ndarray, SoftCapCache]:
    r"""Squeeze numbers into the interval from -c to c (eq:soft-cap).

    .. math:: y = c \tanh(x / c)

    Parameters
    ----------
    x : ndarray (...)
    cap : float
        c, in the units of ``x``.

    Returns
    -------
    y : ndarray (...)
    cache : SoftCapCache

    Source: Gemma Team 2024, section 2.
    """
    check_floats("x", x, ...)
    check_function("x", x, "tanh")
    check_positive("cap", cap)
    tanh = np.tanh(x / cap)
    return cap * tanh, SoftCapCache(tanh)


def soft_cap_backward(dy: np.ndarray, cache: SoftCapCache) -> np.ndarray:
    r"""Backward pass of :func:`soft_cap` (eq:soft-cap-backward).

    .. math:: \bar{x} = \bar{y} \odot \bigl(1 - \tanh^2(x / c)\bigr)

    Source: derived in the book.
    """
    (tanh,) = check_kind("cache", cache, SoftCapCache)
    check_floats("dy", dy, *tanh.shape)
    return dy * (1 - tanh * tanh)
