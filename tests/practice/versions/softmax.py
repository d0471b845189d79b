"""Softmax and its logarithm as different readers write them."""

import math

import numpy as np


class Rows:
    """Rows and numbers in plain Python."""

    def forward(x, keep=None):
        keep = np.broadcast_to(True if keep is None else keep, x.shape)
        a = np.zeros(x.shape)
        for at in np.ndindex(x.shape[:-1]):
            kept = [j for j, score in enumerate(x[at]) if keep[at][j] and score > -np.inf]
            if kept:
                top = max(x[at][j] for j in kept)
                total = sum(math.exp(x[at][j] - top) for j in kept)
                for j in kept:
                    a[at][j] = math.exp(x[at][j] - top) / total
        return a, a

    def backward(da, a):
        dx = np.zeros(a.shape)
        for at in np.ndindex(a.shape[:-1]):
            for i in range(a.shape[-1]):
                for j in range(a.shape[-1]):
                    delta = 1 if i == j else 0
                    dx[at][i] += da[at][j] * a[at][j] * (delta - a[at][i])
        return dx


class Jacobian:
    """The Jacobian matrix of each row, written out."""

    def forward(x, keep=None):
        z = x if keep is None else np.where(keep, x, -np.inf)
        top = z.max(axis=-1, keepdims=True)
        e = np.exp(z - np.where(np.isfinite(top), top, 0))
        total = e.sum(axis=-1, keepdims=True)
        a = e / np.where(total == 0, 1, total)
        return a, {"a": a}

    def backward(da, cache):
        a = cache["a"]
        eye = np.eye(a.shape[-1])
        jacobian = a[..., None] * eye - a[..., None] * a[..., None, :]
        return (jacobian @ da[..., None])[..., 0]


class Whole:
    """Whole arrays: the mask multiplies the exponentials before they are summed."""

    def forward(x, keep=None):
        keep = np.isfinite(x) & (True if keep is None else keep)
        top = np.max(x, axis=-1, keepdims=True, where=keep, initial=-1e300)
        e = np.exp(np.where(keep, x - top, 0)) * keep
        total = e.sum(axis=-1, keepdims=True)
        a = np.divide(e, total, out=np.zeros_like(e), where=total != 0)
        return a, (a,)

    def backward(da, cache):
        (a,) = cache
        dx = a * da
        dx -= a * dx.sum(axis=-1, keepdims=True)
        return dx


class LogRows:
    """Rows in plain Python."""

    def forward(x):
        y = np.empty(x.shape)
        for at in np.ndindex(x.shape[:-1]):
            top = max(x[at])
            if top == -math.inf:
                y[at] = -math.inf
                continue
            total = sum(math.exp(score - top) for score in x[at])
            y[at] = [score - top - math.log(total) for score in x[at]]
        return y, y

    def backward(dy, y):
        dx = np.zeros(y.shape)
        for at in np.ndindex(y.shape[:-1]):
            for i in range(y.shape[-1]):
                for j in range(y.shape[-1]):
                    delta = 1 if i == j else 0
                    dx[at][i] += dy[at][j] * (delta - math.exp(y[at][i]))
        return dx


class LogSumExp:
    """Scores without the logarithm of their sum of exponentials."""

    def forward(x):
        total = np.logaddexp.reduce(x, axis=-1, keepdims=True)
        return x - np.where(np.isfinite(total), total, 0), (x, total)

    def backward(dy, cache):
        x, total = cache
        dtotal = -dy.sum(axis=-1, keepdims=True)
        return dy + np.exp(x - total) * dtotal


class LogShifted:
    """Shift, exponentiate, sum, subtract; the Jacobian matrix on the way back."""

    def forward(x):
        shifted = x - np.maximum(x.max(axis=-1, keepdims=True), -1e300)
        e = np.exp(shifted)
        total = e.sum(axis=-1, keepdims=True)
        total[total == 0] = 1
        return shifted - np.log(total), {"a": e / total}

    def backward(dy, cache):
        a = cache["a"]
        jacobian = np.eye(a.shape[-1]) - a[..., np.newaxis, :]
        return np.einsum("...ji,...j->...i", jacobian, dy)


RIGHT = {"softmax": [Rows, Jacobian, Whole], "log_softmax": [LogRows, LogSumExp, LogShifted]}
