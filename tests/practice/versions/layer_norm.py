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


RIGHT = {"layer_norm": [Loops, Jacobian, Staged, Einsum]}

PLANTED = [
    (
        Loops,
        "layer-norm-gamma-outside",
        {
            "gamma[i] * dy[at][i] for": "dy[at][i] for",
            "* mean_gx) / std": "* mean_gx) * gamma[i] / std",
        },
    ),
    (Loops, "layer-norm-no-mean-term", {"(g[i] - mean_g - ": "(g[i] - "}),
    (Loops, "layer-norm-no-variance-term", {" - x_hat[at][i] * mean_gx)": ")"}),
    (
        Loops,
        "layer-norm-scale-term-alone",
        {" - mean_g - x_hat[at][i] * mean_gx)": ")"},
    ),
    (Loops, "layer-norm-mean-not-summed", {"(g[i] - mean_g ": "(g[i] - g[i] / D "}),
    (
        Loops,
        "layer-norm-gamma-reads-the-output",
        {"+= dy[at][i] * x_hat[at][i]": "+= g[i] * x_hat[at][i]"},
    ),
    (
        Loops,
        "layer-norm-unbiased-variance",
        {"for number in row) / D\n": "for number in row) / (D - 1)\n"},
    ),
    (
        Loops,
        "layer-norm-eps-outside-the-root",
        {"math.sqrt(var + eps)": "math.sqrt(var) + eps"},
    ),
    (Loops, "layer-norm-eps-of-bert", {"1e-5": "1e-12"}),
    (
        Jacobian,
        "layer-norm-gamma-outside",
        {"jacobian, dy * gamma)": "jacobian, dy) * gamma"},
    ),
    (
        Jacobian,
        "layer-norm-no-mean-term",
        {"np.eye(D) - np.ones((D, D)) / D - outer": "np.eye(D) - outer"},
    ),
    (Jacobian, "layer-norm-no-variance-term", {" - outer / D": ""}),
    (
        Jacobian,
        "layer-norm-scale-term-alone",
        {" - np.ones((D, D)) / D - outer / D": ""},
    ),
    (
        Jacobian,
        "layer-norm-mean-not-summed",
        {"np.ones((D, D)) / D - outer": "np.eye(D) / D - outer"},
    ),
    (
        Jacobian,
        "layer-norm-gamma-reads-the-output",
        {
            "np.diag(rows.T @ x_hat.reshape(-1, D))": (
                "gamma * np.diag(rows.T @ x_hat.reshape(-1, D))"
            )
        },
    ),
    (
        Jacobian,
        "layer-norm-unbiased-variance",
        {"centred, centred) / D": "centred, centred) / (D - 1)"},
    ),
    (
        Jacobian,
        "layer-norm-eps-outside-the-root",
        {"(var + eps) ** -0.5": "1 / (var**0.5 + eps)"},
    ),
    (
        Staged,
        "layer-norm-gamma-outside",
        {
            'dxhat = dy * cache["gamma"]': "dxhat = dy",
            "return dx, dg": 'return dx * cache["gamma"], dg',
        },
    ),
    (Staged, "layer-norm-no-mean-term", {" + dmu / N": ""}),
    (Staged, "layer-norm-no-variance-term", {" + dvar * 2 * xmu / N": ""}),
    (Staged, "layer-norm-scale-term-alone", {" + dvar * 2 * xmu / N + dmu / N": ""}),
    (
        Staged,
        "layer-norm-mean-not-summed",
        {"(-dxhat / std).sum(axis=-1, keepdims=True)": "-dxhat / std"},
    ),
    (
        Staged,
        "layer-norm-gamma-reads-the-output",
        {
            "(dy * xhat)": "(dxhat * xhat)",
            "dxhat = dy": "_ = dy",
            "dbeta = dy": 'dxhat = dy * cache["gamma"]\n        dbeta = dy',
        },
    ),
    (Staged, "layer-norm-gamma-reads-the-output", {"(dy * xhat)": '(dy * cache["y"])'}),
    (
        Staged,
        "layer-norm-two-axes-assumed",
        {"axes = tuple(range(dy.ndim - 1))": "axes = 0"},
    ),
    (
        Staged,
        "layer-norm-unbiased-variance",
        {
            "(xmu**2).mean(axis=-1, keepdims=True)": "x.var(axis=-1, ddof=1, keepdims=True)"
        },
    ),
    (
        Staged,
        "layer-norm-unbiased-variance",
        {
            "(xmu**2).mean(axis=-1, keepdims=True)": "x.var(axis=-1, ddof=1, keepdims=True)",
            "* 2 * xmu / N +": "* 2 * xmu / (N - 1) +",
        },
    ),
    (
        Staged,
        "layer-norm-eps-outside-the-root",
        {"np.sqrt(var + eps)": "np.sqrt(var) + eps"},
    ),
    (
        Staged,
        "layer-norm-centred-in-place",
        {"xmu = x - mu": "x -= mu\n        xmu = x"},
    ),
    (
        Einsum,
        "layer-norm-gamma-outside",
        {
            "(D * g - first - x_hat * second) * (r": (
                "(D * g - gamma * first - gamma * x_hat * second) * (r"
            ),
            'first = np.einsum("...d->...", g)': 'first = np.einsum("...d->...", dy)',
            '->...", g, x_hat)': '->...", dy, x_hat)',
        },
    ),
    (Einsum, "layer-norm-no-mean-term", {"(D * g - first - ": "(D * g - "}),
    (Einsum, "layer-norm-no-variance-term", {" - x_hat * second)": ")"}),
    (
        Einsum,
        "layer-norm-scale-term-alone",
        {"(D * g - first - x_hat * second)": "(D * g)"},
    ),
    (Einsum, "layer-norm-mean-not-summed", {"(D * g - first ": "(D * g - g "}),
    (
        Einsum,
        "layer-norm-two-axes-assumed",
        {
            (
                'np.einsum("nd,nd->d", flat, flat_hat), np.einsum("nd->d", flat)'
            ): "(dy * x_hat).sum(axis=0), dy.sum(axis=0)"
        },
    ),
    (
        Einsum,
        "layer-norm-gamma-reads-the-output",
        {"flat, flat_hat)": "flat, flat_hat * gamma)"},
    ),
    (
        Loops,
        "layer-norm-two-axes-assumed",
        {"return dx, dgamma, dbeta": "return dx, (dy * x_hat).sum(axis=0), dbeta"},
    ),
    (
        Staged,
        "layer-norm-two-axes-assumed",
        {"axes = tuple(range(dy.ndim - 1))": "axes = (0, 1)"},
    ),
    (
        Loops,
        "layer-norm-no-variance-term",
        {"mean_gx = sum(g[i] * x_hat[at][i] for i in range(D)) / D": "mean_gx = 0"},
    ),
    (Staged, "layer-norm-no-variance-term", {"        dvar = ": "        dvar = 0 * "}),
    (
        Einsum,
        "layer-norm-unbiased-variance",
        {"centred, centred) / D": "centred, centred) / (D - 1)"},
    ),
    (
        Einsum,
        "layer-norm-eps-outside-the-root",
        {"1 / np.sqrt(variance + eps)": "1 / (np.sqrt(variance) + eps)"},
    ),
    (
        Einsum,
        "layer-norm-gamma-reads-the-output",
        {"flat, flat_hat), np": "flat, (x_hat * gamma).reshape(-1, D)), np"},
    ),
    (
        Jacobian,
        "layer-norm-gamma-outside",
        {"jacobian, dy * gamma)": "jacobian * gamma, dy)"},
    ),
]

UNKNOWN = [
    (Loops, "the mean term is added", {"(g[i] - mean_g - ": "(g[i] + mean_g - "}),
    (
        Loops,
        "dgamma and dbeta change places",
        {"return dx, dgamma, dbeta": "return dx, dbeta, dgamma"},
    ),
    (
        Loops,
        "the standard deviation squared",
        {"* mean_gx) / std[at]": "* mean_gx) / std[at] ** 2"},
    ),
    (
        Staged,
        "beta is added twice",
        {"gamma * xhat + beta\n": "gamma * xhat + 2 * beta\n"},
    ),
    (
        Staged,
        "the root of the variance is differentiated without its half",
        {"-0.5 / std": "-1.0 / std"},
    ),
    (
        Staged,
        "the mean runs over the positions",
        {"mu = x.mean(axis=-1, keepdims=True)": "mu = x.mean(axis=-2, keepdims=True)"},
    ),
    (
        Einsum,
        "the last row is not multiplied by gamma",
        {"        first = ": "        g[-1, -1] = dy[-1, -1]\n        first = "},
    ),
    (
        Einsum,
        "noise of one in a thousand",
        {"return dx, np": "return dx + 1e-3 * np.sin(1e4 * dy), np"},
    ),
    (
        Einsum,
        "the sign of dbeta",
        {'np.einsum("nd->d", flat)': '-np.einsum("nd->d", flat)'},
    ),
]
