"""Two witnesses for a gradient, and the measure by which they agree."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_array
from transformer_core.foundation.names import check_fit


def central_difference(
    f: Callable,
    x: np.ndarray,
    h: float | None = None,
    at: Sequence[int] | None = None,
) -> np.ndarray:
    r"""Measure the gradient of a scalar function by differences (eq:central-difference).

    .. math:: \frac{\partial f}{\partial x_i} \approx \frac{f(x + h e_i) - f(x - h e_i)}{2 h}

    Parameters
    ----------
    f : callable
        Maps ``x`` to a real scalar. It may ignore its argument and read ``x`` where it lives, in
        a layer's parameters say: ``x`` itself is stepped, and put back afterwards.
    x : ndarray of floats
    h : float, optional
        The step, in the units of ``x``. Default: 1e-5, if ``x`` and ``f(x)`` are of 64 bits.
        In float32 no step is good: at the best, four digits of the gradient are right.
    at : sequence of int, optional
        Flat indices of the entries to measure. Default: all of them.

    Returns
    -------
    ndarray
        Of the shape of ``x``; one value an index if ``at`` is given.

    Raises
    ------
    ValueError
        If ``x`` is not a non-empty array of real floats, ``h`` is not positive, or so small that
        an entry stays as it is, there is no ``h`` and a number has less than 64 bits, or ``f``
        does not return a real scalar.
    """
    check_array("x", x)
    if not np.issubdtype(x.dtype, np.floating):
        raise ValueError(f"x: expected real floating-point numbers, got {x.dtype}")
    rough = h is not None
    check_digits("x", x, rough)
    h = h if rough else 1e-5
    check_step(h)

    def slope(i):
        original = x.flat[i]
        try:
            x.flat[i] = original + h
            right, above = x.flat[i], real_scalar(f(x), rough)
            x.flat[i] = original - h
            left, below = x.flat[i], real_scalar(f(x), rough)
        finally:
            x.flat[i] = original
        if left == right:
            raise ValueError(f"h: expected a step that changes {original}, got {h}")
        return (above - below) / (right - left)  # 2 h, as it was rounded

    return entry_by_entry(slope, x, at)


def complex_step(
    f: Callable, x: np.ndarray, h: float = 1e-20, at: Sequence[int] | None = None
) -> np.ndarray:
    r"""Measure the gradient of an analytic function with an imaginary step (eq:complex-step).

    .. math:: \frac{\partial f}{\partial x_i} \approx \frac{\operatorname{Im} f(x + i h e_i)}{h}

    Nothing is subtracted, so nothing cancels: the result is good to rounding.

    Parameters
    ----------
    f : callable
        Maps a complex array to a complex scalar, as in :func:`central_difference`.
    x : ndarray
        If complex, it is stepped itself and put back; if real, ``f`` gets a complex copy.
    h, at
        As in :func:`central_difference`.

    Returns
    -------
    ndarray
        Real; of the shape of ``x``; one value an index if ``at`` is given.

    Raises
    ------
    ValueError
        If ``x`` is empty or not an array, ``h`` is not positive, or ``f`` returns a real number,
        which means that it lost the imaginary part on the way.

    Source: Martins, Sturdza & Alonso 2003.
    """
    check_array("x", x)
    check_step(h)
    z = x if np.iscomplexobj(x) else x.astype(np.complex128)

    def slope(i):
        original = z.flat[i]
        try:
            z.flat[i] = original + 1j * h
            value = f(z)
        finally:
            z.flat[i] = original
        if np.ndim(value) or not np.iscomplexobj(value):
            raise ValueError(f"f: expected a complex scalar, got {describe(value)}")
        return value.imag / h

    return entry_by_entry(slope, x, at)


class GradientError(NamedTuple):
    """How far two gradients of one array lie apart."""

    norm: float
    worst: float


def gradient_error(
    gradient: np.ndarray, reference: np.ndarray, scale: float = 0.0
) -> GradientError:
    r"""Compare two gradients of the same array (eq:gradient-error).

    .. math:: \text{norm} = \frac{\|a - n\|_2}{\max(\|a\|_2, \|n\|_2, s)}, \qquad
              \text{worst} = \max_i \frac{|a_i - n_i|}{\max(|a_i|, |n_i|, s)}

    with 0/0 = 0. Both are NaN if a gradient is not finite.

    Parameters
    ----------
    gradient, reference : ndarray
        Of one shape.
    scale : float
        s, a size below which a gradient counts as zero, in the units of the gradient.

    Returns
    -------
    GradientError

    Raises
    ------
    ValueError
        If the shapes differ or an array is empty.
    """
    check_array("gradient", gradient)
    check_array("reference", reference)
    if gradient.shape != reference.shape:
        raise ValueError(
            f"reference: expected shape {gradient.shape}, got {reference.shape}"
        )
    pair = in_double(np.stack([gradient, reference]))
    largest = max(np.abs(pair).max(), scale)
    if not np.isfinite(largest):
        return GradientError(np.nan, np.nan)
    pair, scale = ratio(pair, largest), ratio(scale, largest)  # no square overflows
    difference = np.abs(pair[0] - pair[1])
    norm = np.linalg.norm
    return GradientError(
        float(ratio(norm(difference), max(norm(pair[0]), norm(pair[1]), scale))),
        float(ratio(difference, np.abs(pair).max(axis=0, initial=scale)).max()),
    )


def check_gradients(
    loss: Callable,
    arrays: dict[str, np.ndarray],
    grads: dict[str, np.ndarray],
    witness: Callable = central_difference,
    probes: int | None = None,
    rng: np.random.Generator | None = None,
) -> dict[str, GradientError]:
    """Compare every gradient of a layer or a model with a witness.

    Parameters
    ----------
    loss : callable
        Takes nothing, reads ``arrays`` where they live, and returns the scalar loss.
    arrays, grads : dict of str to ndarray
        The arrays to step, and their gradients under the same names.
    witness : callable
        :func:`central_difference`, or :func:`complex_step` if the arrays are complex.
    probes : int, optional
        How many entries of each array to measure, drawn by ``rng``. Default: all.
    rng : numpy.random.Generator, optional

    Returns
    -------
    dict of str to GradientError
        The scale below which a gradient counts as zero is 1/1000 of the largest gradient's norm,
        so that a gradient that is zero in theory is not compared with its own rounding.

    Raises
    ------
    ValueError
        If the names or shapes differ, a gradient is not finite, there are probes and no rng, or
        as the witness does.
    """
    check_fit("grads", grads, arrays)
    if probes is not None and rng is None:
        raise ValueError("rng: expected a generator to draw the probes, got None")
    for name, grad in grads.items():
        if not np.isfinite(grad).all():
            raise ValueError(f"grads: {name}: expected finite numbers, got {grad}")
    scale = 1e-3 * max(float(np.linalg.norm(in_double(g))) for g in grads.values())
    errors = {}
    for name, array in arrays.items():
        at = np.arange(array.size)
        if probes is not None and probes < array.size:
            at = rng.choice(array.size, probes, replace=False)
        measured = witness(lambda _: loss(), array, at=at)
        errors[name] = gradient_error(grads[name].real.flat[at], measured, scale)
    return errors


def entry_by_entry(slope, x, at):
    if at is None:
        return np.array([slope(i) for i in range(x.size)]).reshape(x.shape)
    return np.array([slope(i) for i in at])


def in_double(array):
    return array.astype(np.result_type(array, np.float64))


def ratio(a, b):
    """Divide, with 0/0 = 0."""
    return np.divide(a, np.where(b == 0, 1, b))


def real_scalar(value, rough):
    if np.ndim(value) or np.iscomplexobj(value):
        raise ValueError(f"f: expected a real scalar, got {describe(value)}")
    check_digits("f", value, rough)
    return value


def check_digits(name, value, rough):
    dtype = np.asarray(value).dtype
    if not rough and dtype in (np.float16, np.float32):
        raise ValueError(
            f"{name}: expected float64, got {dtype}, which needs a step h of its own"
        )


def describe(value):
    return f"{np.asarray(value).dtype} of shape {np.shape(value)}"


def check_step(h):
    if not h > 0:
        raise ValueError(f"h: expected a positive step, got {h}")
