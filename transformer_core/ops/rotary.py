"""Rotary positions: queries and keys are turned by angles that grow with the position."""

from collections.abc import Mapping
from math import pi
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    broadcasts,
    check_choice,
    check_floats,
    check_function,
    check_kind,
    check_positive,
    check_positive_int,
    check_reals,
)

SCALINGS = {  # what each kind is said by, in the files of models
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
}


class RotaryCache(NamedTuple):
    cos: np.ndarray
    sin: np.ndarray
    halves: bool
    shape: tuple[int, ...]


def rotary(
    x: np.ndarray, positions: np.ndarray, frequencies: np.ndarray, halves: bool = False
) -> tuple[np.ndarray, RotaryCache]:
    r"""Turn every pair of entries by an angle that is its frequency times the position (eq:rotary).

    .. math::
        \begin{aligned}
        y_{ta} &= x_{ta} \cos t \omega_i - x_{tb} \sin t \omega_i \\
        y_{tb} &= x_{ta} \sin t \omega_i + x_{tb} \cos t \omega_i
        \end{aligned}
        \qquad (a, b) = \begin{cases} (2i,\; 2i + 1) & \text{pairs} \\
                                      (i,\; i + d_k / 2) & \text{halves} \end{cases}

    Angles are computed in float64, whatever the dtype of ``x``.

    Parameters
    ----------
    x : ndarray (..., T, d_k)
        Queries or keys, of an even width.
    positions : ndarray of numbers, broadcastable to (..., T)
        t: whole numbers, or fractions of them where positions are interpolated.
    frequencies : ndarray (d_k / 2,)
        omega, in radians per position, as ``rotary_frequencies`` gives them.
    halves : bool
        Where the two entries of a pair stand: side by side, or half a width apart.

    Returns
    -------
    y : ndarray (..., T, d_k)
    cache : RotaryCache

    Source: Su et al. 2024, equation 34; halves as in GPT-NeoX.
    """
    check_floats("x", x, ..., "T", "d_k")
    check_even("x: expected an even width d_k", x.shape[-1])
    check_reals("frequencies", frequencies, x.shape[-1] // 2)
    check_function("frequencies", frequencies, "cos")
    check_kind("halves", halves, bool)
    check_positions(positions, x.shape[:-1])
    angles = positions[..., np.newaxis] * frequencies
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    return turn(x, cos, sin, halves), RotaryCache(cos, sin, halves, x.shape)


def rotary_backward(dy: np.ndarray, cache: RotaryCache) -> np.ndarray:
    r"""Backward pass of :func:`rotary`: turn back by the same angles (eq:rotary-backward).

    .. math::
        \begin{aligned}
        \bar{x}_{ta} &= \bar{y}_{ta} \cos t \omega_i + \bar{y}_{tb} \sin t \omega_i \\
        \bar{x}_{tb} &= -\bar{y}_{ta} \sin t \omega_i + \bar{y}_{tb} \cos t \omega_i
        \end{aligned}

    Source: derived in the book.
    """
    cos, sin, halves, shape = check_kind("cache", cache, RotaryCache)
    check_floats("dy", dy, *shape)
    return turn(dy, cos, -sin, halves)


def rotary_frequencies(
    width: int, base: float = 10000.0, scaling: Mapping | None = None
) -> np.ndarray:
    r"""Return the frequencies of the pairs, from fast to slow (eq:rotary-frequencies).

    .. math:: \omega_i = \beta^{-2i/d_k}, \qquad i = 0, \dots, d_k / 2 - 1

    For contexts longer than those of training, model files name a ``scaling``. "linear" divides
    every frequency by the factor (eq:rotary-interpolation); "llama3" only those whose wavelength
    is long, with a share g that is 0 up to a low number of turns in the original context and 1 from
    a high number on (eq:rotary-llama3).

    .. math:: \omega'_i = \frac{\omega_i}{\lambda}, \qquad
              \omega'_i = \Bigl( \frac{1 - g_i}{\lambda} + g_i \Bigr) \omega_i

    Parameters
    ----------
    width : int
        d_k, even.
    base : float
        beta, called theta in model files.
    scaling : mapping, optional
        "rope_type" and the numbers that it needs, by their names in the files. Default: none.

    Returns
    -------
    ndarray (d_k / 2,) of float64

    Source: Su et al. 2024, section 3.2.2; Chen et al. 2023, equation 4; files of Llama 3.1.
    """
    check_positive_int("width", width)
    check_even("width: expected an even number", width)
    check_positive("base", base)
    frequencies = base ** (-np.arange(0, width, 2) / width)
    if scaling is None:
        return frequencies
    factor, *bounds = scaling_numbers(scaling)
    if not bounds:
        return frequencies / factor
    low, high, length = bounds
    turns = length * frequencies / (2 * pi)
    kept = ((turns - low) / (high - low)).clip(0, 1)
    return ((1 - kept) / factor + kept) * frequencies


def pairs_to_halves(width: int) -> np.ndarray:
    r"""Return the order in which pairs become halves (eq:rotary-permutation).

    ``x[..., order]`` of a row of pairs is the row of halves; ``np.argsort(order)`` leads back.

    .. math:: \pi = (0, 2, \dots, d_k - 2, \; 1, 3, \dots, d_k - 1)

    Parameters
    ----------
    width : int
        d_k, even.

    Returns
    -------
    ndarray of int (d_k,)

    Source: derived in the book.
    """
    check_positive_int("width", width)
    check_even("width: expected an even number", width)
    return np.arange(width).reshape(-1, 2).T.ravel()


def turn(x, cos, sin, halves):
    """Turn the pairs of x by the angles of these cosines and sines."""
    half = x.shape[-1] // 2
    one, other = (np.s_[:half], np.s_[half:]) if halves else (np.s_[::2], np.s_[1::2])
    y = np.empty_like(x, np.result_type(x, cos))
    y[..., one] = x[..., one] * cos - x[..., other] * sin
    y[..., other] = x[..., one] * sin + x[..., other] * cos
    return y


def check_positions(positions, shape):
    """Raise ``ValueError`` unless positions are numbers that broadcast to a shape."""
    check_reals("positions", positions, ...)
    check_function("positions", positions, "cos")
    if not broadcasts(positions.shape, shape):
        raise ValueError(
            f"positions: expected a shape that broadcasts to {shape}, got {positions.shape}"
        )


def check_even(expected, width):
    """Raise ``ValueError`` unless entries come in pairs."""
    if width % 2:
        raise ValueError(f"{expected}, got {width}")


def scaling_numbers(scaling):
    """Return the numbers of a scaling, or raise ``ValueError`` unless they are what it needs."""
    check_kind("scaling", scaling, Mapping)
    kind = scaling.get("rope_type")
    check_choice("scaling: rope_type", kind, SCALINGS)
    for name in SCALINGS[kind]:
        check_positive(f"scaling: {name}", scaling.get(name))
    numbers = [scaling[name] for name in SCALINGS[kind]]
    if numbers[1:] and numbers[1] >= numbers[2]:
        raise ValueError(
            f"scaling: expected low_freq_factor below high_freq_factor, got {numbers[1:3]}"
        )
    return numbers
