"""Grouped queries, windows and caps as different readers write them."""

import math

import numpy as np

from transformer_core import ops
from transformer_core.ops import rms_norm, rms_norm_backward


class GroupedCopies:
    """A copy of keys and values for every head of queries."""

    def forward(query, key, value, keep=None):
        n = query.shape[1] // key.shape[1]
        k, v = np.repeat(key, n, axis=1), np.repeat(value, n, axis=1)
        output, cache = ops.attention(query, k, v, keep)
        return output, (cache, key.shape[1])

    def backward(doutput, cache):
        cache, groups = cache
        dquery, dk, dv = ops.attention_backward(doutput, cache)
        parts = [d.reshape(d.shape[0], groups, -1, *d.shape[2:]) for d in (dk, dv)]
        return dquery, *(part.sum(axis=2) for part in parts)


class GroupedLoops:
    """One head of queries after the other."""

    def forward(query, key, value, keep=None):
        B, H, T, _ = query.shape
        G, S = key.shape[1:3]
        allowed = np.broadcast_to(True if keep is None else keep, (B, H, T, S))
        outputs, caches = [], []
        for h in range(H):
            g = h // (H // G)
            output, cache = ops.attention(query[:, h], key[:, g], value[:, g], allowed[:, h])
            outputs.append(output)
            caches.append(cache)
        return np.stack(outputs, axis=1), (caches, key.shape, value.shape)

    def backward(doutput, cache):
        caches, key_shape, value_shape = cache
        dkey, dvalue, dqueries = np.zeros(key_shape), np.zeros(value_shape), []
        for h, own in enumerate(caches):
            g = h // (len(caches) // key_shape[1])
            dq, dk, dv = ops.attention_backward(doutput[:, h], own)
            dqueries.append(dq)
            dkey[:, g] += dk
            dvalue[:, g] += dv
        return np.stack(dqueries, axis=1), dkey, dvalue


class GroupedEinsum:
    """Five axes, and no copies."""

    def forward(query, key, value, keep=None):
        B, H, T, K = query.shape
        G, S = key.shape[1:3]
        q = query.reshape(B, G, H // G, T, K)
        scores = np.einsum("bgntk,bgsk->bgnts", q, key) / math.sqrt(K)
        if keep is not None:
            keep = np.broadcast_to(keep, (B, H, T, S)).reshape(scores.shape)
        A, softmax_cache = ops.softmax(scores, keep)
        output = np.einsum("bgnts,bgsv->bgntv", A, value)
        return output.reshape(B, H, T, -1), (q, key, value, A, softmax_cache)

    def backward(doutput, cache):
        q, key, value, A, softmax_cache = cache
        do = doutput.reshape(*q.shape[:4], -1)
        dA = np.einsum("bgntv,bgsv->bgnts", do, value)
        dS = ops.softmax_backward(dA, softmax_cache) / math.sqrt(q.shape[-1])
        dq = np.einsum("bgnts,bgsk->bgntk", dS, key)
        dk = np.einsum("bgnts,bgntk->bgsk", dS, q)
        dv = np.einsum("bgnts,bgntv->bgsv", A, do)
        return dq.reshape(*doutput.shape[:3], -1), dk, dv


class WindowLoops:
    """One pair after the other."""

    def forward(length, window):
        keep = np.zeros((length, length), bool)
        for t in range(length):
            for s in range(max(0, t - window + 1), t + 1):
                keep[t, s] = True
        return keep


class WindowCompare:
    """Distances."""

    def forward(length, window):
        distance = np.arange(length)[:, None] - np.arange(length)
        return (distance >= 0) & (distance < window)


class WindowTriangles:
    """One triangle without another."""

    def forward(length, window):
        ones = np.ones((length, length), bool)
        return np.tril(ones) & np.triu(ones, 1 - window)


class CapTanh:
    """The slope by tanh."""

    def forward(x, cap):
        t = np.tanh(x / cap)
        return cap * t, t

    def backward(dy, t):
        return dy * (1 - t**2)


class CapOutput:
    """The slope by the output."""

    def forward(x, cap):
        y = np.tanh(x / cap) * cap
        return y, (y, cap)

    def backward(dy, cache):
        y, cap = cache
        return dy - dy * (y / cap) ** 2


class CapCosh:
    """The slope by the hyperbolic cosine, for each number."""

    def forward(x, cap):
        y = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            y[at] = cap * math.tanh(x[at] / cap)
        return y, (x, cap)

    def backward(dy, cache):
        x, cap = cache
        slopes = [1 / math.cosh(min(abs(u / cap), 300)) ** 2 for u in x.flat]
        return dy * np.reshape(slopes, x.shape)


class NormLayers:
    """The two layers."""

    def forward(self, x, first=0):
        x, norm = self.norm.forward(x)
        y, rotary = self.rotary.forward(x, first)
        return y, (norm, rotary)

    def backward(self, dy, cache):
        norm, rotary = cache
        dx, _ = self.rotary.backward(dy, rotary)
        dx, grads = self.norm.backward(dx, norm)
        return dx, {"norm.gamma": grads["gamma"]}


class NormOps:
    """The operations that they are made of."""

    def forward(self, x, first=0):
        n, norm_cache = rms_norm(x, self.norm.gamma, self.norm.eps)
        t = np.arange(first, first + x.shape[-2])
        y, cache = ops.rotary(n, t, self.rotary.frequencies, self.rotary.halves)
        return y, [norm_cache, cache]

    def backward(self, dy, caches):
        dn = ops.rotary_backward(dy, caches[1])
        dx, dgamma = rms_norm_backward(dn, caches[0])
        return dx, {"norm.gamma": dgamma}


RIGHT = {
    "grouped_attention": [GroupedCopies, GroupedLoops, GroupedEinsum],
    "window_keep": [WindowLoops, WindowCompare, WindowTriangles],
    "soft_cap": [CapTanh, CapOutput, CapCosh],
    "QkNorm": [NormLayers, NormOps],
}
