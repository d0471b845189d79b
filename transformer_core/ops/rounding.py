"""Rounding to formats of few bits, simulated in wider numbers; and matrices in 8 bits."""

import math
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_choice,
    check_generator,
    check_shape,
)

LARGEST_WHOLE = 127  # of 8 bits: from -127 to 127, the same on both sides


class Format(NamedTuple):
    """The numbers that a format has."""

    precision: int  # p, significant bits, with the leading one that is not stored
    least_exponent: int  # of the normal numbers; below, the spacing stays the same
    largest: float
    beyond: float  # what stands for numbers that are larger: infinity, or NaN

    @property
    def unit_roundoff(self) -> float:
        """u = 2^-p, the largest relative error of a normal number (eq:unit-roundoff)."""
        return 2.0**-self.precision


FORMATS = {
    "float16": Format(11, -14, 65504.0, math.inf),
    "bfloat16": Format(8, -126, (2 - 2.0**-7) * 2.0**127, math.inf),
    "float8_e5m2": Format(3, -14, 57344.0, math.inf),
    "float8_e4m3fn": Format(4, -6, 448.0, math.nan),
}


def round_to(
    x: np.ndarray, format: str, rng: np.random.Generator | None = None
) -> np.ndarray:
    r"""Round to the numbers of a format (eq:round-to), or to one of the two neighbours at random.

    .. math::
        y = s \operatorname{rint}(x / s), \qquad
        s = 2^{\max(e, e_{\min}) - p + 1}, \qquad 2^e \le |x| < 2^{e + 1}

    rint takes the nearest whole number, and of two the even one. With a generator,
    :math:`\lfloor x / s + U \rfloor` stands in its place, with U uniform on [0, 1): the mean over
    U is x (eq:stochastic-rounding).

    Parameters
    ----------
    x : ndarray (...)
        Of float32 or float64, infinity and NaN included.
    format : str
        A name of ``FORMATS``.
    rng : numpy.random.Generator, optional
        Draws U for each entry. Default: to nearest.

    Returns
    -------
    y : ndarray (...)
        Numbers of the format, in the dtype of ``x``. What rounds beyond the largest is infinite,
        or NaN in float8_e4m3fn, which has no infinity. A zero keeps its sign.

    Source: IEEE 754-2019, section 4.3.1; Micikevicius et al. 2022 (float8).
    """
    check_shape("x", x, ...)
    if x.dtype not in (np.float32, np.float64):
        raise ValueError(f"x: expected float32 or float64, got {x.dtype}")
    check_choice("format", format, FORMATS)
    precision, least, largest, beyond = FORMATS[format]
    with np.errstate(over="ignore", invalid="ignore"):
        _, exponent = np.frexp(x)  # of numbers in [1/2, 1): e + 1
        spacing = np.ldexp(x.dtype.type(1), np.maximum(exponent, least + 1) - precision)
        steps = x / spacing
        if rng is None:
            steps = np.rint(steps, out=steps)
        else:
            check_generator("rng", rng)
            steps = np.floor(steps + rng.random(x.shape)).astype(x.dtype)
        y = np.copysign(steps * spacing, x)
        return np.where(np.abs(y) > largest, np.copysign(beyond, x), y).astype(x.dtype)


def round_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Round each row to whole numbers of 8 bits times one number (eq:round-rows).

    .. math:: x_{ij} \approx s_i\, q_{ij}, \qquad s_i = \max_j |x_{ij}| / 127

    No entry moves by more than half of its row's s, or 0.501 of it where s is rounded, too.

    Parameters
    ----------
    matrix : ndarray (N, M)

    Returns
    -------
    whole : ndarray of int8 (N, M)
        q.
    scales : ndarray of float32 (N, 1)
        s.

    Raises
    ------
    ValueError
        Also if a number is not finite.

    Source: derived in the book.
    """
    check_shape("matrix", matrix, "N", "M")
    if matrix.dtype.kind not in "f" or not np.isfinite(matrix).all():
        raise ValueError("matrix: expected finite numbers, got others")
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scales = (largest / LARGEST_WHOLE).astype(np.float32)
    steps = np.where(scales > 0, scales, 1)
    whole = np.rint(matrix / steps).clip(-LARGEST_WHOLE, LARGEST_WHOLE)
    return whole.astype(np.int8), scales
