"""What all optimisers share."""

import numpy as np

from transformer_core.foundation.chunks import chunks
from transformer_core.foundation.names import check_fit, join
from transformer_core.optim.clipping import clipping_factor, global_norm


class Optimizer:
    """Updates parameters in place from their gradients.

    A subclass says how in ``update(name, parameter, grad, *averages)``, which gets a block of
    rows at a time.

    Parameters
    ----------
    parameters : dict of str to ndarray
        What ``layer.parameters()`` returns.
    learning_rate : float
        May be changed between steps.
    *averages : str
        What the optimiser remembers: the names of arrays of zeros, one a parameter.
    """

    map = map  # or DataParallel.map: what to call for each block

    def __init__(self, parameters, learning_rate, *averages):
        if not learning_rate > 0:
            raise ValueError(
                f"learning_rate: expected a positive number, got {learning_rate}"
            )
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.averages = {
            average: {name: np.zeros_like(array) for name, array in parameters.items()}
            for average in averages
        }
        self.steps = 0

    def state(self):
        """Return what the optimiser remembers, live, under dotted names."""
        return join(self.averages)

    def step(self, grads, max_norm=None):
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
            If a parameter has no gradient, a gradient no parameter, a shape differs, or as
            :func:`clip_by_global_norm` does. Nothing is updated then.
        """
        check_fit("grads", grads, self.parameters)
        factor = 1.0
        if max_norm is not None:
            factor = clipping_factor(global_norm(grads, self.map), max_norm)

        def update(name, parameter, grad, *averages):
            self.update(name, parameter, factor * grad, *averages)

        self.steps += 1
        names, *parts = chunks(self.parameters, grads, *self.averages.values())
        list(self.map(update if factor < 1 else self.update, names, *parts))
