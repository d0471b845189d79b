"""How the learning rate changes from step to step."""

from transformer_core.foundation.checks import check_positive, check_whole


def warmup_stable_decay(
    step: int, steps: int, peak: float, warmup: int = 0, decay: int = 0
) -> float:
    r"""Rise linearly to the peak, stay there, and fall linearly (eq:warmup-stable-decay).

    .. math:: \eta_t = \eta_{\max} \min\Bigl(1, \frac{t}{N_{\text{warmup}}},
              \frac{N + 1 - t}{N_{\text{decay}}}\Bigr), \qquad t = 1, \dots, N

    A fraction with the denominator 0 is left out. No step has the rate 0.

    Parameters
    ----------
    step, steps : int
        t and N.
    peak : float
    warmup, decay : int
        Steps of the rise and of the fall.

    Returns
    -------
    float
        The learning rate of this step.

    Raises
    ------
    ValueError
        If ``step`` is not one of 1 to ``steps``, ``peak`` is not positive and finite, or
        ``warmup`` or ``decay`` is not a whole number of at least 0.
    """
    check_whole("steps", steps, least=1)
    check_whole("step", step)
    if not 1 <= step <= steps:
        raise ValueError(f"step: expected one of 1 to {steps}, got {step}")
    check_positive("peak", peak)
    check_whole("warmup", warmup)
    check_whole("decay", decay)
    rise = step / warmup if warmup else 1
    fall = (steps + 1 - step) / decay if decay else 1
    return peak * min(1, rise, fall)
