"""Stochastic gradient descent, with or without momentum."""

from collections.abc import Callable

from transformer_core.foundation.checks import check_rate
from transformer_core.optim.optimizer import Optimizer, Parameters


class SGD(Optimizer):
    r"""Step against the gradient (eq:sgd), or against a decaying sum of gradients (eq:momentum).

    .. math::
        b_t = \mu b_{t-1} + g_t, \qquad \theta_t = \theta_{t-1} - \eta \, b_t

    Parameters
    ----------
    parameters : dict of str to ndarray, or callable
        Updated in place. See ``Optimizer``.
    learning_rate : float
        eta. With momentum, a constant gradient moves by eta / (1 - mu) per step in the end.
    momentum : float
        mu, in [0, 1). 0: plain gradient descent, which keeps no state.
    norm, map : callable, optional
        As for ``Optimizer``.

    Raises
    ------
    ValueError
        If a setting is out of range, or as ``Optimizer`` does.

    Source: Polyak 1964.
    """

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float,
        momentum: float = 0.0,
        **seams: Callable,
    ):
        check_rate("momentum", momentum)
        self.momentum = momentum
        averages = ["velocity"] * bool(momentum)
        super().__init__(parameters, learning_rate, *averages, **seams)

    def update(self, name, parameter, grad, v=None):
        if self.momentum:
            v *= self.momentum
            v += grad
            grad = v
        parameter -= self.learning_rate * grad
