"""Loss scaling: gradients that would vanish in a format of few bits are computed larger."""

import math
from collections.abc import Callable

import numpy as np

from transformer_core.foundation.checks import check_positive, check_positive_int
from transformer_core.optim.clipping import check_real_gradients


def unscale(grads: dict[str, np.ndarray], scale: float) -> dict[str, np.ndarray] | None:
    r"""Divide gradients by the scale of the loss; None if one is not finite (eq:loss-scaling).

    .. math:: \bar{\theta} = \overline{(\lambda \mathcal{L})} / \lambda

    Parameters
    ----------
    grads : dict of str to ndarray
        Of the loss times ``scale``. Not modified. Those of float16 become float32 first: the
        quotient might not be a number of float16.
    scale : float
        lambda.

    Returns
    -------
    dict of str to ndarray, or None
        What clipping and the optimiser may be given. None: this step must not be taken.

    Source: Micikevicius et al. 2018, section 3.2.
    """
    check_real_gradients(grads)
    check_positive("scale", scale)
    if not all(np.isfinite(grad).all() for grad in grads.values()):
        return None
    return {
        name: grad.astype(np.result_type(grad, np.float32)) / scale
        for name, grad in grads.items()
    }


class LossScale:
    r"""A ``loss_and_gradients`` that scales the loss as far as its gradients stay finite.

    .. math::
        \lambda \leftarrow \begin{cases}
            \lambda / 2 & \text{a gradient is not finite: the batch is computed again} \\
            2 \lambda & \text{after } k \text{ finite batches in a row} \\
            \lambda & \text{else}
        \end{cases}

    (eq:dynamic-scale). It returns finite gradients without the scale, so that what clips them
    never sees an infinite one.

    Parameters
    ----------
    loss_and_gradients : callable
        ``loss_and_gradients(*batch, rng=rng, dloss=scale)``.
    scale : float
        lambda at first. A power of two: no other leaves the bits of a number alone.
    patience : int
        k.

    Raises
    ------
    ValueError
        By a call, if gradients are not finite at a scale of 1 or less.

    Source: Micikevicius et al. 2018, section 3.2.
    """

    def __init__(
        self, loss_and_gradients: Callable, scale: float = 2.0**16, patience: int = 1000
    ):
        check_positive("scale", scale)
        if math.frexp(scale)[0] != 0.5:
            raise ValueError(f"scale: expected a power of 2, got {scale}")
        check_positive_int("patience", patience)
        self.loss_and_gradients = loss_and_gradients
        self.scale, self.patience = scale, patience
        self.streak = 0

    def __call__(
        self, *batch: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss, without the scale, and the gradients."""
        while True:
            scaled = self.loss_and_gradients(*batch, rng=rng, dloss=self.scale)
            grads = unscale(scaled[1], self.scale)
            if grads is not None:
                break
            if self.scale <= 1:
                raise ValueError(
                    f"grads: expected finite ones at the scale {self.scale:g}, got others"
                )
            self.scale, self.streak = self.scale / 2, 0
        self.streak += 1
        if self.streak == self.patience:
            self.scale, self.streak = self.scale * 2, 0
        return scaled[0], grads
