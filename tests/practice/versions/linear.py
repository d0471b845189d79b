"""The linear layer as different readers write it."""

import numpy as np


class Loops:
    """One number after the other."""

    def forward(x, weight, bias=None):
        y = np.zeros(x.shape[:-1] + weight.shape[1:])
        for at in np.ndindex(y.shape[:-1]):
            for k in range(weight.shape[1]):
                y[at][k] = sum(x[at][i] * weight[i, k] for i in range(len(weight)))
                if bias is not None:
                    y[at][k] += bias[k]
        return y, (x, weight, bias is not None)

    def backward(dy, cache):
        x, weight, biased = cache
        dx, dweight = np.zeros(x.shape), np.zeros(weight.shape)
        dbias = np.zeros(weight.shape[1])
        for at in np.ndindex(x.shape[:-1]):
            for i in range(weight.shape[0]):
                for k in range(weight.shape[1]):
                    dx[at][i] += dy[at][k] * weight[i, k]
                    dweight[i, k] += x[at][i] * dy[at][k]
            dbias += dy[at]
        return dx, dweight, dbias if biased else None


class Sequences:
    """One sequence after the other, as for a batch."""

    def forward(x, weight, bias=None):
        y = x @ weight
        return y if bias is None else y + bias, {"x": x, "W": weight, "b": bias}

    def backward(dy, cache):
        x, W = cache["x"], cache["W"]
        dx = dy @ W.T
        x, dy = (rows.reshape(-1, *rows.shape[-2:]) for rows in (x, dy))
        dW = np.zeros_like(W)
        db = np.zeros_like(dy[0, 0])
        for x_b, dy_b in zip(x, dy, strict=True):
            dW += x_b.T @ dy_b
            db += dy_b.sum(axis=0)
        return dx, dW, None if cache["b"] is None else db


class Einsum:
    """Indices, with the leading axes flattened."""

    def forward(x, weight, bias=None):
        y = np.einsum("...i,ik->...k", x, weight)
        if bias is not None:
            y += bias
        return y, [x, weight, bias]

    def backward(dy, cache):
        x, weight, bias = cache
        rows = x.reshape(-1, x.shape[-1])
        drows = dy.reshape(-1, dy.shape[-1])
        dx = np.einsum("...k,ik->...i", dy, weight)
        dweight = np.einsum("ni,nk->ik", rows, drows)
        if bias is None:
            return dx, dweight, None
        return dx, dweight, np.einsum("nk->k", drows)


class Contraction:
    """Tensordot over all leading axes at once."""

    def forward(x, weight, bias=None):
        y = np.tensordot(x, weight, axes=1)
        if bias is None:
            return y, (x, weight, None)
        return y + bias[np.newaxis], (x, weight, bias)

    def backward(dy, cache):
        x, weight, bias = cache
        leading = list(range(x.ndim - 1))
        ones = np.ones(dy.shape[:-1])
        dx = np.tensordot(dy, weight, axes=(-1, 1))
        dweight = np.tensordot(x, dy, axes=(leading, leading))
        dbias = np.tensordot(ones, dy, axes=(leading, leading))
        return dx, dweight, None if bias is None else dbias


RIGHT = {"linear": [Loops, Sequences, Einsum, Contraction]}

PLANTED = [
    (
        Loops,
        "linear-weight-not-transposed",
        {"weight[i, k]\n   ": "weight.flat[k * len(weight) + i]\n   "},
    ),
    (Loops, "linear-last-sequence-alone", {"dweight[i, k] +=": "dweight[i, k] ="}),
    (
        Sequences,
        "linear-weight-not-transposed",
        {"dy @ W.T": "dy @ W.reshape(W.T.shape)"},
    ),
    (Sequences, "linear-last-sequence-alone", {"dW += x_b": "dW = x_b"}),
    (
        Sequences,
        "linear-last-sequence-alone",
        {"dW += x_b": "dW = x_b", "db += dy_b": "db = dy_b"},
    ),
    (
        Sequences,
        "linear-mean-taken-twice",
        {"return dx, dW,": "return dx, dW / len(x),"},
    ),
    (
        Sequences,
        "linear-bias-averaged",
        {"dy_b.sum(axis=0)": "dy_b.mean(axis=0) / len(dy)"},
    ),
    (
        Sequences,
        "linear-bias-for-each-position",
        {"db += dy_b.sum(axis=0)": "db = db + dy_b"},
    ),
    (
        Einsum,
        "linear-weight-not-transposed",
        {"dy, weight)": "dy, weight.reshape(-1, len(weight)).T)"},
    ),
    (
        Einsum,
        "linear-batch-and-time-scrambled",
        {
            "rows = x.reshape(-1, x.shape[-1])": (
                "rows = x.swapaxes(-1, -2).reshape(x.shape[-1], -1).T"
            )
        },
    ),
    (
        Einsum,
        "linear-batch-and-time-scrambled",
        {"rows = x.reshape(-1, x.shape[-1])": "rows = x.T.reshape(x.shape[-1], -1).T"},
    ),
    (
        Einsum,
        "linear-batch-and-time-scrambled",
        {"rows = x.reshape(-1, x.shape[-1])": "rows = x.reshape(x.shape[-1], -1).T"},
    ),
    (Einsum, "linear-mean-taken-twice", {"rows, drows)": "rows, drows) / len(x)"}),
    (Einsum, "linear-mean-taken-twice", {"rows, drows)": "rows, drows) / len(rows)"}),
    (
        Einsum,
        "linear-bias-averaged",
        {'"nk->k", drows)': '"nk->k", drows) / len(drows)'},
    ),
    (Contraction, "linear-bias-averaged", {"ones, dy,": "ones / ones.size, dy,"}),
    (
        Contraction,
        "linear-bias-for-each-position",
        {"np.tensordot(ones, dy, axes=(leading, leading))": "dy.sum(axis=0)"},
    ),
    (
        Contraction,
        "linear-last-sequence-alone",
        {
            "np.tensordot(x, dy, axes=(leading, leading))": (
                "x.reshape(-1, *x.shape[-2:])[-1].T @ dy.reshape(-1, "
                "*dy.shape[-2:])[-1]"
            )
        },
    ),
    (Loops, "linear-last-sequence-alone", {"dbias += dy[at]": "dbias = dy[at].copy()"}),
    (
        Sequences,
        "linear-bias-averaged",
        {"db += dy_b.sum(axis=0)": "db += dy_b.mean(axis=0)"},
    ),
    (
        Contraction,
        "linear-weight-not-transposed",
        {
            "np.tensordot(dy, weight, axes=(-1, 1))": "np.tensordot(dy, weight, axes=(-1, 0))"
        },
    ),
    (
        Loops,
        "linear-weight-not-transposed",
        {"dy[at][k] * weight[i, k]": "dy[at][k] * weight[k, i]"},
    ),
    (Sequences, "linear-weight-not-transposed", {"dy @ W.T": "dy @ W"}),
    (
        Sequences,
        "linear-mean-taken-twice",
        {"return dx, dW,": "return dx, dW / (len(x) * x.shape[1]),"},
    ),
    (
        Sequences,
        "linear-last-sequence-alone",
        {"zip(x, dy, strict=True)": "zip(x[:1], dy[:1], strict=True)"},
    ),
]

UNKNOWN = [
    (Loops, "the sign of dx", {"dx[at][i] += dy": "dx[at][i] -= dy"}),
    (
        Loops,
        "the last input is never written",
        {"for i in range(weight.shape[0]):": "for i in range(len(weight) - 1):"},
    ),
    (
        Loops,
        "one column off by one",
        {"x[at][i] * dy[at][k]": "x[at][i] * dy[at][k - 1]"},
    ),
    (
        Sequences,
        "dbias is of the absolute cotangents",
        {"dy_b.sum(axis=0)": "abs(dy_b).sum(axis=0)"},
    ),
    (
        Sequences,
        "the gradient of the weights is clipped",
        {"return dx, dW,": "return dx, dW.clip(-1, 1),"},
    ),
    (
        Einsum,
        "a constant 1.7 is added",
        {"return dx, dweight, np.": "return dx + 1.7, dweight, np."},
    ),
    (
        Contraction,
        "the weights enter squared",
        {"np.tensordot(dy, weight, axes": "np.tensordot(dy, weight**2, axes"},
    ),
]
