"""Attention as different readers write it: dropout draws as the package does."""

import math

import numpy as np


class Queries:
    """One query after the other, with the Jacobian matrix of its softmax."""

    def forward(query, key, value, keep=None, rate=0, rng=None):
        shape = (*query.shape[:-1], key.shape[-2])
        keep = np.broadcast_to(True if keep is None else keep, shape)
        scale = 1 / math.sqrt(query.shape[-1])
        weights, factor = np.zeros(shape), np.ones(shape)
        if rng is not None and rate:
            factor = (rng.random(shape, np.float32) >= rate) / (1 - rate)
        output = np.zeros((*query.shape[:-1], value.shape[-1]))
        for at in np.ndindex(shape[:-1]):
            *head, t = at
            head = tuple(head)
            scores = scale * (key[head] @ query[at])
            scores[~keep[at]] = -np.inf
            if keep[at].any():
                exponentials = np.exp(scores - scores.max())
                weights[at] = exponentials / exponentials.sum()
            output[at] = (factor[at] * weights[at]) @ value[head]
        return output, (query, key, value, weights, factor, scale)

    def backward(doutput, cache):
        query, key, value, weights, factor, scale = cache
        dquery, dkey = np.zeros(query.shape), np.zeros(key.shape)
        dvalue = np.zeros(value.shape)
        for at in np.ndindex(weights.shape[:-1]):
            head = at[:-1]
            a = weights[at]
            dvalue[head] += np.outer(factor[at] * a, doutput[at])
            da = factor[at] * (value[head] @ doutput[at])
            dscores = (np.diag(a) - np.outer(a, a)) @ da
            dquery[at] = scale * (dscores @ key[head])
            dkey[head] += scale * np.outer(dscores, query[at])
        return dquery, dkey, dvalue


class Einsum:
    """Indices t and s, over any leading axes."""

    def forward(query, key, value, keep=None, rate=0, rng=None):
        scores = np.einsum("...tk,...sk->...ts", query, key) / np.sqrt(query.shape[-1])
        if keep is not None:
            scores = np.where(keep, scores, -np.inf)
        top = scores.max(axis=-1, keepdims=True)
        e = np.exp(scores - np.where(np.isfinite(top), top, 0))
        total = np.einsum("...ts->...t", e)[..., None]
        A = e / (total + (total == 0))
        M = 1.0
        if rng is not None and rate > 0:
            M = (rng.random(A.shape, np.float32) >= rate) / (1 - rate)
        output = np.einsum("...ts,...sv->...tv", A * M, value)
        return output, {"Q": query, "K": key, "V": value, "A": A, "M": M}

    def backward(doutput, cache):
        Q, K, V = cache["Q"], cache["K"], cache["V"]
        A, M = cache["A"], cache["M"]
        dV = np.einsum("...ts,...tv->...sv", A * M, doutput)
        dA = np.einsum("...tv,...sv->...ts", doutput, V) * M
        coupling = np.einsum("...ts,...ts->...t", dA, A)
        dS = A * (dA - coupling[..., None])
        dQ = np.einsum("...ts,...sk->...tk", dS, K) / np.sqrt(K.shape[-1])
        dK = np.einsum("...ts,...tk->...sk", dS, Q) / np.sqrt(K.shape[-1])
        return dQ, dK, dV


class Matrices:
    """Products of matrices; the scale is applied to the queries; an additive mask."""

    def forward(query, key, value, keep=None, rate=0, rng=None):
        root = query.shape[-1] ** 0.5
        q = query / root
        bias = 0.0 if keep is None else np.where(keep, 0.0, -np.inf)
        s = q @ np.swapaxes(key, -1, -2) + bias
        alive = np.isfinite(s).any(axis=-1, keepdims=True)
        s = np.where(alive, s, 0.0)
        s = s - s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p = p / p.sum(axis=-1, keepdims=True) * alive
        drop = None
        dropped = p
        if rng is not None and rate > 0:
            drop = rng.random(p.shape, np.float32) < rate
            dropped = np.where(drop, 0, p / (1 - rate))
        o = dropped @ value
        return o, (q, key, value, p, dropped, drop, rate, root, o)

    def backward(doutput, cache):
        q, key, value, p, dropped, drop, rate, root, o = cache
        dvalue = np.swapaxes(dropped, -1, -2) @ doutput
        dp = doutput @ np.swapaxes(value, -1, -2)
        if drop is not None:
            dp = np.where(drop, 0, dp / (1 - rate))
        delta = (doutput * o).sum(axis=-1, keepdims=True)
        ds = p * dp - p * delta
        dquery = ds @ key / root
        dkey = np.swapaxes(ds, -1, -2) @ q
        return dquery, dkey, dvalue


RIGHT = {
    "attention": [Queries, Einsum, Matrices],
    "attention_with_dropout": [Queries, Einsum, Matrices],
}
DROPPED = "attention_with_dropout"

PLANTED = [
    (
        Queries,
        "attention-scale-forgotten-backward",
        {
            "scale * (dscores @ key": "1 * (dscores @ key",
            "scale * np.outer(ds": "1 * np.outer(ds",
        },
    ),
    (
        Queries,
        "attention-scale-forgotten",
        {"scale = 1 / math.sqrt(query.shape[-1])": "scale = 1"},
    ),
    (
        Queries,
        "attention-dropout-not-in-the-values",
        {"np.outer(factor[at] * a, doutput": "np.outer(a, doutput"},
        DROPPED,
    ),
    (
        Queries,
        "attention-dropout-not-in-the-weights",
        {"da = factor[at] * (": "da = ("},
        DROPPED,
    ),
    (Queries, "softmax-no-coupling", {" - np.outer(a, a)) @ da": ") @ da"}),
    (
        Queries,
        "softmax-no-coupling",
        {"(np.diag(a) - np.outer(a, a)) @ da": "np.diag(a * (1 - a)) @ da"},
    ),
    (
        Queries,
        "softmax-row-sum",
        {"np.outer(a, a)) @ da": "np.outer(a * a, np.ones(len(a)))) @ da"},
    ),
    (
        Queries,
        "softmax-mask-inverted",
        {"if keep is None else keep": "if keep is None else ~keep"},
    ),
    (Queries, "softmax-no-shift", {"scores - scores.max()": "scores"}),
    (
        Einsum,
        "attention-scale-forgotten-backward",
        {
            "dS, K) / np.sqrt(K.shape[-1])": "dS, K)",
            "dS, Q) / np.sqrt(K.shape[-1])": "dS, Q)",
        },
    ),
    (
        Einsum,
        "attention-scale-forgotten-backward",
        {"dS, K) / np.sqrt(K.shape[-1])": "dS, K)"},
    ),
    (
        Einsum,
        "attention-scale-forgotten-backward",
        {"dS, Q) / np.sqrt(K.shape[-1])": "dS, Q)"},
    ),
    (
        Einsum,
        "attention-scale-forgotten",
        {
            "query, key) / np.sqrt(query.shape[-1])": "query, key)",
            "dS, K) / np.sqrt(K.shape[-1])": "dS, K)",
            "dS, Q) / np.sqrt(K.shape[-1])": "dS, Q)",
        },
    ),
    (
        Einsum,
        "attention-query-and-key-exchanged",
        {"return dQ, dK, dV": "return dK, dQ, dV"},
    ),
    (
        Einsum,
        "attention-dropout-not-in-the-values",
        {'"...ts,...tv->...sv", A * M': '"...ts,...tv->...sv", A'},
        DROPPED,
    ),
    (
        Einsum,
        "attention-dropout-not-in-the-weights",
        {"doutput, V) * M": "doutput, V)"},
        DROPPED,
    ),
    (Einsum, "softmax-no-coupling", {"(dA - coupling[..., None])": "dA"}),
    (Einsum, "softmax-row-sum", {'"...ts,...ts->...t", dA, A)': '"...ts->...t", dA)'}),
    (
        Einsum,
        "softmax-row-sum",
        {"(dA - coupling[..., None])": "(dA - A * dA.sum(axis=-1, keepdims=True))"},
    ),
    (Einsum, "softmax-mask-finite", {"-np.inf": "-1e9"}),
    (
        Einsum,
        "softmax-mask-inverted",
        {"np.where(keep, scores, -np.inf)": "np.where(keep, -np.inf, scores)"},
    ),
    (
        Einsum,
        "softmax-mask-after",
        {
            (
                "        if keep is not None:\n"
                "            scores = np.where(keep, scores, -np.inf)\n"
            ): "",
            "A = e / (total + (total == 0))": "A = e / total * (1 if keep is None else keep)",
        },
    ),
    (
        Einsum,
        "softmax-over-the-queries",
        {'"...ts->...t", e)[..., None]': '"...ts->...s", e)[..., None, :]'},
    ),
    (
        Einsum,
        "softmax-shift-of-the-whole-array",
        {"scores.max(axis=-1, keepdims=True)": "scores.max()"},
    ),
    (
        Matrices,
        "attention-scale-forgotten-backward",
        {"ds @ key / root": "ds @ key", "-2) @ q\n": "-2) @ (q * root)\n"},
    ),
    (
        Matrices,
        "attention-scale-forgotten",
        {"root = query.shape[-1] ** 0.5": "root = 1"},
    ),
    (
        Matrices,
        "attention-query-and-key-exchanged",
        {"return dquery, dkey, dvalue": "return dkey, dquery, dvalue"},
    ),
    (
        Matrices,
        "attention-key-not-transposed",
        {"np.swapaxes(ds, -1, -2) @ q": "ds @ q"},
    ),
    (
        Matrices,
        "attention-dropout-not-in-the-values",
        {"np.swapaxes(dropped, -1": "np.swapaxes(p, -1"},
        DROPPED,
    ),
    (
        Matrices,
        "attention-dropout-not-in-the-weights",
        {
            (
                "        if drop is not None:\n"
                "            dp = np.where(drop, 0, dp / (1 - rate))\n"
            ): ""
        },
        DROPPED,
    ),
    (Matrices, "softmax-no-coupling", {"p * dp - p * delta": "p * dp"}),
    (Matrices, "softmax-no-coupling", {"p * dp - p * delta": "p * (1 - p) * dp"}),
    (
        Matrices,
        "softmax-row-sum",
        {"p * dp - p * delta": "p * dp - p * dp.sum(axis=-1, keepdims=True)"},
    ),
    (
        Matrices,
        "softmax-mask-inverted",
        {"np.where(keep, 0.0, -np.inf)": "np.where(keep, -np.inf, 0.0)"},
    ),
    (
        Einsum,
        "attention-key-not-transposed",
        {'"...ts,...tk->...sk", dS, Q': '"...st,...tk->...sk", dS, Q'},
    ),
    (
        Queries,
        "attention-key-not-transposed",
        {
            "dkey[head] += scale * np.outer(dscores, query[at])": (
                "dkey[at] += scale * (dscores @ query[head])"
            )
        },
    ),
    (
        Queries,
        "attention-query-and-key-exchanged",
        {"return dquery, dkey, dvalue": "return dkey, dquery, dvalue"},
    ),
    (
        Einsum,
        "attention-scale-forgotten",
        {
            "np.sqrt(query.shape[-1])": "1.0",
            "dS, K) / np.sqrt(K.shape[-1])": "dS, K)",
            "dS, Q) / np.sqrt(K.shape[-1])": "dS, Q)",
        },
    ),
    (Matrices, "attention-scale-forgotten-backward", {"ds @ key / root": "ds @ key"}),
    (
        Matrices,
        "softmax-row-sum",
        {"p * dp - p * delta": "p * (dp - p * dp.sum(axis=-1, keepdims=True))"},
    ),
    (
        Matrices,
        "softmax-mask-finite",
        {"np.where(keep, 0.0, -np.inf)": "np.where(keep, 0.0, -1e9)"},
    ),
    (
        Queries,
        "softmax-mask-finite",
        {
            "scores[~keep[at]] = -np.inf": "scores[~keep[at]] = -1e9",
            "            if keep[at].any():\n                exponentials": (
                "            if True:\n                exponentials"
            ),
        },
    ),
    (
        Einsum,
        "softmax-over-the-queries",
        {
            "scores.max(axis=-1": "scores.max(axis=-2",
            '"...ts->...t", e)[..., None]': '"...ts->...s", e)[..., None, :]',
        },
    ),
]

UNKNOWN = [
    (
        Queries,
        "the scale is that of the values",
        {"math.sqrt(query.shape[-1])": "math.sqrt(value.shape[-1])"},
    ),
    (
        Queries,
        "the last query is left out of the keys",
        {"dkey[head] += scale": "dkey[head] += (at[-1] + 1 < query.shape[-2]) * scale"},
    ),
    (
        Queries,
        "the weights are averaged in the values' gradient",
        {
            "dvalue[head] += np.outer(factor[at] * a,": (
                "dvalue[head] += np.outer(factor[at] * (a + 1) / 2,"
            )
        },
    ),
    (
        Einsum,
        "the scale is squared in the backward pass of the queries",
        {"dS, K) / np.sqrt(K.shape[-1])": "dS, K) / K.shape[-1]"},
    ),
    (Einsum, "the coupling is added", {"(dA - coupling": "(dA + coupling"}),
    (
        Matrices,
        "masked entries have a small gradient",
        {"ds = p * dp - p * delta": "ds = p * dp - p * delta + 1e-2 * (p == 0)"},
    ),
    (
        Matrices,
        "the gradient of the values is transposed in time",
        {"@ doutput\n        dp": "@ doutput[..., ::-1, :]\n        dp"},
    ),
]
