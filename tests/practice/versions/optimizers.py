"""The steps of the optimisers as another reader writes them."""

import numpy as np


class SGD:
    def update(self, name, parameter, grad, v=None):
        if v is None:
            parameter[...] = parameter - self.learning_rate * grad
            return
        v[...] = self.momentum * v + grad
        parameter[...] = parameter - self.learning_rate * v


class Adam:
    def update(self, name, parameter, grad, m, v):
        t = self.steps
        m[:] = self.beta1 * m + (1 - self.beta1) * grad
        v[:] = self.beta2 * v + (1 - self.beta2) * grad**2
        m_hat = m / (1 - self.beta1**t)
        v_hat = v / (1 - self.beta2**t)
        parameter -= self.learning_rate * m_hat / (np.sqrt(v_hat) + self.eps)


class AdamW:
    def update(self, name, parameter, grad, m, v):
        t = self.steps
        kind = name.rsplit(".", 1)[-1]
        m += (1 - self.beta1) * (grad - m)
        v += (1 - self.beta2) * (grad * grad - v)
        direction = m / (1 - self.beta1**t)
        direction /= (v / (1 - self.beta2**t)) ** 0.5 + self.eps
        if kind not in self.undecayed:
            direction = direction + self.weight_decay * parameter
        parameter -= self.learning_rate * direction


class Muon:
    def turn(self, parameter, grad, b):
        m = self.momentum * b + grad if self.nesterov else b
        fan_in, fan_out = m.shape
        x = m / (np.linalg.norm(m) or 1)
        for _ in range(self.iterations):
            if fan_in <= fan_out:
                a = x @ x.T
                x = 3.4445 * x - 4.775 * a @ x + 2.0315 * a @ a @ x
            else:
                a = x.T @ x
                x = 3.4445 * x - 4.775 * x @ a + 2.0315 * x @ a @ a
        rate = self.learning_rate
        parameter -= rate * self.weight_decay * parameter
        parameter -= rate * np.sqrt(max(1, fan_out / fan_in)) * x


class Orthogonal:
    def forward(matrix, iterations=5, coefficients=(3.4445, -4.7750, 2.0315)):
        if not matrix.any():
            return np.zeros(matrix.shape)
        a, b, c = coefficients
        x = matrix / np.abs(matrix).max()
        x = x / np.sqrt((x * x).sum())
        for _ in range(iterations):
            s = x @ x.T
            x = a * x + b * s @ x + c * s @ s @ x
        return x


class Clipping:
    def forward(grads, max_norm):
        total = 0.0
        for grad in grads.values():
            total += np.sum(np.asarray(grad, float) ** 2)
        norm = float(np.sqrt(total))
        clipped = {}
        for name, grad in grads.items():
            clipped[name] = grad * (max_norm / norm) if norm > max_norm else 1.0 * grad
        return clipped, norm


class Schedule:
    def forward(step, steps, peak, warmup=0, decay=0):
        rate = peak
        if warmup > 0:
            rate = min(rate, peak * step / warmup)
        if decay > 0:
            rate = min(rate, peak * (steps - step + 1) / decay)
        return rate


RIGHT = {
    "SGD": [SGD],
    "Adam": [Adam],
    "AdamW": [AdamW],
    "Muon": [Muon],
    "orthogonalize": [Orthogonal],
    "clip_by_global_norm": [Clipping],
    "warmup_stable_decay": [Schedule],
}

PLANTED = [
    (
        Orthogonal,
        "muon-wrong-side",
        {"s = x @ x.T": "s = x.T @ x"},
    ),
    (
        SGD,
        "sgd-velocity-never-decays",
        {"self.momentum * v + grad": "v + self.momentum * grad"},
    ),
    (
        Adam,
        "adam-no-bias-correction",
        {"m / (1 - self.beta1**t)": "m", "v / (1 - self.beta2**t)": "v"},
    ),
    (
        Adam,
        "adam-corrects-its-state",
        {
            "m_hat = m / (1 - self.beta1**t)": "m /= 1 - self.beta1**t\n        m_hat = m"
        },
    ),
    (
        Adam,
        "adam-corrects-its-state",
        {
            "m_hat = m / (1 - self.beta1**t)": "m /= 1 - self.beta1**t\n        m_hat = m",
            "v_hat = v / (1 - self.beta2**t)": "v /= 1 - self.beta2**t\n        v_hat = v",
        },
    ),
    (
        Adam,
        "adam-eps-inside-the-root",
        {"(np.sqrt(v_hat) + self.eps)": "np.sqrt(v_hat + self.eps)"},
    ),
    (
        AdamW,
        "adam-no-bias-correction",
        {"m / (1 - self.beta1**t)": "m.copy()", "(v / (1 - self.beta2**t))": "v"},
    ),
    (
        AdamW,
        "adamw-decay-in-the-gradient",
        {
            "        m += ": (
                "        if kind not in self.undecayed:\n"
                "            grad = grad + self.weight_decay * parameter\n"
                "        m += "
            ),
            (
                "        if kind not in self.undecayed:\n"
                "            direction = direction + self.weight_decay * "
                "parameter\n"
            ): "",
        },
    ),
    (
        AdamW,
        "adamw-decay-without-the-rate",
        {
            (
                "            direction = direction + self.weight_decay * parameter"
            ): "            parameter -= self.weight_decay * parameter"
        },
    ),
    (
        AdamW,
        "adamw-everything-decays",
        {
            (
                "        if kind not in self.undecayed:\n            direction"
            ): "        if True:\n            direction"
        },
    ),
    (
        AdamW,
        "adamw-beta-decayed",
        {"kind not in self.undecayed": "kind not in ('bias', 'gamma')"},
    ),
    (Muon, "muon-scale-upside-down", {"fan_out / fan_in": "fan_in / fan_out"}),
    (Muon, "muon-wrong-side", {"a = x @ x.T": "a = (x.T @ x)[: len(x), : len(x)]"}),
    (
        Clipping,
        "clipping-each-array",
        {
            "            clipped[name] = ": (
                "            norm = np.linalg.norm(grad)\n            clipped[name] = "
            ),
            "return clipped, norm": "return clipped, float(np.sqrt(total))",
        },
    ),
    (Clipping, "clipping-lengthens", {" if norm > max_norm else 1.0 * grad": ""}),
    (
        Schedule,
        "schedule-from-zero",
        {"peak * step / warmup": "peak * (step - 1) / warmup"},
    ),
    (Schedule, "schedule-ends-at-zero", {"(steps - step + 1)": "(steps - step)"}),
    (Adam, "adam-no-bias-correction", {"m / (1 - self.beta1**t)": "m"}),
    (
        AdamW,
        "adamw-decay-in-the-gradient",
        {
            "        m += ": (
                "        if kind not in self.undecayed:\n"
                "            grad = grad + self.weight_decay * parameter\n"
                "        m += "
            ),
            "self.weight_decay * parameter\n        parameter -=": (
                "0 * parameter\n        parameter -="
            ),
        },
    ),
    (AdamW, "adamw-everything-decays", {"if kind not in self.undecayed": "if kind"}),
    (SGD, "sgd-velocity-never-decays", {"self.momentum * v + grad": "v + grad"}),
    (
        Schedule,
        "schedule-from-zero",
        {"peak * step / warmup": "peak * (step - 1) / max(1, warmup)"},
    ),
]

UNKNOWN = [
    (Orthogonal, "the fifth power is forgotten", {" + c * s @ s @ x": ""}),
    (
        SGD,
        "up the gradient",
        {"parameter - self.learning_rate * v": "parameter + self.learning_rate * v"},
    ),
    (Adam, "the first moment is squared", {"* m_hat /": "* m_hat**2 /"}),
    (Adam, "no root", {"np.sqrt(v_hat)": "v_hat"}),
    (
        AdamW,
        "weights grow",
        {"direction + self.weight_decay": "direction - self.weight_decay"},
    ),
    (
        Muon,
        "no momentum",
        {"m = self.momentum * b + grad if self.nesterov else b": "m = grad"},
    ),
    (
        Clipping,
        "the factor is squared",
        {"(max_norm / norm)": "(max_norm / norm) ** 2"},
    ),
    (
        Schedule,
        "the rate falls as a square",
        {
            "peak * (steps - step + 1) / decay": "peak * ((steps - step + 1) / decay) ** 2"
        },
    ),
]
