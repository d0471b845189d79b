"""Gradient accumulation: one batch, worked on in parts."""

from transformer_core.names import check_fit


def combine(parts):
    r"""Merge the losses and gradients of parts into those of the whole batch (eq:accumulation).

    .. math::
        n = \sum_k n_k, \qquad
        \mathcal{L} = \sum_k \frac{n_k}{n} \, \mathcal{L}_k, \qquad
        \bar{\theta} = \sum_k \frac{n_k}{n} \, \bar{\theta}_k

    Exact, to rounding, if each loss is a mean over the counted tokens of its part. The result is
    again a part: parts of one machine, then machines, may be combined in turn.

    Parameters
    ----------
    parts : iterable of (weight, loss, grads)
        The number n of counted tokens of a part, or the sum of their weights; their mean loss;
        its gradients. One part at a time is asked for, and none is modified.

    Returns
    -------
    weight : float
    loss : float
    grads : dict of str to ndarray

    Raises
    ------
    ValueError
        If a weight is negative or not finite, all are 0, or the gradients of two parts differ in
        names or shapes.

    Source: seed 004, section 8.2, with its weights mended.
    """
    total, loss, sums = 0.0, 0.0, None
    for k, (weight, part_loss, grads) in enumerate(parts):
        if not 0 <= weight < float("inf"):
            raise ValueError(
                f"weight of part {k}: expected at least 0 and finite, got {weight}"
            )
        weight = float(weight)  # a Python number leaves the dtype of an array alone
        total += weight
        loss += weight * float(part_loss)
        if sums is None:
            sums = {name: weight * grad for name, grad in grads.items()}
            continue
        check_fit(f"grads of part {k}", grads, sums)
        for name, grad in grads.items():
            sums[name] += weight * grad
    if total == 0:
        raise ValueError("parts: expected at least one counted token, got none")
    return total, loss / total, {name: array / total for name, array in sums.items()}
