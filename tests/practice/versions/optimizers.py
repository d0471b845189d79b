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


class MuonScale:
    """By the ratio of the widths."""

    def forward(width_in, width_out, convention):
        if convention == "match_rms_adamw":
            return 0.2 * np.sqrt(max(width_in, width_out))
        ratio = width_out / width_in
        return np.sqrt(ratio) if ratio > 1 else 1.0


RIGHT = {
    "SGD": [SGD],
    "Adam": [Adam],
    "AdamW": [AdamW],
    "Muon": [Muon],
    "muon_scale": [MuonScale],
    "orthogonalize": [Orthogonal],
    "clip_by_global_norm": [Clipping],
    "warmup_stable_decay": [Schedule],
}
