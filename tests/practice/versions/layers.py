"""The methods of the layers as another reader writes them, without the package's ops."""

import numpy as np


class Linear:
    def forward(self, x):
        y = np.einsum("...i,ik->...k", x, self.weight)
        return y if self.bias is None else y + self.bias, {"x": x}

    def backward(self, dy, cache):
        x, leading = cache["x"], tuple(range(dy.ndim - 1))
        grads = {"weight": np.tensordot(x, dy, axes=(leading, leading))}
        if self.bias is not None:
            grads["bias"] = dy.sum(axis=leading)
        return np.einsum("...k,ik->...i", dy, self.weight), grads


class LayerNorm:
    def forward(self, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        std = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.eps)
        normalised = centred / std
        return self.gamma * normalised + self.beta, (normalised, std)

    def backward(self, dy, cache):
        normalised, std = cache
        grads = {"gamma": dy * normalised, "beta": dy}
        for name, terms in grads.items():
            grads[name] = terms.reshape(-1, dy.shape[-1]).sum(axis=0)
        dx = dy * self.gamma
        along = (dx * normalised).mean(axis=-1, keepdims=True)
        dx = dx - dx.mean(axis=-1, keepdims=True) - normalised * along
        return dx / std, grads


class RmsNorm:
    def forward(self, x):
        root = np.sqrt(np.sum(x**2, axis=-1, keepdims=True) / x.shape[-1] + self.eps)
        return self.gamma * x / root, (x, root)

    def backward(self, dy, cache):
        x, root = cache
        dgamma = np.einsum(
            "nd,nd->d", dy.reshape(-1, x.shape[-1]), (x / root).reshape(-1, x.shape[-1])
        )
        g = dy * self.gamma
        along = np.sum(g * x, axis=-1, keepdims=True) / (x.shape[-1] * root**2)
        return (g - x * along) / root, {"gamma": dgamma}


class Embedding:
    def forward(self, ids):
        return np.take(self.table, ids, axis=0), ids

    def backward(self, drows, ids):
        dtable = np.zeros_like(self.table)
        for at in np.ndindex(ids.shape):
            dtable[ids[at]] += drows[at]
        return None, {"table": dtable}


class TiedReadout:
    def forward(self, h, table):
        return h @ table.T + self.bias, (h, table)

    def backward(self, dlogits, cache):
        h, table = cache
        rows = dlogits.reshape(-1, len(table))
        dtable = rows.T @ h.reshape(len(rows), -1)
        return dlogits @ table, dtable, {"bias": rows.sum(axis=0)}


class LearnedPositions:
    def forward(self, x):
        length = x.shape[1]
        return x + self.table[:length], length

    def backward(self, dy, length):
        dtable = np.zeros_like(self.table)
        for sequence in dy:
            dtable[:length] += sequence
        return dy.copy(), {"table": dtable}


class FeedForward:
    def forward(self, x, rng=None):
        h = x @ self.hidden.weight + self.hidden.bias
        a, slope = self.activate(h)
        y = a @ self.output.weight + self.output.bias
        return y, (x, a, slope)

    def backward(self, dy, cache):
        x, a, slope = cache
        da = dy @ self.output.weight.T
        dh = self.activate_backward(da, slope)
        dx = dh @ self.hidden.weight.T
        x, dh, a, dy = (rows.reshape(-1, rows.shape[-1]) for rows in (x, dh, a, dy))
        return dx, {
            "hidden.weight": x.T @ dh,
            "hidden.bias": dh.sum(axis=0),
            "output.weight": a.T @ dy,
            "output.bias": dy.sum(axis=0),
        }


class GatedFeedForward:
    def forward(self, x, rng=None):
        gate, slope = self.activate(x @ self.gate.weight)
        value = x @ self.value.weight
        return (gate * value) @ self.output.weight, (x, gate, slope, value)

    def backward(self, dy, cache):
        x, gate, slope, value = cache
        rows = x.reshape(-1, x.shape[-1])
        dproduct = dy @ self.output.weight.T
        dvalue = dproduct * gate
        dh = self.activate_backward(dproduct * value, slope)
        products = (gate * value).reshape(len(rows), -1)
        grads = {
            "gate.weight": rows.T @ dh.reshape(len(rows), -1),
            "value.weight": rows.T @ dvalue.reshape(len(rows), -1),
            "output.weight": products.T @ dy.reshape(len(rows), -1),
        }
        return dh @ self.gate.weight.T + dvalue @ self.value.weight.T, grads


class Pooler:
    def forward(self, h):
        y = np.tanh(h[:, 0] @ self.dense.weight + self.dense.bias)
        return y, (h, y)

    def backward(self, dy, cache):
        h, y = cache
        du = dy * (1 - y**2)
        dh = np.zeros(h.shape)
        dh[:, 0] = du @ self.dense.weight.T
        return dh, {"dense.weight": h[:, 0].T @ du, "dense.bias": du.sum(axis=0)}


class HeadTransform:
    def forward(self, h):
        a, slope = self.activate(h @ self.dense.weight + self.dense.bias)
        y, normed = self.norm.forward(a)
        return y, (h, slope, normed)

    def backward(self, dy, cache):
        h, slope, normed = cache
        da, norm_grads = self.norm.backward(dy, normed)
        du = self.activate_backward(da, slope)
        rows, du_rows = (a.reshape(-1, a.shape[-1]) for a in (h, du))
        grads = {f"norm.{name}": grad for name, grad in norm_grads.items()}
        grads |= {"dense.weight": rows.T @ du_rows, "dense.bias": du_rows.sum(axis=0)}
        return du @ self.dense.weight.T, grads


class Residual:
    def forward(self, x, *context, rng=None):
        inner = x
        if self.pre:
            inner, norm = self.norm.forward(x)
        out, branch = self.branch.forward(inner, *context, rng=rng)
        factor = np.ones(out.shape)
        if rng is not None and self.dropout:
            factor = rng.random(out.shape, np.float32) >= self.dropout
            factor = factor / (1 - self.dropout)
        y = x + factor * out
        if not self.pre:
            y, norm = self.norm.forward(y)
        return y, (norm, branch, factor)

    def backward(self, dy, cache):
        norm, branch, factor = cache
        grads = {}
        dsum = dy
        if not self.pre:
            dsum, dnorm = self.norm.backward(dy, norm)
        dinner, *dcontext, dbranch = self.branch.backward(dsum * factor, branch)
        if self.pre:
            dinner, dnorm = self.norm.backward(dinner, norm)
        for prefix, part in {"branch": dbranch, "norm": dnorm}.items():
            grads |= {f"{prefix}.{name}": grad for name, grad in part.items()}
        return dsum + dinner, *dcontext, grads


class MultiHeadSelfAttention:
    def forward(self, x, keep=None, rng=None):
        B, T, _ = x.shape
        projection = self.query_key_value
        z = x @ projection.weight
        if projection.bias is not None:
            z = z + projection.bias
        q, k, v = (part.reshape(B, T, self.heads, -1) for part in np.split(z, self.edges, -1))
        s = np.einsum("bthk,bshk->bhts", q, k) / np.sqrt(q.shape[-1])
        if keep is not None:
            s = np.where(keep, s, -np.inf)
        top = s.max(axis=-1, keepdims=True)
        e = np.exp(s - np.where(np.isfinite(top), top, 0))
        total = e.sum(axis=-1, keepdims=True)
        p = e / np.where(total == 0, 1, total)
        factor = 1.0
        if rng is not None and self.dropout:
            kept = rng.random(p.shape, np.float32) >= self.dropout
            factor = kept / (1 - self.dropout)
        o = np.einsum("bhts,bshv->bthv", p * factor, v)
        o = o.reshape(B, T, -1)
        y = o @ self.output.weight
        if self.output.bias is not None:
            y = y + self.output.bias
        return y, (x, q, k, v, p, factor, o)

    def backward(self, dy, cache):
        x, q, k, v, p, factor, o = cache
        B, T, H, K = q.shape
        both = ([0, 1], [0, 1])
        do = (dy @ self.output.weight.T).reshape(v.shape)
        dv = np.einsum("bhts,bthv->bshv", p * factor, do)
        dp = np.einsum("bthv,bshv->bhts", do, v) * factor
        ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
        dq = np.einsum("bhts,bshk->bthk", ds, k) / np.sqrt(K)
        dk = np.einsum("bhts,bthk->bshk", ds, q) / np.sqrt(K)
        dz = np.concatenate([part.reshape(B, T, -1) for part in (dq, dk, dv)], axis=-1)
        dx = dz @ self.query_key_value.weight.T
        grads = {
            "query_key_value.weight": np.tensordot(x, dz, both),
            "output.weight": np.tensordot(o, dy, both),
        }
        if self.query_key_value.bias is not None:
            grads["query_key_value.bias"] = dz.sum(axis=(0, 1))
            grads["output.bias"] = dy.sum(axis=(0, 1))
        return dx, grads


class MultiHeadCrossAttention:
    def forward(self, x, source, keep=None, rng=None):
        q, query_cache = self.query.forward(x)
        z, key_value_cache = self.key_value.forward(source)
        k, v = np.split(z, self.edges, axis=-1)
        q, k, v = (np.stack(np.split(part, self.heads, axis=-1), axis=1) for part in (q, k, v))
        s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
        if keep is not None:
            s = np.where(keep, s, -np.inf)
        top = s.max(axis=-1, keepdims=True)
        p = np.exp(s - np.where(np.isfinite(top), top, 0))
        total = p.sum(axis=-1, keepdims=True)
        p = p / np.where(total == 0, 1, total)
        factor = np.ones(p.shape)
        if rng is not None and self.dropout:
            factor = rng.random(p.shape, np.float32) >= self.dropout
            factor = factor / (1 - self.dropout)
        context = np.concatenate(list(np.moveaxis(factor * p @ v, 1, 0)), axis=-1)
        y, output_cache = self.output.forward(context)
        return y, (query_cache, key_value_cache, output_cache, q, k, v, p, factor)

    def backward(self, dy, cache):
        query_cache, key_value_cache, output_cache, q, k, v, p, factor = cache
        dcontext, doutput = self.output.backward(dy, output_cache)
        dcontext = np.stack(np.split(dcontext, self.heads, axis=-1), axis=1)
        dv = (factor * p).swapaxes(-1, -2) @ dcontext
        dp = dcontext @ v.swapaxes(-1, -2) * factor
        ds = p * dp - p * (p * dp).sum(axis=-1, keepdims=True)
        ds = ds / q.shape[-1] ** 0.5
        parts = ds @ k, ds.swapaxes(-1, -2) @ q, dv
        dq, dk, dv = (np.concatenate(list(np.moveaxis(part, 1, 0)), axis=-1) for part in parts)
        dx, dquery = self.query.backward(dq, query_cache)
        dz = np.concatenate([dk, dv], axis=-1)
        dsource, dkey_value = self.key_value.backward(dz, key_value_cache)
        grads = {}
        for part, inner in zip(
            ("query", "key_value", "output"), (dquery, dkey_value, doutput), strict=True
        ):
            for name, grad in inner.items():
                grads[f"{part}.{name}"] = grad
        return dx, dsource, grads


class EncoderLayer:
    def forward(self, x, keep=None, rng=None):
        caches = {}
        x, caches["attention"] = self.attention.forward(x, keep, rng=rng)
        x, caches["feed_forward"] = self.feed_forward.forward(x, rng=rng)
        return x, caches

    def backward(self, dy, caches):
        grads = {}
        for part in ("feed_forward", "attention"):
            dy, inner = getattr(self, part).backward(dy, caches[part])
            for name, grad in inner.items():
                grads[f"{part}.{name}"] = grad
        return dy, grads


class DecoderLayer:
    def forward(self, x, source, keep=None, source_keep=None, rng=None):
        first, own = self.self_attention.forward(x, keep, rng=rng)
        second, cross = self.cross_attention.forward(first, source, source_keep, rng=rng)
        third, fed = self.feed_forward.forward(second, rng=rng)
        return third, (own, cross, fed)

    def backward(self, dthird, caches):
        own, cross, fed = caches
        dsecond, feed_forward = self.feed_forward.backward(dthird, fed)
        dfirst, dsource, cross_attention = self.cross_attention.backward(dsecond, cross)
        dx, self_attention = self.self_attention.backward(dfirst, own)
        grads = {f"feed_forward.{n}": grad for n, grad in feed_forward.items()}
        grads |= {f"cross_attention.{n}": grad for n, grad in cross_attention.items()}
        grads |= {f"self_attention.{n}": grad for n, grad in self_attention.items()}
        return dx, dsource, grads


RIGHT = {
    layer.__name__: [layer]
    for layer in (
        Linear,
        LayerNorm,
        Embedding,
        TiedReadout,
        LearnedPositions,
        FeedForward,
        GatedFeedForward,
        Pooler,
        HeadTransform,
        RmsNorm,
        Residual,
        MultiHeadSelfAttention,
        MultiHeadCrossAttention,
        EncoderLayer,
        DecoderLayer,
    )
}
RIGHT["ResidualWithDropout"] = [Residual]
