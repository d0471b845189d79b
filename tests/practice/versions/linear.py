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
