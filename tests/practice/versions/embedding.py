"""The look-up and the output layer as different readers write them."""

import numpy as np


class LookUpLoops:
    """One token after the other."""

    def forward(ids, table):
        rows = np.zeros(ids.shape + table.shape[1:])
        for at in np.ndindex(ids.shape):
            rows[at] = table[ids[at]]
        return rows, (ids, len(table))

    def backward(drows, cache):
        ids, size = cache
        dtable = np.zeros((size, drows.shape[-1]))
        for at in np.ndindex(ids.shape):
            dtable[ids[at]] += drows[at]
        return dtable


class OneHot:
    """A product with one-hot rows."""

    def forward(ids, table):
        hot = np.eye(len(table))[ids.reshape(-1)]
        return (hot @ table).reshape(*ids.shape, -1), hot

    def backward(drows, hot):
        return hot.T @ drows.reshape(-1, drows.shape[-1])


class AddAt:
    """Indices, and NumPy's sum over them."""

    def forward(ids, table):
        return table[ids], {"ids": ids, "shape": table.shape}

    def backward(drows, cache):
        dtable = np.zeros(cache["shape"], drows.dtype)
        np.add.at(dtable, cache["ids"], drows)
        return dtable


class Words:
    """One word of the vocabulary after the other."""

    def forward(ids, table):
        return np.take(table, ids, axis=0), (ids, table)

    def backward(drows, cache):
        ids, table = cache
        return np.array([drows[ids == v].sum(axis=0) for v in range(len(table))])


class ReadOutLoops:
    """One score after the other."""

    def forward(h, table, bias):
        logits = np.zeros((*h.shape[:-1], len(table)))
        for at in np.ndindex(h.shape[:-1]):
            for v, row in enumerate(table):
                logits[at][v] = sum(row * h[at]) + bias[v]
        return logits, (h, table)

    def backward(dlogits, cache):
        h, table = cache
        dh, dtable = np.zeros(h.shape), np.zeros(table.shape)
        dbias = np.zeros(len(table))
        for at in np.ndindex(h.shape[:-1]):
            for v in range(len(table)):
                dh[at] += dlogits[at][v] * table[v]
                dtable[v] += dlogits[at][v] * h[at]
                dbias[v] += dlogits[at][v]
        return dh, dtable, dbias


class ReadOutMatrix:
    """Matrices of all positions."""

    def forward(h, table, bias):
        return h @ table.T + bias, {"h": h, "E": table}

    def backward(dlogits, cache):
        h, E = cache["h"], cache["E"]
        flat = dlogits.reshape(-1, len(E))
        dh = dlogits @ E
        dE = flat.T @ h.reshape(len(flat), -1)
        return dh, dE, flat.sum(axis=0)


class ReadOutEinsum:
    """Indices."""

    def forward(h, table, bias):
        shape = h.shape[:-1]
        h = h.reshape(-1, h.shape[-1])
        logits = np.einsum("nd,vd->nv", h, table) + bias
        return logits.reshape(*shape, -1), (h, table, shape)

    def backward(dlogits, cache):
        h, table, shape = cache
        dz = dlogits.reshape(len(h), -1)
        dh = np.einsum("nv,vd->nd", dz, table).reshape(*shape, -1)
        return dh, np.einsum("nv,nd->vd", dz, h), np.einsum("nv->v", dz)


RIGHT = {
    "embedding": [LookUpLoops, OneHot, AddAt, Words],
    "tied_readout": [ReadOutLoops, ReadOutMatrix, ReadOutEinsum],
}
