"""LoRA and the mean of a sequence as different readers write them."""

import numpy as np


class TwoLinear:
    """Two matrix products, flattened, with a name for what is between them."""

    def forward(x, a, b, alpha):
        rows = x.reshape(-1, x.shape[-1])
        u = rows @ a
        s = alpha / a.shape[1]
        y = s * (u @ b)
        return y.reshape(*x.shape[:-1], -1), (x.shape, rows, u, a, b, s)

    def backward(dy, cache):
        shape, rows, u, a, b, s = cache
        drows = s * dy.reshape(-1, dy.shape[-1])
        du = drows @ b.T
        return (du @ a.T).reshape(shape), rows.T @ du, u.T @ drows


class ProductFirst:
    """The change of W as one matrix, whose gradient is seen through A and B."""

    def forward(x, a, b, alpha):
        scale = alpha / len(b)
        change = scale * a @ b
        return x @ change, (x, a, b, scale, change)

    def backward(dy, cache):
        x, a, b, scale, change = cache
        leading = list(range(x.ndim - 1))
        dchange = np.tensordot(x, dy, axes=(leading, leading))
        return dy @ change.T, scale * dchange @ b.T, scale * a.T @ dchange


class Indices:
    """Einsum with a letter for the rank."""

    def forward(x, a, b, alpha):
        scale = alpha / a.shape[-1]
        return scale * np.einsum("...i,ir,rk->...k", x, a, b), [x, a, b, scale]

    def backward(dy, cache):
        x, a, b, scale = cache
        dx = np.einsum("...k,rk,ir->...i", dy, b, a)
        x, dy = x.reshape(-1, len(a)), dy.reshape(-1, b.shape[1])
        da = np.einsum("ni,nk,rk->ir", x, dy, b)
        db = np.einsum("ni,ir,nk->rk", x, a, dy)
        return scale * dx, scale * da, scale * db


class OneByOne:
    """The sum of r products of a column and a row, position by position."""

    def forward(x, a, b, alpha):
        rank = a.shape[1]
        y = np.zeros((*x.shape[:-1], b.shape[1]))
        for at in np.ndindex(x.shape[:-1]):
            for k in range(rank):
                y[at] += x[at] @ a[:, k] * b[k] * alpha / rank
        return y, dict(x=x, a=a, b=b, scale=alpha / rank)

    def backward(dy, cache):
        x, a, b, scale = cache.values()
        dx, da, db = np.zeros_like(x), np.zeros_like(a), np.zeros_like(b)
        for at in np.ndindex(x.shape[:-1]):
            for k in range(a.shape[1]):
                share = scale * dy[at] @ b[k]
                dx[at] += share * a[:, k]
                da[:, k] += share * x[at]
                db[k] += scale * (x[at] @ a[:, k]) * dy[at]
        return dx, da, db


class Weights:
    """A weight for each row, 0 for padding."""

    def forward(x, keep):
        weights = keep / np.maximum(keep.sum(axis=1, keepdims=True), 1)
        return np.einsum("bt,btd->bd", weights, x), weights

    def backward(dy, weights):
        return weights[:, :, None] * dy[:, None]


class SumAndCount:
    """The sum of what is kept, by their number."""

    def forward(x, keep):
        mask = keep[..., np.newaxis]
        number = mask.sum(axis=1).clip(min=1)
        return (x * mask).sum(axis=1) / number, (mask, number)

    def backward(dy, cache):
        mask, number = cache
        return np.where(mask, (dy / number)[:, np.newaxis], 0.0)


class Sequences:
    """One sequence after the other."""

    def forward(x, keep):
        y = np.zeros((len(x), x.shape[2]))
        for b in range(len(x)):
            if keep[b].any():
                y[b] = x[b, keep[b]].mean(axis=0)
        return y, keep

    def backward(dy, keep):
        dx = np.zeros((*keep.shape, dy.shape[-1]))
        for b, row in enumerate(keep):
            dx[b, row] = dy[b] / max(row.sum(), 1)
        return dx


class TwoPaths:
    """The frozen layer, and beside it the adapter."""

    def forward(self, x):
        y = x @ self.linear.weight
        if self.linear.bias is not None:
            y = y + self.linear.bias
        u = x @ self.a
        return y + self.scale * (u @ self.b), (x, u)

    def backward(self, dy, cache):
        x, u = cache
        du = self.scale * (dy @ self.b.T)
        dx = dy @ self.linear.weight.T + du @ self.a.T
        x, u, dy, du = (z.reshape(-1, z.shape[-1]) for z in (x, u, dy, du))
        return dx, {"a": x.T @ du, "b": self.scale * (u.T @ dy)}


class OneWeight:
    """The sum of both as one matrix, as when it is merged."""

    def forward(self, x):
        w = self.linear.weight + self.scale * self.a @ self.b
        bias = 0 if self.linear.bias is None else self.linear.bias
        return x @ w + bias, {"x": x, "w": w}

    def backward(self, dy, cache):
        x, w = cache["x"], cache["w"]
        dw = np.einsum("bti,btk->ik", x, dy)
        grads = {"b": self.scale * self.a.T @ dw, "a": self.scale * dw @ self.b.T}
        return dy @ w.T, grads


RIGHT = {
    "low_rank": [TwoLinear, ProductFirst, Indices, OneByOne],
    "mean_pool": [Weights, SumAndCount, Sequences],
    "LoraLinear": [TwoPaths, OneWeight],
}
