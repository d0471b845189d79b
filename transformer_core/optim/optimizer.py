"""What all optimisers share."""

import math
from collections.abc import Callable
from functools import partial
from numbers import Real

import numpy as np

from transformer_core.foundation.checks import check_floats, check_names, check_positive
from transformer_core.foundation.chunks import chunks
from transformer_core.foundation.names import check_fit, join, summary
from transformer_core.optim.clipping import clipping_factor, global_norm

Parameters = dict[str, np.ndarray] | Callable[[], dict[str, np.ndarray]]


class Pieces(dict):
    """Parameters of a scheme over ranks: what this rank updates, while others update the rest.

    An optimiser that is built from them measures gradients by ``norm``, over all ranks, and
    calls ``publish`` after each step, so that the other ranks get what has changed.
    """

    def __init__(
        self,
        arrays: dict[str, np.ndarray],
        norm: Callable[[dict], float],
        publish: Callable[[], None] = lambda: None,
    ):
        super().__init__(arrays)
        self.norm, self.publish = norm, publish


class Optimizer:
    """Updates parameters in place from their gradients.

    A subclass says how in ``update(name, parameter, grad, *averages)``, which gets one of the
    ``blocks`` at a time: some rows of an array, unless the subclass needs it whole.

    Parameters
    ----------
    parameters : dict of str to ndarray, or callable
        What ``layer.parameters()`` returns. Or ``layer.parameters`` itself, which each step then
        asks whether the layer still has the arrays that the optimiser updates.
    learning_rate : float
        May be changed between steps.
    *averages : str
        What the optimiser remembers: the names of arrays of zeros, one per parameter.
    norm : callable, optional
        ``norm(grads)`` is the length of all gradients together. Default: that of
        ``Pieces``, where a rank has only a part, and else :func:`global_norm`.
    map : callable
        What to call for each block of an array: the builtin, or :meth:`DataParallel.map`.

    Raises
    ------
    ValueError
        If the learning rate is not positive and finite, or a parameter is not an array of
        floating-point numbers.
    """

    update: Callable  # (name, parameter, grad, *averages), of a block
    blocks = staticmethod(chunks)

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float,
        *averages: str,
        norm: Callable[[dict], float] | None = None,
        map: Callable = map,
    ):
        check_positive("learning_rate", learning_rate)
        self.current = parameters if callable(parameters) else lambda: parameters
        current = self.current()
        check_names("parameters", current)
        self.parameters = dict(current)
        for name, array in self.parameters.items():
            check_floats(name, array, ...)
            if array.dtype.kind not in "fO":  # objects: exact numbers, for paper
                raise ValueError(
                    f"{name}: expected floating-point numbers, got {array.dtype}"
                )
        if not isinstance(current, Pieces):
            current = Pieces(current, partial(global_norm, map=map))
        self.norm, self.publish = norm or current.norm, current.publish
        self.map = map
        self.learning_rate = learning_rate
        self.averages = {
            average: {n: np.zeros_like(array) for n, array in self.parameters.items()}
            for average in averages
        }
        self.steps = 0

    def state(self) -> dict[str, np.ndarray]:
        """Return what the optimiser remembers, live, under dotted names."""
        return join(self.averages)

    def step(self, grads: dict[str, np.ndarray], max_norm: float | None = None) -> None:
        """Take one step.

        Parameters
        ----------
        grads : dict of str to ndarray
            One gradient for each parameter, under the same name. Not modified.
        max_norm : float, optional
            Shorten the gradients to this common norm first, as :func:`clip_by_global_norm` does.

        Raises
        ------
        ValueError
            If a parameter has no gradient, a gradient no parameter, a shape differs, a gradient
            is not of real and finite numbers, the sum of their squares overflows in the dtype of
            a parameter, the learning rate is not positive and finite, or a parameter cannot be
            updated: it is read-only, or no longer the layer's. Nothing is updated then.
        """
        check_positive("learning_rate", self.learning_rate)
        self.check_settings()
        self.check_alive()
        check_fit("grads", grads, self.parameters)
        norm = self.norm(grads)
        factor = 1.0 if max_norm is None else clipping_factor(norm, max_norm)
        self.check_squares(factor * norm)
        self.steps += 1
        self.apply(grads, factor)
        self.publish()

    def apply(self, grads: dict[str, np.ndarray], factor: float) -> None:
        """Update every block by its gradient times a factor of at most 1."""

        def update(name, parameter, grad, *averages):
            self.update(name, parameter, factor * grad, *averages)

        names, *parts = self.blocks(self.parameters, grads, *self.averages.values())
        list(self.map(update if factor < 1 else self.update, names, *parts))

    def check_settings(self):
        """Raise ``ValueError`` if a setting is a fraction, and a parameter no array of objects."""
        if any(array.dtype.kind == "f" for array in self.parameters.values()):
            for name, value in vars(self).items():
                if isinstance(value, Real) and not isinstance(
                    value, (int, float, np.generic)
                ):
                    raise ValueError(
                        f"{name}: expected a floating-point number, as the parameters are, "
                        f"got {value!r}"
                    )

    def check_alive(self):
        """Raise ``ValueError`` unless every parameter is the layer's, and may be written to."""
        now = self.current()
        names = now.keys() | self.parameters.keys()
        stale = [n for n in names if now.get(n) is not self.parameters.get(n)]
        if stale:
            raise ValueError(
                "parameters: expected the arrays that the optimiser was made for, "
                f"got others: {summary(stale)}"
            )
        arrays = self.parameters | self.state()
        fixed = [name for name, array in arrays.items() if not array.flags.writeable]
        if fixed:
            raise ValueError(
                f"parameters: expected arrays that may be written to, got {summary(fixed)}"
            )

    def check_squares(self, norm):
        """Raise ``ValueError`` if the square of the norm is infinite in a parameter's dtype.

        Such a gradient would leave infinite averages behind, and stop the parameter for ever.
        """
        dtypes = {array.dtype for array in self.parameters.values()}
        for dtype in (d for d in dtypes if d.kind == "f"):
            longest = math.sqrt(np.finfo(dtype).max)
            if norm > longest:
                raise ValueError(
                    f"grads: expected a norm of at most {longest:.3g}, whose square is finite "
                    f"in {dtype}, got {norm:.3g}; max_norm shortens it"
                )
