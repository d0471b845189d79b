"""Gradient accumulation: one batch, worked on in parts."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from transformer_core.foundation.checks import check_reals, is_real
from transformer_core.foundation.chunks import chunks
from transformer_core.foundation.names import check_fit


def combine(
    parts: Iterable[tuple[float, float, dict[str, np.ndarray]]],
    in_place: bool = False,
    map: Callable = map,
) -> tuple[float, float, dict[str, np.ndarray]]:
    r"""Merge the losses and gradients of parts into those of the whole batch (eq:accumulation).

    .. math::
        n = \sum_j n_j, \qquad
        \mathcal{L} = \sum_j \frac{n_j}{n} \, \mathcal{L}_j, \qquad
        \bar{\theta} = \sum_j \frac{n_j}{n} \, \bar{\theta}_j

    Exact, to rounding, if each loss is a mean over the counted tokens of its part. The result is
    again a part: parts of one machine, then machines, may be combined in turn.

    Parameters
    ----------
    parts : iterable of (weight, loss, grads)
        The number n of counted tokens of a part, or the sum of their weights; their mean loss;
        its gradients. One part at a time is asked for, and none is modified.
    in_place : bool
        True: the result takes the place of the first part's gradients, and no memory of its own.
    map : callable
        What to call for each block of an array: the builtin, or :meth:`DataParallel.map`.

    Returns
    -------
    weight : float
    loss : float
    grads : dict of str to ndarray

    Raises
    ------
    ValueError
        If a weight is negative or not finite, their sum is 0 or not finite, a loss is no number,
        or the gradients of two parts differ in names or shapes or are not of real numbers.

    Source: text 004, section 8.2, with its weights mended.
    """
    total, loss, first, means = 0.0, 0.0, None, None
    for k, (weight, part_loss, grads) in enumerate(parts):
        if not is_real(weight) or not (
            weight >= 0 and total + float(weight) < math.inf
        ):
            raise ValueError(
                f"weight of part {k}: expected at least 0 and finite, got {weight}"
            )
        if not is_real(part_loss):
            raise ValueError(f"loss of part {k}: expected a number, got {part_loss}")
        total += float(weight)
        first = grads if first is None else first
        check_fit(f"grads of part {k}", grads, first)
        for name, grad in grads.items():
            check_reals(f"grads of part {k}: {name}", grad, ...)
        if weight == 0:
            continue
        share = float(weight) / total  # a Python number leaves the dtype alone
        loss += share * (float(part_loss) - loss)
        if means is None:
            means = grads if in_place else {n: g.copy() for n, g in grads.items()}
            continue

        def add(mean, grad, share=share):
            towards = grad - mean
            towards *= share
            mean += towards

        _, mean_parts, grad_parts = chunks(means, grads)
        list(map(add, mean_parts, grad_parts))
    if total == 0:
        raise ValueError("parts: expected at least one counted token, got none")
    return total, loss, means
