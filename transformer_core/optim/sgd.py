"""Stochastic gradient descent, with or without momentum."""

import numpy as np

from transformer_core.names import join
from transformer_core.optim.optimizer import Optimizer


class SGD(Optimizer):
    r"""Step against the gradient (eq:sgd), or against a decaying sum of gradients (eq:momentum).

    .. math::
        v_t = \mu v_{t-1} + g_t, \qquad \theta_t = \theta_{t-1} - \eta \, v_t

    Parameters
    ----------
    parameters : dict of str to ndarray
        Updated in place.
    learning_rate : float
        eta. With momentum, a constant gradient moves by eta / (1 - mu) a step in the end.
    momentum : float
        mu, in [0, 1). 0: plain gradient descent, which keeps no state.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Source: Polyak 1964.
    """

    def __init__(self, parameters, learning_rate, momentum=0.0):
        super().__init__(parameters, learning_rate)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum: expected a number in [0, 1), got {momentum}")
        self.momentum = momentum
        self.velocity = (
            {name: np.zeros_like(array) for name, array in parameters.items()}
            if momentum
            else {}
        )

    def state(self):
        """Return the velocities, live, under dotted names."""
        return join({"velocity": self.velocity})

    def update(self, name, parameter, grad):
        if self.momentum:
            v = self.velocity[name]
            v *= self.momentum
            v += grad
            grad = v
        parameter -= self.learning_rate * grad
