"""The reconstruction task: give back each token's embedding from embedding plus position."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_positive,
    check_positive_int,
    check_reals,
)
from transformer_core.ops.positions import sinusoidal_positions


class Reconstruction:
    """Sequences of tokens drawn uniformly; input E[token] + P[position], target E[token].

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the embeddings, normal with mean 0.
    vocabulary, length, width : int
        V tokens, sequences of T, embeddings of D.
    std : float
        Standard deviation of the embeddings' entries.
    dtype : NumPy dtype

    Source: texts 000 to 002.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        vocabulary: int = 65,
        length: int = 16,
        width: int = 64,
        std: float = 1.0,
        dtype: DTypeLike = np.float32,
    ):
        check_positive_int("vocabulary", vocabulary)
        check_positive("std", std)
        self.positions = sinusoidal_positions(length, width, dtype)
        self.embedding = rng.normal(0, std, (vocabulary, width)).astype(dtype)

    def sample(
        self, sequences: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw sequences of random tokens.

        Parameters
        ----------
        sequences : int
            B.
        rng : numpy.random.Generator

        Returns
        -------
        inputs, targets : ndarray (B, T, D)
        """
        check_positive_int("sequences", sequences)
        size = sequences, len(self.positions)
        tokens = rng.integers(len(self.embedding), size=size)
        targets = self.embedding[tokens]
        return targets + self.positions, targets


def predict_zero(targets: np.ndarray) -> float:
    """Return the mean squared error of the answer 0 everywhere."""
    check_reals("targets", targets, ...)
    return float(np.mean(targets.astype(np.float64) ** 2))


def predict_mean(targets: np.ndarray) -> float:
    """Return the mean squared error of the mean target, (D,), at every position."""
    check_reals("targets", targets, ..., "D")
    rows = targets.reshape(-1, targets.shape[-1]).astype(np.float64)
    return float(np.mean((rows - rows.mean(axis=0)) ** 2))


def layer_norm_floor(targets: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> float:
    r"""Return the least mean squared error that outputs of a LayerNorm can have (eq:floor).

    .. math:: \frac{1}{N D} \sum_n \min_{\hat{x}} \|\gamma \odot \hat{x} + \beta - y^*_n\|^2
              \quad \text{over} \quad \mathbf{1}^\top \hat{x} = 0, \; \|\hat{x}\|^2 = D

    For gamma = 1 and beta = 0 this is the mean over the targets of
    :math:`(1 - \varsigma_n)^2 + m_n^2`, with the mean m and the standard deviation
    :math:`\varsigma` of the D entries of a target (eq:floor-closed). Otherwise each minimum lies at
    :math:`\hat{x} = (M + \lambda)^{-1} b` for the multiplier :math:`\lambda` that gives
    :math:`\hat{x}` the length :math:`\sqrt{D}`, found by bisection.

    Parameters
    ----------
    targets : ndarray (..., D)
    gamma, beta : ndarray (D,)

    Returns
    -------
    float
        In the units of the targets squared.
    """
    targets = in_double("targets", targets, ..., "D")
    width = targets.shape[-1]
    if width == 1:
        raise ValueError("targets: expected a width of at least 2, got 1")
    gamma = in_double("gamma", gamma, width)
    beta = in_double("beta", beta, width)
    rows, counts = np.unique(targets.reshape(-1, width), axis=0, return_counts=True)
    residual = rows - beta
    # An orthonormal basis of the plane where the entries sum to 0: its first column is dropped.
    columns = np.column_stack([np.ones(width), np.eye(width)[:, 1:]])
    basis = np.linalg.qr(columns)[0][:, 1:]
    curvature, axes = np.linalg.eigh(basis.T @ (gamma[:, np.newaxis] ** 2 * basis))
    b = residual * gamma @ basis @ axes

    # |z|^2 = sum b^2 / (excess + shift)^2 falls as shift = lambda + curvature[0] grows from 0.
    excess = curvature - curvature[0]
    # A row with b[0] = 0 has two minima, one on either side of axis 0: this takes one of them.
    b[:, 0] += 1e-30
    low = np.zeros(len(rows))
    high = 1 + np.linalg.norm(b, axis=1) / np.sqrt(width)
    for _ in range(200):
        middle = (low + high) / 2
        too_long = ((b / (excess + middle[:, np.newaxis])) ** 2).sum(axis=1) > width
        low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
    x_hat = b / (excess + high[:, np.newaxis]) @ axes.T @ basis.T
    errors = ((gamma * x_hat - residual) ** 2).mean(axis=1)
    return float(np.average(errors, weights=counts))


def in_double(name, array, *shape):
    """Return an array in float64; raise ``ValueError`` unless its squares are well finite."""
    check_reals(name, array, *shape)
    array = array.astype(np.float64)
    if not np.abs(array).max() < 1e100:
        raise ValueError(f"{name}: expected finite numbers up to 1e100, got others")
    return array
