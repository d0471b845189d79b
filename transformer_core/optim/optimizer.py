"""What all optimisers share."""

import numpy as np

from transformer_core.blocks import blocks
from transformer_core.names import check_fit, join


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

    def step(self, grads):
        """Take one step.

        Parameters
        ----------
        grads : dict of str to ndarray
            One gradient for each parameter, under the same name.

        Raises
        ------
        ValueError
            If a parameter has no gradient, a gradient no parameter, or a shape differs. Nothing
            is updated then.
        """
        check_fit("grads", grads, self.parameters)
        self.steps += 1
        names, *parts = blocks(self.parameters, grads, *self.averages.values())
        list(self.map(self.update, names, *parts))
