"""Keys that ranks share, and a tied table in pieces, as different readers write them."""

import numpy as np


class HeadOfRank:
    """A loop over the ranks, each with the number of its head."""

    def forward(x, weights, ranks):
        share = ranks // len(weights)
        keys = np.stack([x @ weights[rank // share] for rank in range(ranks)])
        return keys, (x, weights, share)

    def backward(dkeys, cache):
        x, weights, share = cache
        leading = list(range(x.ndim - 1))
        dx, dweights = np.zeros_like(x), np.zeros_like(weights)
        for rank, dkey in enumerate(dkeys):
            head = rank // share
            dx += dkey @ weights[head].T
            dweights[head] += np.tensordot(x, dkey, (leading, leading))
        return dx, dweights


class CopiesBesideEachOther:
    """The copies are made by repeating, and their gradients are a sum over an axis."""

    def forward(x, weights, ranks):
        copies = np.repeat(weights, ranks // len(weights), axis=0)
        return np.einsum("btd,ndk->nbtk", x, copies), (x, copies, len(weights))

    def backward(dkeys, cache):
        x, copies, heads = cache
        dx = np.einsum("nbtk,ndk->btd", dkeys, copies)
        own = np.einsum("btd,nbtk->ndk", x, dkeys)
        return dx, own.reshape(heads, -1, *own.shape[1:]).sum(axis=1)


class HeadByHead:
    """The outer loop is over heads: the cotangents of a head's ranks are added up first."""

    def forward(x, weights, ranks):
        keys = [x @ w for w in weights for _ in range(ranks // len(weights))]
        return np.array(keys), (x, weights)

    def backward(dkeys, cache):
        x, weights = cache
        groups = np.split(dkeys, len(weights))
        totals = [group.sum(axis=0) for group in groups]
        dx = sum(total @ w.T for total, w in zip(totals, weights, strict=True))
        rows = x.reshape(-1, x.shape[-1])
        dweights = [rows.T @ total.reshape(len(rows), -1) for total in totals]
        return dx, np.stack(dweights)


class BothUses:
    """The pieces rank by rank: who has the row, and who has the logit."""

    def forward(ids, tables):
        ranks, width, _ = tables.shape
        h = 0
        for rank, table in enumerate(tables):
            own = ids // width == rank
            h = h + own[..., np.newaxis] * table[np.where(own, ids - rank * width, 0)]
        return np.stack([h @ table.T for table in tables]), (ids, h, tables)

    def backward(dlogits, cache):
        ids, h, tables = cache
        width = tables.shape[1]
        dh = sum(d @ table for d, table in zip(dlogits, tables, strict=True))
        dtables = np.zeros_like(tables)
        for rank, own_dlogits in enumerate(dlogits):
            own = ids // width == rank
            dtables[rank] += np.tensordot(own_dlogits, h, ((0, 1), (0, 1)))
            np.add.at(dtables[rank], ids[own] - rank * width, dh[own])
        return dtables


class OneTable:
    """The pieces joined, one model, and the gradient cut again."""

    def forward(ids, tables):
        table = tables.reshape(-1, tables.shape[-1])
        h = table[ids]
        logits = h @ table.T
        return np.stack(np.split(logits, len(tables), axis=-1)), (ids, h, table, len(tables))

    def backward(dlogits, cache):
        ids, h, table, ranks = cache
        whole = np.concatenate(list(dlogits), axis=-1)
        one_hot = np.eye(len(table))[ids]
        dtable = np.einsum("btv,btd->vd", whole, h)
        dtable += np.einsum("btv,btd->vd", one_hot, whole @ table)
        return np.stack(np.split(dtable, ranks))


RIGHT = {
    "shared_keys": [HeadOfRank, CopiesBesideEachOther, HeadByHead],
    "split_tied": [BothUses, OneTable],
}
