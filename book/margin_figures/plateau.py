"""Warm-up, stable, decay: a bar for the rate of each step."""

from graphs import number
from margin_figures import Sketch

from transformer_core.optim import warmup_stable_decay

steps, warmup, decay = 24, 4, 6
rates = [warmup_stable_decay(t, steps, 1.0, warmup, decay) for t in range(1, steps + 1)]

sketch = Sketch(x=(0.5, steps + 0.5), y=(0, 1.3), height=76)
for t, rate in enumerate(rates, 1):
    sketch.bar(t, rate, 0.7, "blue")
for first, last, name in (
    (1, warmup, "rise"),
    (warmup + 1, steps - decay, "plateau"),
    (steps - decay + 1, steps, "fall"),
):
    sketch.text((first + last) / 2, 1, name, offset=(0, -7))
sketch.alt = (
    f"The rates of {steps} steps as bars: {warmup} that rise to the peak, "
    f"{rates.count(max(rates))} at the peak, and a fall over the last {decay}, which ends at "
    f"{number(rates[-1])} of it."
)
