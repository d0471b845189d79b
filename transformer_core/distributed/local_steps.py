"""Local steps with an outer optimiser (DiLoCo): ranks that meet once in many steps."""

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_positive,
    check_rate,
    check_real,
)
from transformer_core.ranks.communicator import Communicator
from transformer_core.ranks.flat import flatten, unflatten


class LocalSteps:
    r"""Between two meetings each rank trains alone; at a meeting all take one outer step.

    A round begins at weights :math:`\theta` that all ranks share. In it rank r takes steps of an
    inner optimiser of its own, which lead it to :math:`\theta_r` (eq:diloco-inner). The mean
    displacement serves as a gradient: the outer optimiser, gradient descent with Nesterov's
    momentum, steps against it (eq:diloco-outer).

    .. math::
        \Delta = \sum_r \frac{w_r}{\sum_j w_j} (\theta - \theta_r), \qquad
        v \leftarrow \mu v + \Delta, \qquad
        \theta \leftarrow \theta - \eta \, (\Delta + \mu v)

    Parameters
    ----------
    parameters : dict of str to ndarray
        Of one dtype, with the same values on every rank. The inner optimiser updates them in
        place, and so does each meeting.
    learning_rate : float
        eta, of the outer steps. 1 without momentum: the mean of the ranks' weights.
    momentum : float
        mu, in [0, 1).

    Source: Douillard et al. 2023, algorithm 1.
    """

    def __init__(
        self,
        parameters: dict[str, np.ndarray],
        learning_rate: float = 0.7,
        momentum: float = 0.9,
    ):
        check_positive("learning_rate", learning_rate)
        check_rate("momentum", momentum)
        self.parameters = parameters
        self.learning_rate, self.momentum = learning_rate, momentum
        self.shared = flatten(parameters)
        check_floats("parameters", self.shared, ...)
        self.velocity = np.zeros_like(self.shared)

    def meet(self, communicator: Communicator, weight: float = 1.0) -> None:
        """Take one outer step, together (eq:diloco-outer).

        With S bytes of parameters, N ranks send 2 (N - 1) S bytes together, and 8 N (N - 1) for
        the weights (eq:local-bytes).

        Parameters
        ----------
        communicator : Communicator
            Of the ranks that are there: it may be another one at every meeting.
        weight : float
            w_r: the tokens in each of this rank's steps, say. 0: it has not trained.

        Raises
        ------
        ValueError
            If a weight is not a number, negative or not finite, or all are 0.
        """
        check_real("weight", weight)
        weights = communicator.all_gather(np.array([weight], np.float64))
        if not 0 < weights.sum() < np.inf or (weights < 0).any():
            raise ValueError(
                f"weight: expected finite numbers of at least 0, not all 0, got {weights}"
            )
        delta = self.shared - flatten(self.parameters)
        delta *= weight / float(weights.sum())
        delta = communicator.all_reduce(delta)
        self.velocity *= self.momentum
        self.velocity += delta
        self.shared -= self.learning_rate * (delta + self.momentum * self.velocity)
        self.resume()

    def catch_up(self, communicator: Communicator, root: int = 0) -> None:
        """Take over the shared weights and the velocity of one rank, after an absence."""
        state = np.stack([self.shared, self.velocity])
        self.shared, self.velocity = communicator.broadcast(state, root)
        self.resume()

    def resume(self):
        """Replace this rank's own weights by the shared ones."""
        shared = unflatten(self.shared, self.parameters)
        for name, parameter in self.parameters.items():
            parameter[...] = shared[name]
