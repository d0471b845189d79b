"""Attention in tiles as different readers write it."""

import numpy as np


class TiledBlocks:
    """Blocks of keys for all queries, and the log-sum-exp kept."""

    def forward(query, key, value, keep=None, tile=2):
        B, H, T, d = query.shape
        S = key.shape[2]
        keep = np.broadcast_to(True if keep is None else keep, (B, H, T, S))
        m = np.full((B, H, T, 1), -np.inf)
        total = np.zeros((B, H, T, 1))
        o = np.zeros((B, H, T, value.shape[-1]))
        for j in range(0, S, tile):
            k, v, allowed = (
                key[:, :, j : j + tile],
                value[:, :, j : j + tile],
                keep[..., j : j + tile],
            )
            if not allowed.any():
                continue
            s = np.where(allowed, query @ k.swapaxes(2, 3) / d**0.5, -np.inf)
            new = np.maximum(m, s.max(-1, keepdims=True))
            safe = np.where(np.isinf(new), 0, new)
            old = np.exp(m - safe)
            p = np.exp(s - safe)
            total = old * total + p.sum(-1, keepdims=True)
            o = old * o + p @ v
            m = new
        o = o / np.where(total == 0, 1, total)
        L = np.where(total == 0, np.inf, m + np.log(np.where(total == 0, 1, total)))
        return o, (query, key, value, keep, o, L, tile)

    def backward(doutput, cache):
        query, key, value, keep, o, L, tile = cache
        d = query.shape[-1]
        D = (doutput * o).sum(-1, keepdims=True)
        dq, dk, dv = np.zeros_like(query), np.zeros_like(key), np.zeros_like(value)
        for j in range(0, key.shape[2], tile):
            at = slice(j, j + tile)
            s = query @ key[:, :, at].swapaxes(2, 3) / d**0.5
            p = np.where(keep[..., at], np.exp(np.where(keep[..., at], s - L, 0)), 0)
            dp = doutput @ value[:, :, at].swapaxes(2, 3)
            ds = p * (dp - D) / d**0.5
            dq += ds @ key[:, :, at]
            dk[:, :, at] = ds.swapaxes(2, 3) @ query
            dv[:, :, at] = p.swapaxes(2, 3) @ doutput
        return dq, dk, dv


class TiledRows:
    """Row blocks outside, key blocks inside, einsum; maximum and sum kept apart."""

    def forward(query, key, value, keep=None, tile=2):
        T, S, scale = query.shape[2], key.shape[2], 1 / np.sqrt(query.shape[3])
        if keep is None:
            keep = np.ones((1, 1, T, S), bool)
        keep = np.broadcast_to(keep, (*query.shape[:3], S))
        output = np.zeros((*query.shape[:3], value.shape[3]))
        tops, totals = np.zeros(query.shape[:3]), np.ones(query.shape[:3])
        for i in range(0, T, tile):
            top, total, mean = -1e300, 0.0, 0.0
            for j in range(0, S, tile):
                allowed = keep[:, :, i : i + tile, j : j + tile]
                if allowed.sum() == 0:
                    continue
                s = np.einsum("bhtd,bhsd->bhts", query[:, :, i : i + tile], key[:, :, j : j + tile])
                s = np.where(allowed, s * scale, -1e300)
                larger = np.maximum(top, s.max(axis=-1))
                p = np.exp(s - larger[..., None]) * allowed
                shrink = np.exp(top - larger)
                total = total * shrink + p.sum(axis=-1)
                new = np.einsum("bhts,bhsv->bhtv", p, value[:, :, j : j + tile])
                mean = mean * shrink[..., None] + new
                top = larger
            total = total + np.zeros(query[:, :, i : i + tile].shape[:3])
            full = total > 0
            output[:, :, i : i + tile] = mean / np.where(full, total, 1)[..., None]
            tops[:, :, i : i + tile] = np.where(full, top, 0)
            totals[:, :, i : i + tile] = np.where(full, total, 1)
        return output, (query, key, value, keep, output, tops, totals, tile, scale)

    def backward(do, cache):
        query, key, value, keep, output, tops, totals, tile, scale = cache
        dq, dk, dv = (np.zeros(array.shape) for array in (query, key, value))
        couplings = np.einsum("bhtv,bhtv->bht", do, output)
        for i in range(0, query.shape[2], tile):
            rows = np.s_[:, :, i : i + tile]
            for j in range(0, key.shape[2], tile):
                columns = np.s_[:, :, j : j + tile]
                s = scale * np.einsum("bhtd,bhsd->bhts", query[rows], key[columns])
                allowed = keep[rows][..., j : j + tile]
                p = np.exp(np.where(allowed, s - tops[rows][..., None], -np.inf))
                p /= totals[rows][..., None]
                dp = np.einsum("bhtv,bhsv->bhts", do[rows], value[columns])
                ds = p * (dp - couplings[rows][..., None])
                dq[rows] += scale * np.einsum("bhts,bhsd->bhtd", ds, key[columns])
                dk[columns] += scale * np.einsum("bhts,bhtd->bhsd", ds, query[rows])
                dv[columns] += np.einsum("bhts,bhtv->bhsv", p, do[rows])
        return dq, dk, dv


class TiledMeans:
    """Normalised outputs of blocks, merged by their log-sum-exps."""

    def forward(query, key, value, keep=None, tile=2):
        shape = (*query.shape[:-1], key.shape[-2])
        keep = np.broadcast_to(np.array(True) if keep is None else keep, shape)
        L, o = np.full(shape[:-1], -np.inf), np.zeros((*shape[:-1], value.shape[-1]))
        for j in range(0, shape[-1], tile):
            s = query @ key[..., j : j + tile, :].swapaxes(-1, -2) / np.sqrt(query.shape[-1])
            s = np.where(keep[..., j : j + tile], s, -np.inf)
            part = np.logaddexp.reduce(s, axis=-1)
            both = np.logaddexp(L, part)
            safe = np.where(both == -np.inf, 0, both)
            o = o * np.exp(L - safe)[..., None]
            o = o + np.exp(s - safe[..., None]) @ value[..., j : j + tile, :]
            L = both
        return o, (query, key, value, keep, o, np.where(L == -np.inf, 0, L), tile)

    def backward(doutput, cache):
        query, key, value, keep, o, L, tile = cache
        scale = np.sqrt(query.shape[-1])
        D = (doutput * o).sum(axis=-1)
        dquery, dkeys, dvalues = 0, [], []
        for j in range(0, key.shape[-2], tile):
            k, v = key[..., j : j + tile, :], value[..., j : j + tile, :]
            s = query @ k.swapaxes(-1, -2) / scale
            s = np.where(keep[..., j : j + tile], s, -np.inf)
            p = np.exp(s - L[..., None])
            ds = p * (doutput @ v.swapaxes(-1, -2) - D[..., None]) / scale
            dquery = dquery + ds @ k
            dkeys.append(ds.swapaxes(-1, -2) @ query)
            dvalues.append(p.swapaxes(-1, -2) @ doutput)
        return dquery, np.concatenate(dkeys, axis=-2), np.concatenate(dvalues, axis=-2)


class MergeShifted:
    """From the larger of the two."""

    def forward(output, log_sum_exp, other_output, other_log_sum_exp):
        top = np.maximum(log_sum_exp, other_log_sum_exp)
        start = np.where(np.isneginf(top), 0, top)
        a, b = np.exp(log_sum_exp - start)[..., None], np.exp(other_log_sum_exp - start)[..., None]
        total = np.where(np.isneginf(top)[..., None], 1, a + b)
        return (a * output + b * other_output) / total, top + np.log(total)[..., 0]


class MergeSigmoid:
    """Row by row, by the difference of the two."""

    def forward(output, log_sum_exp, other_output, other_log_sum_exp):
        merged, both = np.zeros(output.shape), np.zeros(log_sum_exp.shape)
        for at in np.ndindex(both.shape):
            a, b = log_sum_exp[at], other_log_sum_exp[at]
            if a == b == -np.inf:
                both[at] = -np.inf
                continue
            gap = np.exp(-abs(a - b))
            share = 1 / (1 + gap) if a >= b else gap / (1 + gap)
            merged[at] = share * output[at] + (1 - share) * other_output[at]
            both[at] = max(a, b) + np.log1p(gap)
        return merged, both


RIGHT = {
    "tiled_attention": [TiledBlocks, TiledRows, TiledMeans],
    "merge_attention": [MergeShifted, MergeSigmoid],
}
