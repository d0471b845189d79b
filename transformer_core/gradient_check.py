"""Two witnesses for a gradient, and the measure by which they agree."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_array
from transformer_core.foundation.names import check_fit


def central_difference(f, x, h=1e-5, at=None):
    r"""Measure the gradient of a scalar function by differences (eq:central-difference).

    .. math:: \frac{\partial f}{\partial x_i} \approx \frac{f(x + h e_i) - f(x - h e_i)}{2 h}

    Parameters
    ----------
    f : callable
        Maps ``x`` to a real scalar. It may ignore its argument and read ``x`` where it lives, in
        a layer's parameters say: ``x`` itself is stepped, and put back afterwards.
    x : ndarray of floats
    h : float
        The step, in the units of ``x``.
    at : sequence of int, optional
        Flat indices of the entries to measure. Default: all of them.

    Returns
    -------
    ndarray
        Of the shape of ``x``; one value an index if ``at`` is given.

    Raises
    ------
    ValueError
        If ``x`` is not a non-empty array of real floats, ``h`` is not positive, or ``f`` does not
        return a real scalar.
    """
    check_array("x", x)
    if not np.issubdtype(x.dtype, np.floating):
        raise ValueError(f"x: expected real floating-point numbers, got {x.dtype}")
    check_step(h)

    def slope(i):
        original = x.flat[i]
        try:
            x.flat[i] = original + h
            above = real_scalar(f(x))
            x.flat[i] = original - h
            below = real_scalar(f(x))
        finally:
            x.flat[i] = original
        return (above - below) / (2 * h)

    return entry_by_entry(slope, x, at)


def complex_step(f, x, h=1e-20, at=None):
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


def gradient_error(gradient, reference, scale=0.0):
    r"""Compare two gradients of the same array (eq:gradient-error).

    .. math:: \text{norm} = \frac{\|a - n\|_2}{\max(\|a\|_2, \|n\|_2, s)}, \qquad
              \text{worst} = \max_i \frac{|a_i - n_i|}{\max(|a_i|, |n_i|, s)}

    with 0/0 = 0.

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
    difference = np.abs(gradient - reference)
    size = np.maximum(np.maximum(np.abs(gradient), np.abs(reference)), scale)
    norm = np.linalg.norm
    return GradientError(
        float(ratio(norm(difference), max(norm(gradient), norm(reference), scale))),
        float(ratio(difference, size).max()),
    )


def check_gradients(
    loss, arrays, grads, witness=central_difference, probes=None, rng=None
):
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
        If the names or shapes differ, there are probes and no rng, or as the witness does.
    """
    check_fit("grads", grads, arrays)
    if probes is not None and rng is None:
        raise ValueError("rng: expected a generator to draw the probes, got None")
    scale = 1e-3 * max(np.linalg.norm(grad) for grad in grads.values())
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


def ratio(a, b):
    return np.divide(a, b, out=np.zeros(np.shape(a)), where=np.asarray(b) != 0)


def real_scalar(value):
    if np.ndim(value) or np.iscomplexobj(value):
        raise ValueError(f"f: expected a real scalar, got {describe(value)}")
    return value


def describe(value):
    return f"{np.asarray(value).dtype} of shape {np.shape(value)}"


def check_step(h):
    if not h > 0:
        raise ValueError(f"h: expected a positive step, got {h}")
