"""Two witnesses for a gradient, the measure of their agreement, and the verdict."""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_array,
    check_floats,
    check_ids,
    check_names,
    check_not_negative,
    check_positive,
    check_positive_int,
    check_shape,
    check_whole,
)
from transformer_core.foundation.names import check_fit, summary

FEW_BITS = (np.float16, np.float32, np.complex64)
TWINS = "Two sizes are equal in {}: a division by the wrong one does not show."


def central_difference(
    f: Callable, x: np.ndarray, h: float | None = None, at: Sequence[int] | None = None
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
        In float32 no step is good: at best, four digits of the gradient are right.
    at : sequence of int, optional
        Flat indices of the entries to measure, at least one. Default: all of them.

    Returns
    -------
    ndarray
        Of the shape of ``x``; one value per index if ``at`` is given.

    Raises
    ------
    ValueError
        If ``x`` is not a non-empty array of real floats, ``h`` is not positive and finite, or so
        small that an entry stays as it is, there is no ``h`` and a number has less than 64 bits,
        an index is not one of ``x``, or ``f`` does not return a real scalar.
    """
    check_array("x", x)
    if not np.issubdtype(x.dtype, np.floating):
        raise ValueError(f"x: expected real floating-point numbers, got {x.dtype}")
    check_writeable("x", x)
    rough = h is not None
    check_digits("x", x, rough)
    h = h if rough else 1e-5
    check_positive("h", h)

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
        Real; of the shape of ``x``; one value per index if ``at`` is given.

    Raises
    ------
    ValueError
        If ``x`` is empty or not an array of numbers, ``h`` is not positive and finite, an index
        is not one of ``x``, or ``f`` returns a real number, which means that it lost the
        imaginary part on the way.

    Source: Martins, Sturdza & Alonso 2003.
    """
    check_array("x", x)
    check_numbers("x", x)
    check_positive("h", h)
    z = x if np.iscomplexobj(x) else x.astype(np.complex128)
    check_writeable("x", z)

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
        If the shapes differ, an array is empty or not of numbers, or ``scale`` is negative or not
        finite.
    """
    check_array("gradient", gradient)
    check_array("reference", reference)
    if gradient.shape != reference.shape:
        raise ValueError(
            f"reference: expected shape {gradient.shape}, got {reference.shape}"
        )
    check_numbers("gradient", gradient)
    check_numbers("reference", reference)
    check_not_negative("scale", scale)
    scale = float(scale)
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


class GradientReport(dict[str, GradientError]):
    """The error of each gradient by its name, with a verdict, which is what it prints first.

    Attributes
    ----------
    right : bool
    verdict : str
        One sentence, which begins with "right", "wrong" or "cannot tell".
    warnings : list of str
        What a check at this point does not show.
    """

    def __init__(
        self, errors: dict[str, GradientError], outcome: str, reason: str
    ) -> None:
        super().__init__(errors)
        self.outcome, self.reason = outcome, reason
        self.warnings: list[str] = []

    @property
    def right(self) -> bool:
        return self.outcome == "right"

    @property
    def verdict(self) -> str:
        limited = " as far as this check shows" if self.right and self.warnings else ""
        return f"{self.outcome}{limited}: {self.reason}"

    def __repr__(self) -> str:
        shown = sorted(self.items(), key=lambda item: item[1].norm, reverse=True)[:12]
        width = max(len(name) for name, _ in shown)
        lines = [f"  {name:{width}}  {error.norm:.2g}" for name, error in shown]
        if len(self) > len(shown):
            lines.append(f"  {len(self) - len(shown)} more, with smaller errors")
        return "\n".join([self.verdict, *lines, *self.warnings])


def check_gradients(
    loss: Callable,
    arrays: dict[str, np.ndarray],
    grads: dict[str, np.ndarray],
    witness: Callable = central_difference,
    probes: int | None = None,
    rng: np.random.Generator | None = None,
) -> GradientReport:
    """Compare every gradient of a layer or a model with a witness.

    For a function with a backward pass of its own, :func:`check_backward` is shorter.

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
    GradientReport
        A dict of str to GradientError with a verdict. A gradient is right if its error (norm) is
        below 1e-7 with real arrays, 1e-12 with complex ones; it is wrong if the error is more than
        a thousand times that. Between the two the check cannot tell, nor can it with fewer than
        64 bits, with a loss that changes from call to call, or where the rounding of the loss
        hides the gradient.

        The scale below which a gradient counts as zero is 1/1000 of the largest gradient's norm,
        so that a gradient that is zero in theory is not compared with its own rounding.

    Raises
    ------
    ValueError
        If the names or shapes differ, there are none, a gradient is not finite, ``probes`` is not
        a positive whole number, the arrays are real and the witness is :func:`complex_step`, there
        are probes and no rng, or as the witness does.
    """
    check_names("arrays", arrays)
    for name, array in arrays.items():
        check_array(f"arrays: {name}", array)
    check_fit("grads", grads, arrays)
    if not arrays:
        raise ValueError("arrays: expected at least one, got none")
    if probes is not None:
        check_positive_int("probes", probes)
        if rng is None:
            raise ValueError("rng: expected a generator to draw the probes, got None")
    for name, grad in grads.items():
        check_numbers(f"grads: {name}", grad)
        check_numbers(f"arrays: {name}", arrays[name])
        if not np.isfinite(grad).all():
            raise ValueError(f"grads: {name}: expected finite numbers, got {grad}")
        if witness is complex_step and not np.iscomplexobj(arrays[name]):
            raise ValueError(
                f"arrays: {name}: expected complex numbers for the complex step, got "
                f"{arrays[name].dtype}; let the loss read array.astype(complex)"
            )
    scale = 1e-3 * max(map(length, grads.values()))
    errors, sizes, faint = {}, {}, set()
    for name, array in arrays.items():
        at = np.arange(array.size)
        if probes is not None and probes < array.size:
            at = rng.choice(array.size, probes, replace=False)
        gradient = grads[name].real.flat[at]
        measured = witness(lambda _: loss(), array, at=at)
        errors[name] = gradient_error(gradient, measured, scale)
        sizes[name] = max(length(gradient), length(measured), scale) / np.sqrt(len(at))
        if max(length(grads[name]), length(measured)) <= scale:
            faint.add(name)
    report = GradientReport(errors, *judge(loss, arrays, grads, errors, sizes))
    report.warnings += blind_spots(arrays, faint, probes)
    return report


def check_backward(
    forward: Callable,
    backward: Callable,
    cotangent: np.ndarray | None = None,
    seed: int = 0,
    **arguments: Any,
) -> GradientReport:
    r"""Compare the backward pass of a function with a witness, at a generic point.

    One line for a function such as :func:`~transformer_core.ops.layer_norm`::

        check_backward(layer_norm, layer_norm_backward, x=(2, 3, 5), gamma=(5,), beta=(5,))

    The loss is :math:`\langle r, y \rangle` with a random cotangent r (eq:check-loss). The witness
    is the complex step if the function takes complex numbers, and central differences if it does
    not, or if the two find different errors.

    Parameters
    ----------
    forward : callable
        Takes the arguments by name, and returns (y, cache).
    backward : callable
        Takes a cotangent of the shape of y and the cache, and returns the gradients of all
        arguments that have one, in their order: a tuple, or one array.
    cotangent : ndarray of the shape of y, optional
        Default: drawn.
    seed : int
        Of everything that is drawn.
    **arguments
        A shape, for which an array of standard normal numbers is drawn; or an array of floats.
        Both have gradients. Anything else is a setting: numbers, whole numbers or booleans in
        arrays, a generator, which starts anew in every call. Hide an array of floats without a
        gradient in a ``functools.partial``.

    Returns
    -------
    GradientReport
        As of :func:`check_gradients`.

    Raises
    ------
    ValueError
        If no argument has a gradient, ``forward`` or ``backward`` does not return what it should,
        y has less than 64 bits, or as :func:`check_gradients` does.
    """
    check_whole("seed", seed)
    rng = np.random.default_rng(seed)
    arrays, settings = {}, {}
    for name, value in arguments.items():
        if isinstance(value, tuple):
            for size in value:
                check_positive_int(f"size in the shape of {name}", size)
            arrays[name] = rng.normal(size=value)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            arrays[name] = value.astype(np.float64)
        else:
            settings[name] = value
    if not arrays:
        raise ValueError("arguments: expected a shape or an array of floats, got none")

    def run(arrays):
        """Hand out copies: a function that writes into what it is given spoils no measurement."""
        returned = forward(**deepcopy(arrays | settings))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ValueError(
                f"forward: expected (y, cache), got {type(returned).__name__}"
            )
        return returned

    y, cache = run(arrays)
    dtype = np.asarray(y).dtype
    if dtype in FEW_BITS:
        raise ValueError(f"y: expected float64 from float64, got {dtype}")
    r = np.asarray(rng.normal(size=np.shape(y)) if cotangent is None else cotangent)
    check_floats("cotangent", r, *np.shape(y))
    grads = by_name(backward(r.copy(), cache), arrays)

    def check(witness, dtype):
        stepped = {name: array.astype(dtype) for name, array in arrays.items()}
        return check_gradients(
            lambda: (r * run(stepped)[0]).sum(), stepped, grads, witness
        )

    report = check(central_difference, np.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            sharper = check(complex_step, np.complex128)
    except Exception:  # whatever a function raises that takes real numbers alone
        sharper = None
    if sharper is not None:
        agree = all(
            abs(sharper[name].norm - report[name].norm) < 1e-4 for name in arrays
        )
        if agree or (sharper.right and report.outcome == "cannot tell"):
            report = sharper
        else:
            report.warnings.append(
                "The complex step measures something else: an operation on the way may not be "
                "analytic."
            )
    on_the_way = {
        array.shape for array in arrays_in((y, cache)) if has_twins(array.shape)
    }
    on_the_way -= {array.shape for array in arrays.values()}
    if on_the_way:
        report.warnings.append(TWINS.format(" ".join(map(str, sorted(on_the_way)))))
    if r.ndim and r.shape[-1] > 1 and not np.ptp(r, axis=-1).any():
        report.warnings.append(
            "The cotangent is constant along the last axis: softmax and LayerNorm send it to 0."
        )
    return report


def judge(loss, arrays, grads, errors, sizes):
    """Decide whether the gradients are right, and give the reason."""
    for name, array in arrays.items():
        for dtype in (array.dtype, grads[name].dtype):
            if dtype in FEW_BITS:
                return "cannot tell", f"{name} is in {dtype}, and a check needs 64 bits"
    value = loss()
    if not np.isfinite(value):
        return "cannot tell", f"the loss is {value}"
    if value != loss():
        return "cannot tell", (
            "the loss changes from call to call; if it draws dropout, each call needs a "
            "generator of the same seed"
        )
    kind, limit, step = "central differences", 1e-7, 1e-5
    if any(map(np.iscomplexobj, arrays.values())):
        kind, limit, step = "complex step", 1e-12, 1.0
    rounding = 10 * np.finfo(float).eps * max(abs(value), 1) / step
    wrong, hidden, unclear = [], [], []
    for name, error in errors.items():
        blur = rounding / sizes[name] if sizes[name] else np.inf
        if error.norm > max(1000 * limit, blur):
            wrong.append(name)
        elif not blur < 1e-4:
            hidden.append(name)
        elif not error.norm < limit:
            unclear.append(name)
    worst = max(wrong or unclear or errors, key=lambda name: errors[name].norm)
    size, measure = f"{errors[worst].norm:.2g}", f"({kind}, limit {limit:.0e})"
    if wrong:
        return f"wrong in {summary(wrong)}", f"relative error up to {size} {measure}"
    if hidden:
        return "cannot tell", (
            f"the rounding of a loss of {abs(value):.2g} hides the gradient of "
            f"{summary(hidden)}"
        )
    if unclear:
        return "cannot tell", (
            f"a relative error of {size} in {worst} {measure} may be rounding or a mistake"
        )
    return "right", f"largest relative error {size} in {worst} {measure}"


def blind_spots(arrays, faint, probes):
    """Say what is special about a point, and what a mistake may do there without being seen."""
    tests = {
        "All entries of {} are equal: a factor in the wrong place may cancel out.": (
            lambda name, a: (a == a.flat[0]).all() and (a.size > 1 or not a.any())
        ),
        "An axis of {} has the size 1: a sum over it is not tested.": (
            lambda name, a: a.ndim > 1 and 1 in a.shape
        ),
        TWINS: lambda name, a: has_twins(a.shape),
        "{} is symmetric: a transpose does not show.": (
            lambda name, a: (
                a.ndim > 1 and a.shape[-1] > 1 and np.array_equal(a, a.swapaxes(-1, -2))
            )
        ),
        "The gradient of {} is 0, or nearly: a backward pass that returns 0 passes.": (
            lambda name, a: name in faint
        ),
        f"Of {{}} only {probes} entries were measured.": (
            lambda name, a: probes is not None and probes < a.size
        ),
    }
    found = {
        text: [f"{name} {a.shape}" for name, a in arrays.items() if test(name, a)]
        for text, test in tests.items()
    }
    return [text.format(summary(names)) for text, names in found.items() if names]


def has_twins(shape):
    sizes = [size for size in shape if size > 1]
    return len(set(sizes)) < len(sizes)


def arrays_in(cache):
    """Yield the arrays of a cache, however deep."""
    if isinstance(cache, np.ndarray):
        yield cache
    elif isinstance(cache, dict):
        yield from arrays_in(tuple(cache.values()))
    elif isinstance(cache, (tuple, list)):
        for part in cache:
            yield from arrays_in(part)


def by_name(returned, arrays):
    """Name what a backward pass returns after the arguments."""
    gradients = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(gradients) != len(arrays):
        raise ValueError(
            f"backward: expected {len(arrays)} gradients, of {', '.join(arrays)}; "
            f"got {len(gradients)}"
        )
    grads = dict(zip(arrays, gradients, strict=True))
    check_fit("backward", grads, arrays)
    return grads


def entry_by_entry(slope, x, at):
    if at is None:
        return np.array([slope(i) for i in range(x.size)]).reshape(x.shape)
    at = np.asarray(at)
    check_shape("at", at, "N")
    check_ids("at", at, x.size)
    return np.array([slope(i) for i in at])


def in_double(array):
    return array.astype(np.result_type(array, np.float64))


def length(array):
    return float(np.linalg.norm(in_double(array)))


def ratio(a, b):
    """Divide, with 0/0 = 0."""
    return np.divide(a, np.where(b == 0, 1, b))


def check_writeable(name, array):
    """Raise ``ValueError`` unless the entries of an array can be stepped where it lives."""
    if not array.flags.writeable:
        raise ValueError(
            f"{name}: expected an array that can be changed, got one that is read-only"
        )


def check_numbers(name, array):
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{name}: expected numbers, got {array.dtype}")


def real_scalar(value, rough):
    if np.ndim(value) or np.iscomplexobj(value):
        raise ValueError(f"f: expected a real scalar, got {describe(value)}")
    check_digits("f", value, rough)
    return value


def check_digits(name, value, rough):
    dtype = np.asarray(value).dtype
    if not rough and dtype in FEW_BITS:
        raise ValueError(
            f"{name}: expected float64, got {dtype}, which needs a step h of its own"
        )


def describe(value):
    return f"{np.asarray(value).dtype} of shape {np.shape(value)}"
