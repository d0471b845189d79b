"""Muon: momentum whose matrices are made orthogonal before the step."""

from collections.abc import Callable

import numpy as np

from transformer_core.foundation.checks import (
    as_list,
    check_choice,
    check_floats,
    check_not_negative,
    check_positive_int,
    check_rate,
    is_real,
)
from transformer_core.optim.optimizer import Optimizer, Parameters

CUBIC = (1.5, -0.5, 0.0)  # converges to 1
QUINTIC = (3.4445, -4.7750, 2.0315)  # steep at 0, and never settles at 1
SCALES = "original", "match_rms_adamw"


def orthogonalize(
    matrix: np.ndarray,
    iterations: int = 5,
    coefficients: tuple[float, float, float] = QUINTIC,
) -> np.ndarray:
    r"""Move all singular values towards 1 and leave the singular vectors (eq:newton-schulz).

    .. math::
        X_0 = M / \|M\|_{\text{F}}, \qquad
        X_{i+1} = a X_i + b \, X_i X_i^\top X_i + c \, (X_i X_i^\top)^2 X_i

    With ``CUBIC`` and many iterations the result is U V^T for M = U diag(sigma) V^T. ``QUINTIC``
    comes near it in five: most singular values end between 0.68 and 1.21.

    Parameters
    ----------
    matrix : ndarray, shape (rows, columns)
        Not modified.
    iterations : int
    coefficients : tuple of three floats
        a, b and c: a singular value x becomes a x + b x^3 + c x^5.

    Returns
    -------
    ndarray, shape (rows, columns)
        Zeros for a matrix of zeros.

    Raises
    ------
    ValueError
        If ``matrix`` does not have two axes of floating-point numbers, ``iterations`` is not a
        positive whole number, or the coefficients are not three numbers.

    Source: Jordan et al. 2024; Bernstein & Newhouse 2024.
    """
    check_floats("matrix", matrix, "rows", "columns")
    check_positive_int("iterations", iterations)
    coefficients = tuple(as_list("coefficients", coefficients))
    if len(coefficients) != 3 or not all(map(is_real, coefficients)):
        raise ValueError(f"coefficients: expected three numbers, got {coefficients}")
    largest = np.abs(matrix).max()
    if largest == 0:
        return np.zeros_like(matrix)
    x = matrix / largest  # whose squares neither overflow nor vanish
    x /= np.linalg.norm(x)
    tall = len(x) > x.shape[1]
    if tall:  # the smaller of the two products
        x = x.T
    a, b, c = coefficients
    for _ in range(iterations):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if tall else x


def muon_scale(width_in: int, width_out: int, convention: str) -> float:
    r"""Return the factor s of a step for weights of the shape (D_in, D_out) (eq:muon-scales).

    .. math::
        s_{\text{original}} = \sqrt{\max(1, D_{\text{out}} / D_{\text{in}})}, \qquad
        s_{\text{match}} = 0.2 \sqrt{\max(D_{\text{in}}, D_{\text{out}})}

    Parameters
    ----------
    width_in, width_out : int
    convention : str
        ``original`` or ``match_rms_adamw``.

    Source: Jordan et al. 2024, in their code; Liu et al. 2025, section 2.2.
    """
    check_positive_int("width_in", width_in)
    check_positive_int("width_out", width_out)
    check_choice("convention", convention, SCALES)
    if convention == "original":
        return max(1, width_out / width_in) ** 0.5
    return 0.2 * max(width_in, width_out) ** 0.5


def whole(*groups):
    """Return the names and the arrays of groups, as ``chunks`` does, but in one piece each."""
    names = list(groups[0])
    return names, *([group[name] for name in names] for group in groups)


class Muon(Optimizer):
    r"""Step by the momentum with all its singular values near 1 (eq:muon).

    .. math::
        b_t = \mu b_{t-1} + g_t, \qquad
        \theta_t = (1 - \eta \lambda) \, \theta_{t-1}
            - \eta \, s \, \operatorname{NS}(g_t + \mu b_t)

    with the iteration NS of :func:`orthogonalize`, for matrices of the shape (D_in, D_out). Only
    for the weights of hidden layers: embeddings, the output layer, biases and the parameters
    of LayerNorm go to another optimiser, such as :class:`AdamW`.

    Parameters
    ----------
    parameters : dict of str to ndarray, or callable
        Matrices, updated in place. See ``Optimizer``.
    learning_rate : float
        eta.
    momentum : float
        mu, in [0, 1).
    nesterov : bool
        False: NS of b_t, without looking a step ahead.
    iterations : int
        Of :func:`orthogonalize`.
    weight_decay : float
        lambda, at least 0.
    scale : str
        The convention of :func:`muon_scale`. With ``original``, a step moves outputs of any width
        alike. With ``match_rms_adamw`` the root mean square of its entries is about 0.2 eta, as
        AdamW's often is, and eta can be AdamW's.
    norm, map : callable, optional
        As for ``Optimizer``.

    Raises
    ------
    ValueError
        If a setting is out of range, a parameter is not a matrix, or as ``Optimizer`` does.

    Source: Jordan et al. 2024, and the scale of their code; Liu et al. 2025, section 2.2.
    """

    blocks = staticmethod(whole)

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float = 0.02,
        momentum: float = 0.95,
        nesterov: bool = True,
        iterations: int = 5,
        weight_decay: float = 0.0,
        scale: str = "original",
        **seams: Callable,
    ):
        super().__init__(parameters, learning_rate, "momentum", **seams)
        for name, array in self.parameters.items():
            check_floats(name, array, "D_in", "D_out")
        check_rate("momentum", momentum)
        check_positive_int("iterations", iterations)
        check_not_negative("weight_decay", weight_decay)
        check_choice("scale", scale, SCALES)
        self.momentum, self.nesterov = momentum, nesterov
        self.iterations, self.weight_decay = iterations, weight_decay
        self.scale = scale

    def update(self, name, parameter, grad, b):
        b *= self.momentum
        b += grad
        self.turn(parameter, grad, b)

    def turn(self, parameter, grad, b):
        ahead = grad + self.momentum * b if self.nesterov else b
        step = orthogonalize(ahead, self.iterations)
        step *= self.learning_rate * muon_scale(*parameter.shape, self.scale)
        parameter *= 1 - self.learning_rate * self.weight_decay
        parameter -= step
