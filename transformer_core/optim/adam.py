"""Adam."""

from collections.abc import Callable

import numpy as np

from transformer_core.foundation.checks import check_positive, check_rate
from transformer_core.optim.optimizer import Optimizer, Parameters


class Adam(Optimizer):
    r"""Step by the mean gradient over its root mean square (eq:adam).

    .. math::
        m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \qquad
        v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2, \qquad
        \theta_t = \theta_{t-1}
            - \eta \, \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \varepsilon}

    Parameters
    ----------
    parameters : dict of str to ndarray, or callable
        Updated in place. See ``Optimizer``.
    learning_rate : float
        eta.
    beta1, beta2 : float
        Decay of the two moving averages, in [0, 1).
    eps : float
        In the units of the gradient.
    norm, map : callable, optional
        As for ``Optimizer``.

    Raises
    ------
    ValueError
        If a setting is out of range, or as ``Optimizer`` does.

    Source: Kingma & Ba 2015; text 000, section Adam Optimizer.
    """

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        **seams: Callable,
    ):
        averages = "first_moment", "second_moment"
        super().__init__(parameters, learning_rate, *averages, **seams)
        for name, beta in (("beta1", beta1), ("beta2", beta2)):
            check_rate(name, beta)
        check_positive("eps", eps)
        for name, array in self.parameters.items():
            if array.dtype.type(eps) == 0:  # a gradient of 0 would be divided by it
                raise ValueError(
                    f"eps: expected a number that is not 0 in {array.dtype}, the dtype of "
                    f"{name}, got {eps}"
                )
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def update(self, name, parameter, grad, m, v):
        m *= self.beta1
        m += (1 - self.beta1) * grad
        v *= self.beta2
        square = np.square(grad)
        square *= 1 - self.beta2
        v += square
        m_scale = self.learning_rate / (1 - self.beta1**self.steps)
        v_root = (1 - self.beta2**self.steps) ** 0.5
        denominator = np.sqrt(v)  # times v_root, as the numerator is
        denominator += v_root * self.eps
        step = m / denominator
        step *= m_scale * v_root
        parameter -= step
