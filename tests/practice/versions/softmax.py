"""Softmax and its logarithm as different readers write them."""

import math

import numpy as np


class Rows:
    """Rows and numbers in plain Python."""

    def forward(x, keep=None):
        keep = np.broadcast_to(True if keep is None else keep, x.shape)
        a = np.zeros(x.shape)
        for at in np.ndindex(x.shape[:-1]):
            kept = [
                j for j, score in enumerate(x[at]) if keep[at][j] and score > -np.inf
            ]
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


RIGHT = {
    "softmax": [Rows, Jacobian, Whole],
    "log_softmax": [LogRows, LogSumExp, LogShifted],
}

PLANTED = [
    (Rows, "softmax-no-coupling", {"(delta - a[at][i])": "delta"}),
    (Rows, "softmax-no-coupling", {"(delta - a[at][i])": "delta * (1 - a[at][i])"}),
    (
        Rows,
        "softmax-row-sum",
        {
            "da[at][j] * a[at][j] * (delta - a[at][i])": "a[at][i] * da[at][j] * (delta - a[at][i])"
        },
    ),
    (
        Rows,
        "softmax-mask-inverted",
        {"if keep is None else keep": "if keep is None else ~keep"},
    ),
    (
        Rows,
        "softmax-over-the-queries",
        {
            "    keep = ": "    x = x.swapaxes(-1, -2)\n        keep = ",
            "return a, a": "return a.swapaxes(-1, -2).copy(), a.swapaxes(-1, -2).copy()",
            "np.broadcast_to(True if keep is None else keep, x.shape)": (
                "np.broadcast_to(True if keep is None else keep, "
                "x.swapaxes(-1, -2).shape).swapaxes(-1, -2)"
            ),
        },
    ),
    (Rows, "softmax-no-shift", {"top = max(x[at][j] for j in kept)": "top = 0"}),
    (Jacobian, "softmax-no-coupling", {" - a[..., None] * a[..., None, :]": ""}),
    (
        Jacobian,
        "softmax-no-coupling",
        {
            "(jacobian @ da[..., None])[..., 0]": "np.einsum('...ii->...i', jacobian) * da"
        },
    ),
    (
        Jacobian,
        "softmax-row-sum",
        {"a[..., None] * a[..., None, :]": "(a * a)[..., None]"},
    ),
    (Jacobian, "softmax-row-sum", {"a[..., None] * a[..., None, :]": "a[..., None]"}),
    (Jacobian, "softmax-mask-finite", {"-np.inf)\n": "-1e9)\n"}),
    (Jacobian, "softmax-mask-inverted", {"keep, x, -np.inf": "keep, -np.inf, x"}),
    (Jacobian, "softmax-no-shift", {"np.where(np.isfinite(top), top, 0)": "0"}),
    (
        Jacobian,
        "softmax-shift-of-the-whole-array",
        {"z.max(axis=-1, keepdims=True)": "z.max()"},
    ),
    (Jacobian, "softmax-over-the-queries", {"e.sum(axis=-1": "e.sum(axis=-2"}),
    (
        Jacobian,
        "softmax-mask-after",
        {
            "x if keep is None else np.where(keep, x, -np.inf)": "x",
            "np.where(total == 0, 1, total)": "total * (1 if keep is None else keep)",
        },
    ),
    (
        Whole,
        "softmax-no-coupling",
        {"        dx -= a * dx.sum(axis=-1, keepdims=True)\n": ""},
    ),
    (
        Whole,
        "softmax-no-coupling",
        {
            "dx = a * da\n        dx -= a * dx.sum(axis=-1, keepdims=True)": "dx = a * (1 - a) * da"
        },
    ),
    (Whole, "softmax-no-coupling", {"dx.sum(axis=-1, keepdims=True)": "dx"}),
    (
        Whole,
        "softmax-row-sum",
        {"dx.sum(axis=-1, keepdims=True)": "da.sum(axis=-1, keepdims=True)"},
    ),
    (
        Whole,
        "softmax-row-sum",
        {
            "a * dx.sum(axis=-1, keepdims=True)": "a * a * da.sum(axis=-1, keepdims=True)"
        },
    ),
    (
        Whole,
        "softmax-mask-after",
        {
            "np.where(keep, x - top, 0)) * keep": "x - x.max(axis=-1, keepdims=True))",
            "return a, (a,)": "a = a * keep\n        return a, (a,)",
        },
    ),
    (
        Whole,
        "softmax-mask-inverted",
        {
            "keep = np.isfinite(x) & (True if keep is None else keep)": (
                "keep = np.isfinite(x) & (True if keep is None else ~keep)"
            )
        },
    ),
    (Whole, "softmax-over-the-queries", {"e.sum(axis=-1": "e.sum(axis=-2"}),
    (
        Whole,
        "softmax-cotangent-overwritten",
        {"dx = a * da": "dx = da\n        dx *= a"},
    ),
    (
        Whole,
        "softmax-scores-overwritten",
        {"np.where(keep, x - top, 0)": "np.where(keep, np.subtract(x, top, out=x), 0)"},
    ),
    (
        LogShifted,
        "softmax-shift-of-the-whole-array",
        {"x.max(axis=-1, keepdims=True)": "x.max()"},
    ),
    (
        Jacobian,
        "softmax-mask-finite",
        {"np.where(keep, x, -np.inf)": "np.where(keep, x, -1e4)"},
    ),
    (
        Jacobian,
        "softmax-mask-finite",
        {"np.where(keep, x, -np.inf)": "np.where(keep, x, np.finfo(float).min)"},
    ),
    (
        Jacobian,
        "softmax-mask-finite",
        {"np.where(keep, x, -np.inf)": "x + np.where(keep, 0, -1e9)"},
    ),
    (
        Jacobian,
        "softmax-mask-inverted",
        {"np.where(keep, x, -np.inf)": "x + np.where(keep, -np.inf, 0)"},
    ),
    (
        Rows,
        "softmax-mask-after",
        {
            "if keep[at][j] and score > -np.inf": "if score > -np.inf",
            "return a, a\n": "a *= keep\n        return a, a\n",
        },
    ),
    (
        Rows,
        "softmax-shift-of-the-whole-array",
        {"max(x[at][j] for j in kept)": "x.max()"},
    ),
    (
        Whole,
        "softmax-row-sum",
        {"dx.sum(axis=-1, keepdims=True)": "np.einsum('...s->...', da)[..., None]"},
    ),
    (
        Rows,
        "softmax-row-sum",
        {"* a[at][j] * (delta - a[at][i])": "* (a[at][j] * delta - a[at][i] ** 2)"},
    ),
]

UNKNOWN = [
    (Rows, "the sign of the coupling", {"(delta - a": "(delta + a"}),
    (
        Rows,
        "the last row alone is right",
        {
            "for at in np.ndindex(a.shape[:-1])": "for at in [tuple(n - 1 for n in a.shape[:-1])]"
        },
    ),
    (
        Jacobian,
        "the coupling counts half",
        {"- a[..., None] * a": "- 0.5 * a[..., None] * a"},
    ),
    (
        Jacobian,
        "the cotangent is normalised",
        {"@ da[..., None])": "@ (da / np.linalg.norm(da))[..., None])"},
    ),
    (Jacobian, "a temperature of 2", {"e = np.exp(z -": "e = np.exp(0.5 * z - 0.5 *"}),
    (
        Whole,
        "the coupling runs over the other axis",
        {"dx.sum(axis=-1, keepdims": "dx.sum(axis=-2, keepdims"},
    ),
    (Whole, "the weights enter squared", {"dx = a * da": "dx = a**2 * da"}),
    (
        LogSumExp,
        "the logarithm to the base 2",
        {"return x - np": "return 1.4426950408889634 * x - np"},
    ),
    (LogShifted, "the logarithm is added", {"shifted - np.log": "shifted + np.log"}),
]
