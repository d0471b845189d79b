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
