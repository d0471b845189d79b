"""The training loop."""

import numpy as np


def train(
    loss_and_gradients,
    optimizer,
    batches,
    steps,
    *,
    schedule=None,
    max_norm=None,
    history=None,
    after_step=None,
):
    """Step the optimiser along the gradients of one batch after another, with a progress bar.

    Parameters
    ----------
    loss_and_gradients : callable
        ``loss_and_gradients(*batch)`` returns the loss and a gradient for every parameter of
        ``optimizer``.
    optimizer : Optimizer
    batches : iterable of tuple
        At least as many as there are steps to take.
    steps : int or callable
        Train until the history is this long. ``steps(history)``, asked again after every step,
        may be an estimate until it is reached.
    schedule : callable, optional
        ``schedule(step)`` is the learning rate of the steps 1, 2, ... Default: the optimiser's.
    max_norm : float, optional
        The longest that the gradients of a step may be, all together. Default: any length.
    history : list of dict, optional
        Earlier records to go on from. One record ``{"step": ..., "loss": ...}`` a step is
        appended to it, so that it holds them also when training ends early. Default: empty.
    after_step : callable, optional
        Called with ``history`` after each step, for instance to save, or to add a measure to the
        newest record.

    Returns
    -------
    history : list of dict

    Raises
    ------
    ValueError
        If the loss is not finite, naming the step; the parameters are left as they were before
        it. Or if the batches run out.
    """
    from tqdm import tqdm

    history = [] if history is None else history
    first = len(history)
    batches = iter(batches)
    total = steps(history) if callable(steps) else steps
    with tqdm(total=total, initial=first, unit="step") as progress:
        while len(history) < total:
            step = len(history) + 1
            batch = next(batches, None)
            if batch is None:
                raise ValueError(
                    f"batches: expected {total - first}, got {len(history) - first}"
                )
            # A loss that is not finite tells it better than a warning.
            with np.errstate(over="ignore", invalid="ignore"):
                loss, grads = loss_and_gradients(*batch)
                if not np.isfinite(loss):
                    raise ValueError(
                        f"loss at step {step}: expected a finite number, got {loss}"
                    )
                if schedule is not None:
                    optimizer.learning_rate = schedule(step)
                optimizer.step(grads, max_norm)
                del grads  # before the next ones are computed
            history.append({"step": step, "loss": float(loss)})
            if after_step is not None:
                after_step(history)
            if callable(steps):
                progress.total = total = steps(history)
            progress.set_postfix(loss=f"{loss:.4g}", refresh=False)
            progress.update()
    return history
