"""The activations as different readers write them."""

import math

import numpy as np
from scipy.special import erf, expit
from scipy.stats import norm


class ReluLoops:
    """One number after the other."""

    def forward(x):
        y = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            if x[at] > 0:
                y[at] = x[at]
        return y, x.copy()

    def backward(dy, x):
        dx = np.zeros(dy.shape)
        for at in np.ndindex(x.shape):
            if x[at] > 0:
                dx[at] = dy[at]
        return dx


class ReluMaximum:
    """The larger of x and 0; the output is all that the backward pass needs."""

    def forward(x):
        y = np.maximum(0, x)
        return y, {"y": y}

    def backward(dy, cache):
        return np.where(cache["y"] > 0, dy, 0)


class ReluStep:
    """A product with the derivative."""

    def forward(x):
        return np.where(x > 0, x, 0.0), (x,)

    def backward(dy, cache):
        (x,) = cache
        return np.heaviside(x, 0) * dy


class ReluCopy:
    """A copy whose negative entries are set to 0."""

    def forward(x):
        silent = ~(x > 0)
        y = np.array(x)
        y[silent] = 0
        return y, silent

    def backward(dy, silent):
        dx = np.array(dy)
        dx[silent] = 0
        return dx


class GeluLoops:
    """One number after the other, with the error function of Python."""

    def forward(x):
        y = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            y[at] = x[at] * 0.5 * (1 + math.erf(x[at] / math.sqrt(2)))
        return y, x

    def backward(dy, x):
        dx = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            cdf = 0.5 * (1 + math.erf(x[at] / math.sqrt(2)))
            pdf = math.exp(-0.5 * x[at] ** 2) / math.sqrt(2 * math.pi)
            dx[at] = dy[at] * (cdf + x[at] * pdf)
        return dx


class GeluNormal:
    """The normal distribution of SciPy."""

    def forward(x):
        return x * norm.cdf(x), {"x": x}

    def backward(dy, cache):
        x = cache["x"]
        slope = norm.cdf(x) + x * norm.pdf(x)
        return slope * dy


class GeluStored:
    """The slope is stored in the forward pass."""

    def forward(x):
        gate = 0.5 + 0.5 * erf(x * 0.5**0.5)
        slope = gate + x * np.exp(-0.5 * np.square(x)) * (2 * np.pi) ** -0.5
        return gate * x, slope

    def backward(dy, slope):
        return np.multiply(dy, slope)


class TanhLoops:
    """One number after the other."""

    def forward(x):
        y = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            u = math.sqrt(2 / math.pi) * (x[at] + 0.044715 * x[at] ** 3)
            y[at] = 0.5 * x[at] * (1 + math.tanh(u))
        return y, x

    def backward(dy, x):
        dx = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            u = math.sqrt(2 / math.pi) * (x[at] + 0.044715 * x[at] ** 3)
            t = math.tanh(u)
            du = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x[at] ** 2)
            dx[at] = dy[at] * (0.5 * (1 + t) + 0.5 * x[at] * (1 - t**2) * du)
        return dx


class TanhChain:
    """The chain rule, one step a line."""

    def forward(x):
        c = np.sqrt(2 / np.pi)
        inner = c * (x + 0.044715 * x**3)
        t = np.tanh(inner)
        return 0.5 * x * (1.0 + t), (x, t, c)

    def backward(dy, cache):
        x, t, c = cache
        dt = dy * 0.5 * x
        dinner = dt * (1 - t * t)
        dx = dy * 0.5 * (1 + t)
        dx = dx + dinner * c
        dx = dx + dinner * c * 0.044715 * 3 * x**2
        return dx


class TanhSigmoid:
    """The gate as a logistic function of 2u."""

    def forward(x):
        u = np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)
        gate = 1 / (1 + np.exp(-np.clip(u, -500, 500)))
        return x * gate, (x, gate)

    def backward(dy, cache):
        x, gate = cache
        slope = np.sqrt(8 / np.pi) * (1 + 0.134145 * x**2)
        return dy * (gate + x * gate * (1 - gate) * slope)


class SiluExpit:
    """SciPy's logistic function; the backward pass computes it again."""

    def forward(x):
        return x * expit(x), x

    def backward(dy, x):
        s = expit(x)
        return dy * (s + x * s * (1 - s))


class SiluOutput:
    """The derivative with the output: s + y (1 - s)."""

    def forward(x):
        s = 0.5 * np.tanh(0.5 * x) + 0.5
        y = s * x
        return y, (y, s)

    def backward(dy, cache):
        y, s = cache
        return (y + s * (1 - y)) * dy


class SiluLoops:
    """One number after the other, with an exponential that never is that of a large number."""

    def forward(x):
        s = np.empty(x.shape)
        for at in np.ndindex(x.shape):
            small = math.exp(-abs(x[at]))
            s[at] = (1 if x[at] >= 0 else small) / (1 + small)
        return s * x, (x, s)

    def backward(dy, cache):
        x, s = cache
        dx = np.empty(x.shape)
        for at in np.ndindex(x.shape):
            dx[at] = dy[at] * s[at] + dy[at] * x[at] * s[at] * (1 - s[at])
        return dx


class TanhNumpy:
    """NumPy's function, the input kept and the output computed again."""

    def forward(x):
        return np.tanh(x), x

    def backward(dy, x):
        y = np.tanh(x)
        return dy * (1 - y**2)


class TanhExponentials:
    """With exponentials that cannot overflow; the slope in one factor."""

    def forward(x):
        small = np.exp(-2 * np.abs(x))
        y = np.sign(x) * (1 - small) / (1 + small)
        return y, y

    def backward(dy, y):
        return dy - dy * y * y


class TanhProduct:
    """The slope as the product of (1 - y) and (1 + y)."""

    def forward(x):
        y = np.tanh(x)
        return y, (1 - y, 1 + y)

    def backward(dy, cache):
        below, above = cache
        return dy * below * above


RIGHT = {
    "tanh": [TanhNumpy, TanhExponentials, TanhProduct],
    "relu": [ReluLoops, ReluMaximum, ReluStep, ReluCopy],
    "gelu": [GeluLoops, GeluNormal, GeluStored],
    "gelu_tanh": [TanhLoops, TanhChain, TanhSigmoid],
    "silu": [SiluExpit, SiluOutput, SiluLoops],
}
