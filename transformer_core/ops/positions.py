"""Sinusoidal positions."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import check_dtype, check_positive_int


def sinusoidal_positions(
    length: int, width: int, dtype: DTypeLike = np.float64
) -> np.ndarray:
    r"""Tabulate sines and cosines of falling frequency (eq:positions).

    .. math:: P_{t,2i} = \sin(t \, \omega_i), \qquad P_{t,2i+1} = \cos(t \, \omega_i), \qquad
              \omega_i = 10000^{-2i/D}

    The table has no parameters. Adding it to the input is the identity in the backward pass:
    with :math:`z = x + P`, :math:`\bar{x} = \bar{z}`.

    Parameters
    ----------
    length : int
        T, the number of positions, counted from 0.
    width : int
        D, even.
    dtype : NumPy dtype

    Returns
    -------
    ndarray (T, D)

    Source: Vaswani et al. 2017; text 000, section 2; text 003, section 1.7.
    """
    check_positive_int("length", length)
    check_positive_int("width", width)
    check_dtype("dtype", dtype)
    if width % 2:
        raise ValueError(f"width: expected an even number, got {width}")
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.outer(np.arange(length), frequencies)
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        .reshape(length, width)
        .astype(dtype)
    )
