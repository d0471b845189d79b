"""The training loop."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np

from transformer_core.foundation.checks import check_kind, check_whole
from transformer_core.optim.optimizer import Optimizer, Pieces
from transformer_core.training.blas import one_blas_thread as blas_of_one_thread


def train(
    model: Any,
    optimizer: Optimizer,
    batches: Iterable[tuple],
    steps: int | Callable[[list], int],
    *,
    seed: int = 0,
    schedule: Callable[[int], float] | None = None,
    max_norm: float | None = None,
    history: list[dict] | None = None,
    after_step: Callable[[list], None] | None = None,
    progress: bool = True,
    one_blas_thread: bool = True,
) -> list[dict]:
    """Step the optimiser along the gradients of one batch after another.

    Parameters
    ----------
    model : model, scheme over ranks, or callable
        ``model.loss_and_gradients(*batch, rng=rng)`` returns the loss and a gradient for every
        parameter of ``optimizer``; or that function itself. The generator draws what is dropped.
    optimizer : Optimizer
        Built from ``model.parameters``. Those of a scheme whose ranks have parts of the gradients
        are ``Pieces``, which bring the scheme's norm.
    batches : iterable of tuple
        At least as many as there are steps to take.
    steps : int or callable
        Train until the history is this long. ``steps(history)``, asked again after every step,
        may be an estimate until it is reached.
    seed : int
        Each step has a generator of its own, which depends on the seed and the step alone: a
        training that goes on from its history drops what it would have dropped.
    schedule : callable, optional
        ``schedule(step)`` is the learning rate of the steps 1, 2, ... Default: the optimiser's.
    max_norm : float, optional
        The largest norm of all gradients of a step together; longer ones are clipped. Default:
        none.
    history : list of dict, optional
        Earlier records to go on from. One record ``{"step": ..., "loss": ...}`` per step is
        appended to it, so that it holds them also when training ends early. Default: empty.
    after_step : callable, optional
        Called with ``history`` after each step, for instance to save, or to add a measure to the
        newest record.
    progress : bool
        Whether to show a progress bar.
    one_blas_thread : bool
        Multiply matrices in one thread meanwhile, where threadpoolctl is installed: in several,
        a small model takes many times the processor's time, and no less of yours. False leaves
        the threads as they are, for products that are large.

    Returns
    -------
    history : list of dict

    Raises
    ------
    ValueError
        If the loss is not finite, the model refuses the batch, or the optimiser the gradients or
        the learning rate, naming the step; the parameters are left as they were before it. If
        numbers overflow in the optimiser, also naming the step; the parameters are of no use then.
        Or if the batches run out, or the optimiser does not measure by the norm of a scheme.
    """
    from tqdm import tqdm

    loss_and_gradients = getattr(model, "loss_and_gradients", model)
    check_norm(model, optimizer)

    if not callable(steps):
        check_whole("steps", steps)
    check_whole("seed", seed)
    check_kind("batches", batches, Iterable)
    history = check_kind("history", [] if history is None else history, list)
    first = len(history)
    batches = iter(batches)
    total = steps(history) if callable(steps) else steps
    shown: dict = {} if progress else {"disable": True}
    blas = blas_of_one_thread() if one_blas_thread else nullcontext()
    with blas, tqdm(total=total, initial=first, unit="step", **shown) as bar:
        while len(history) < total:
            step = len(history) + 1
            batch = next(batches, None)
            if batch is None:
                raise ValueError(
                    f"batches: expected {total - first}, got {len(history) - first}"
                )
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(step,)))
            try:
                # What is not finite in the end is an error: it tells it better than a warning.
                with np.errstate(over="ignore", invalid="ignore"):
                    loss, grads = loss_and_gradients(*batch, rng=rng)
                if not np.isfinite(loss):
                    raise ValueError(f"loss: expected a finite number, got {loss}")
                if schedule is not None:
                    optimizer.learning_rate = schedule(step)
                with np.errstate(over="raise", invalid="raise"):
                    optimizer.step(grads, max_norm)
            except ValueError as error:
                raise ValueError(f"step {step}: {error}") from error
            except FloatingPointError as error:
                raise ValueError(
                    f"step {step}: expected finite parameters and averages, got {error}; "
                    "some of them have changed"
                ) from error
            del grads  # before the next ones are computed
            history.append({"step": step, "loss": float(loss)})
            if after_step is not None:
                after_step(history)
            if callable(steps):
                bar.total = total = steps(history)
            bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
            bar.update()
    return history


def check_norm(model, optimizer):
    """Raise ``ValueError`` if the optimiser would clip by the norm of this rank's pieces alone."""
    pieces = getattr(model, "parameters", dict)()
    if isinstance(pieces, Pieces) and optimizer.norm != pieces.norm:
        raise ValueError(
            "optimizer: expected one with the norm of the model, over all ranks, as it has if "
            f"it is built from model.parameters, got {optimizer.norm}"
        )
