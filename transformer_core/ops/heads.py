"""Cutting the model width into heads, and putting it together again.

Each of the two is the other's backward pass: both only rearrange.
"""

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_shape


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """Cut the width into heads (eq:split-heads).

    Parameters
    ----------
    x : ndarray (B, T, H*d_k)
    heads : int
        H, a divisor of the width.

    Returns
    -------
    ndarray (B, H, T, d_k)
        A view of ``x``.

    Source: text 004, section 2.2.
    """
    check_shape("x", x, "B", "T", "D")
    check_heads(x.shape[-1], heads)
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def merge_heads(x: np.ndarray) -> np.ndarray:
    """Put the heads side by side, the inverse of :func:`split_heads` (eq:split-heads).

    Parameters
    ----------
    x : ndarray (B, H, T, d_k)

    Returns
    -------
    ndarray (B, T, H*d_k)

    Source: text 004, section 2.2, with the transpose that its formula lacks.
    """
    check_shape("x", x, "B", "H", "T", "d_k")
    batch, _, length, _ = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, -1)


def check_heads(width: int, heads: int) -> None:
    """Raise ``ValueError`` unless ``heads`` divides ``width``."""
    check_positive_int("heads", heads)
    if width % heads:
        raise ValueError(f"heads: expected a divisor of the width {width}, got {heads}")
