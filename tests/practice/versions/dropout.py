"""Dropout as different readers write it: each draws as the package does."""

import numpy as np


class Loops:
    """One number after the other."""

    def forward(x, rate, rng):
        factor = np.ones(x.shape)
        if rng is not None and rate > 0:
            draws = rng.random(x.shape, np.float32)
            for at in np.ndindex(x.shape):
                factor[at] = 1 / (1 - rate) if draws[at] >= rate else 0
        return x * factor, factor

    def backward(dy, factor):
        dx = np.zeros(dy.shape)
        for at in np.ndindex(dy.shape):
            dx[at] = dy[at] * factor[at]
        return dx


class Scaled:
    """A mask that is divided by 1 - p."""

    def forward(x, rate, rng):
        if rng is None or not rate:
            return x.copy(), None
        mask = (rng.random(x.shape, np.float32) >= rate) / (1 - rate)
        return x * mask, mask

    def backward(dy, mask):
        return dy.copy() if mask is None else dy * mask


class Chosen:
    """Where what is kept stands."""

    def forward(x, rate, rng):
        if rng is None or rate == 0:
            return x, {"kept": ..., "q": 1.0, "shape": x.shape}
        q = 1 - rate
        kept = np.nonzero(rng.random(x.shape, np.float32) >= rate)
        y = np.zeros_like(x)
        y[kept] = x[kept] / q
        return y, {"kept": kept, "q": q, "shape": x.shape}

    def backward(dy, cache):
        dx = np.zeros(cache["shape"])
        dx[cache["kept"]] = dy[cache["kept"]] / cache["q"]
        return dx


RIGHT = {"dropout": [Loops, Scaled, Chosen]}
