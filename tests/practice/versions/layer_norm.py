"""Layer normalisation as different readers write it."""

import math

import numpy as np


class Loops:
    """One row after the other, in plain Python."""

    def forward(x, gamma, beta, eps=1e-5):
        D = x.shape[-1]
        y, x_hat = np.zeros(x.shape), np.zeros(x.shape)
        std = np.zeros(x.shape[:-1])
        for at in np.ndindex(std.shape):
            row = [float(number) for number in x[at]]
            mu = sum(row) / D
            var = sum((number - mu) ** 2 for number in row) / D
            std[at] = math.sqrt(var + eps)
            for i in range(D):
                x_hat[at][i] = (row[i] - mu) / std[at]
                y[at][i] = gamma[i] * x_hat[at][i] + beta[i]
        return y, (x_hat, std, gamma)

    def backward(dy, cache):
        x_hat, std, gamma = cache
        D = len(gamma)
        dx, dgamma, dbeta = np.zeros(dy.shape), np.zeros(D), np.zeros(D)
        for at in np.ndindex(std.shape):
            g = [gamma[i] * dy[at][i] for i in range(D)]
            mean_g = sum(g) / D
            mean_gx = sum(g[i] * x_hat[at][i] for i in range(D)) / D
            for i in range(D):
                dx[at][i] = (g[i] - mean_g - x_hat[at][i] * mean_gx) / std[at]
                dgamma[i] += dy[at][i] * x_hat[at][i]
                dbeta[i] += dy[at][i]
        return dx, dgamma, dbeta


class Jacobian:
    """The Jacobian matrix of the normalisation, written out."""

    def forward(x, gamma, beta, eps=1e-5):
        D = x.shape[-1]
        centring = np.eye(D) - np.ones((D, D)) / D
        centred = x @ centring
        var = np.einsum("...i,...i->...", centred, centred) / D
        inv = (var + eps) ** -0.5
        x_hat = centred * inv[..., None]
        return x_hat * gamma + beta, (x_hat, inv, gamma)

    def backward(dy, cache):
        x_hat, inv, gamma = cache
        D = x_hat.shape[-1]
        outer = x_hat[..., :, None] * x_hat[..., None, :]
        jacobian = np.eye(D) - np.ones((D, D)) / D - outer / D
        jacobian = jacobian * inv[..., None, None]
        dx = np.einsum("...ij,...i->...j", jacobian, dy * gamma)
        rows = dy.reshape(-1, D)
        dgamma = np.diag(rows.T @ x_hat.reshape(-1, D))
        dbeta = np.ones(len(rows)) @ rows
        return dx, dgamma, dbeta


class Staged:
    """Back through the graph of the forward pass, one node at a time."""

    def forward(x, gamma, beta, eps=1e-5):
        mu = x.mean(axis=-1, keepdims=True)
        xmu = x - mu
        var = (xmu**2).mean(axis=-1, keepdims=True)
        std = np.sqrt(var + eps)
        xhat = xmu / std
        y = gamma * xhat + beta
        cache = {"xmu": xmu, "std": std, "xhat": xhat, "gamma": gamma, "y": y}
        return y, cache

    def backward(dy, cache):
        xmu, std, xhat = cache["xmu"], cache["std"], cache["xhat"]
        N = dy.shape[-1]
        axes = tuple(range(dy.ndim - 1))
        dbeta = dy.sum(axis=axes)
        dgamma = (dy * xhat).sum(axis=axes)
        dxhat = dy * cache["gamma"]
        dvar = (dxhat * xmu * -0.5 / std**3).sum(axis=-1, keepdims=True)
        dmu = (-dxhat / std).sum(axis=-1, keepdims=True)
        dmu += dvar * (-2 * xmu).mean(axis=-1, keepdims=True)
        dx = dxhat / std + dvar * 2 * xmu / N + dmu / N
        return dx, dgamma, dbeta


class Einsum:
    """Subscripts, and one common denominator D."""

    def forward(x, gamma, beta, eps=1e-5):
        D = x.shape[-1]
        mean = np.einsum("...d->...", x) / D
        centred = x - mean[..., None]
        variance = np.einsum("...d,...d->...", centred, centred) / D
        r = 1 / np.sqrt(variance + eps)
        x_hat = np.einsum("...d,...->...d", centred, r)
        y = np.einsum("...d,d->...d", x_hat, gamma) + beta
        return y, [x_hat, r, gamma]

    def backward(dy, cache):
        x_hat, r, gamma = cache
        D = len(gamma)
        g = np.einsum("...d,d->...d", dy, gamma)
        first = np.einsum("...d->...", g)[..., None]
        second = np.einsum("...d,...d->...", g, x_hat)[..., None]
        dx = (D * g - first - x_hat * second) * (r / D)[..., None]
        flat, flat_hat = dy.reshape(-1, D), x_hat.reshape(-1, D)
        return dx, np.einsum("nd,nd->d", flat, flat_hat), np.einsum("nd->d", flat)


class RmsLoops:
    """RMSNorm, one row after the other, in plain Python."""

    def forward(x, gamma, eps=1e-5):
        D = x.shape[-1]
        y, x_hat, rms = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape[:-1])
        for at in np.ndindex(rms.shape):
            rms[at] = math.sqrt(sum(float(number) ** 2 for number in x[at]) / D + eps)
            for i in range(D):
                x_hat[at][i] = x[at][i] / rms[at]
                y[at][i] = gamma[i] * x_hat[at][i]
        return y, (x_hat, rms, gamma)

    def backward(dy, cache):
        x_hat, rms, gamma = cache
        D = len(gamma)
        dx, dgamma = np.zeros(dy.shape), np.zeros(D)
        for at in np.ndindex(rms.shape):
            g = [gamma[i] * dy[at][i] for i in range(D)]
            along = sum(g[i] * x_hat[at][i] for i in range(D)) / D
            for i in range(D):
                dx[at][i] = (g[i] - along * x_hat[at][i]) / rms[at]
                dgamma[i] += dy[at][i] * x_hat[at][i]
        return dx, dgamma


class RmsQuotient:
    """RMSNorm by the quotient rule, from x itself."""

    def forward(x, gamma, eps=1e-5):
        r = np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
        return gamma * x / r, (x, r, gamma)

    def backward(dy, cache):
        x, r, gamma = cache
        g = gamma * dy
        dr = -np.sum(g * x, axis=-1, keepdims=True) / r**2
        dx = g / r + dr * x / (x.shape[-1] * r)
        return dx, np.sum((dy * x / r).reshape(-1, x.shape[-1]), axis=0)


class RmsJacobian:
    """RMSNorm with the Jacobian matrix of every row."""

    def forward(x, gamma, eps=1e-5):
        inv = (np.einsum("...i,...i->...", x, x) / x.shape[-1] + eps) ** -0.5
        x_hat = x * inv[..., None]
        return x_hat * gamma, (x_hat, inv, gamma)

    def backward(dy, cache):
        x_hat, inv, gamma = cache
        D = x_hat.shape[-1]
        outer = x_hat[..., :, None] * x_hat[..., None, :]
        jacobian = (np.eye(D) - outer / D) * inv[..., None, None]
        dx = np.einsum("...ij,...i->...j", jacobian, dy * gamma)
        return dx, np.einsum("ni,ni->i", dy.reshape(-1, D), x_hat.reshape(-1, D))


RIGHT = {
    "layer_norm": [Loops, Jacobian, Staged, Einsum],
    "rms_norm": [RmsLoops, RmsQuotient, RmsJacobian],
}
