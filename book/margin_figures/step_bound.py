"""Adam on gradients that grow: every step is as long as the bound allows."""

import numpy as np
from graphs import number
from margin_figures import Sketch

from transformer_core.optim import Adam

beta1, beta2, steps = 0.9, 0.999, 3000
theta = {"x": np.zeros(1)}
adam = Adam(theta, learning_rate=1.0, beta1=beta1, beta2=beta2, eps=1e-300)
path = [0.0]
for t in range(steps):
    adam.step({"x": np.array([(beta2 / beta1) ** t])})
    path.append(theta["x"].item())
lengths = np.abs(np.diff(path))
limit = (1 - beta1) / np.sqrt((1 - beta2) * (1 - beta1**2 / beta2))

t = np.arange(1, steps + 1)
powers = 10.0 ** np.arange(4)
sketch = Sketch(x=(-0.65, 3.5), y=(-1.1, 8), height=110)
sketch.thin([0, 0, 3.5], [8, 0, 0])
sketch.dashed([0, 3.5], [limit, limit])
sketch.dashed([0, 3.5], [1, 1])
sketch.line(np.log10(t), lengths, "blue")
sketch.text(0, limit, f"{limit:.2f}", "soft", (-3, 4), "end")
sketch.text(0, 1, "1", "soft", (-3, 4), "end")
for power in powers:
    sketch.text(np.log10(power), 0, f"{power:.0f}", "soft", (0, 13))
sketch.alt = (
    f"The lengths of {steps} steps of Adam in learning rates, on gradients that grow by "
    f"{100 * (beta2 / beta1 - 1):.0f} % a step: from {number(lengths[0])} up "
    f"to {lengths[-1]:.2f}, below {limit:.2f}."
)
