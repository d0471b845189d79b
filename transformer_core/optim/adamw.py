"""AdamW: Adam with weight decay beside the gradient."""

from collections.abc import Callable

from transformer_core.foundation.checks import check_not_negative
from transformer_core.optim.adam import Adam
from transformer_core.optim.optimizer import Parameters


class AdamW(Adam):
    r"""Shrink the weights, then take the step of Adam (eq:adamw).

    .. math::
        \theta_t = (1 - \eta \lambda) \, \theta_{t-1}
            - \eta \, \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \varepsilon}

    Parameters
    ----------
    parameters, learning_rate, beta1, beta2, eps, norm, map
        As for :class:`Adam`.
    weight_decay : float
        lambda, at least 0.
    undecayed : tuple of str
        Last parts of the dotted names of the parameters that keep their size. ``()`` decays all.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Source: Loshchilov & Hutter 2019.
    """

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        undecayed: tuple[str, ...] = ("bias", "gamma", "beta"),
        **seams: Callable,
    ):
        super().__init__(parameters, learning_rate, beta1, beta2, eps, **seams)
        check_not_negative("weight_decay", weight_decay)
        if isinstance(undecayed, str):
            raise ValueError(f"undecayed: expected a tuple of names, got {undecayed!r}")
        self.weight_decay, self.undecayed = weight_decay, undecayed

    def update(self, name, parameter, grad, m, v):
        if name.split(".")[-1] not in self.undecayed:
            parameter *= 1 - self.learning_rate * self.weight_decay
        super().update(name, parameter, grad, m, v)
