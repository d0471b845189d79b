"""Search as different readers write it."""

import math

import numpy as np


class LengthLoops:
    """One row after the other, in plain Python."""

    def forward(x):
        y, lengths = np.zeros(x.shape), np.zeros(x.shape[:-1])
        for at in np.ndindex(lengths.shape):
            lengths[at] = math.sqrt(sum(float(number) ** 2 for number in x[at]))
            if lengths[at] > 0:
                y[at] = x[at] / lengths[at]
        return y, (y, lengths)

    def backward(dy, cache):
        y, lengths = cache
        dx = np.zeros(dy.shape)
        for at in np.ndindex(lengths.shape):
            along = sum(y[at][i] * dy[at][i] for i in range(dy.shape[-1]))
            for i in range(dy.shape[-1]):
                if lengths[at] > 0:
                    dx[at][i] = (dy[at][i] - y[at][i] * along) / lengths[at]
        return dx


class LengthJacobian:
    """The projection as a matrix."""

    def forward(x):
        n = np.linalg.norm(x, axis=-1, keepdims=True)
        inv = np.divide(1, n, out=np.zeros(n.shape), where=n > 0)
        return x * inv, (x * inv, inv)

    def backward(dy, cache):
        u, inv = cache
        projection = np.eye(u.shape[-1]) - u[..., :, None] * u[..., None, :]
        return np.einsum("...ij,...j->...i", projection, dy) * inv


class LengthStaged:
    """Back through the graph: the quotient, the root, the sum of the squares."""

    def forward(x):
        square = np.sum(x * x, axis=-1, keepdims=True)
        n = np.where(square == 0, np.inf, np.sqrt(square))
        return x / n, (x, n)

    def backward(dy, cache):
        x, n = cache
        dn = -np.sum(dy * x, axis=-1, keepdims=True) / n / n
        dsquare = dn / (2 * n)
        return dy / n + 2 * x * dsquare


class ContrastiveLoops:
    """Query by query, in plain Python."""

    def forward(query, key, temperature):
        B, S = len(query), len(key)
        scores = [[float(q @ k) / temperature for k in key] for q in query]
        p, loss = np.zeros((B, S)), 0.0
        for i in range(B):
            top = max(scores[i])
            total = sum(math.exp(score - top) for score in scores[i])
            for j in range(S):
                p[i, j] = math.exp(scores[i][j] - top) / total
            loss += (top + math.log(total) - scores[i][i]) / B
        return loss, (query, key, temperature, scores, p)

    def backward(dloss, cache):
        query, key, temperature, scores, p = cache
        B = len(query)
        dquery, dkey, dtemperature = np.zeros(query.shape), np.zeros(key.shape), 0.0
        for i in range(B):
            for j in range(len(key)):
                ds = dloss * (p[i, j] - (i == j)) / B
                dquery[i] += ds * key[j] / temperature
                dkey[j] += ds * query[i] / temperature
                dtemperature -= ds * scores[i][j] / temperature
        return dquery, dkey, dtemperature


class ContrastiveMatrices:
    """Matrices, and a one-hot matrix for what is right."""

    def forward(query, key, temperature):
        z = query @ key.T / temperature
        z_max = z.max(axis=1, keepdims=True)
        log_p = z - z_max - np.log(np.exp(z - z_max).sum(axis=1, keepdims=True))
        loss = -np.mean(np.diag(log_p))
        return loss, {"q": query, "k": key, "t": temperature, "z": z, "p": np.exp(log_p)}

    def backward(dloss, cache):
        q, k, t = cache["q"], cache["k"], cache["t"]
        right = np.eye(*cache["p"].shape)
        dz = dloss * (cache["p"] - right) / len(q)
        dt = -np.sum(dz * cache["z"]) / t
        return dz @ k / t, dz.T @ q / t, dt


class ContrastiveScaled:
    """The inverse of the temperature as a scale, of the queries."""

    def forward(query, key, temperature):
        scale = 1 / temperature
        logits = np.einsum("id,jd->ij", scale * query, key)
        e = np.exp(logits - logits.max(axis=-1)[:, None])
        p = e / e.sum(axis=-1)[:, None]
        B = len(query)
        m = logits.max(axis=-1)
        loss = np.sum(np.log(e.sum(axis=-1)) + m - logits[range(B), range(B)]) / B
        return loss, (query, key, scale, p)

    def backward(dloss, cache):
        query, key, scale, p = cache
        B = len(query)
        g = p.copy()
        g[range(B), range(B)] -= 1
        g *= dloss / B
        dscaled = np.einsum("ij,jd->id", g, key)
        dkey = np.einsum("ij,id->jd", g, scale * query)
        dscale = np.sum(dscaled * query)
        return scale * dscaled, dkey, -dscale * scale**2


RIGHT = {
    "l2_normalize": [LengthLoops, LengthJacobian, LengthStaged],
    "contrastive_loss": [ContrastiveLoops, ContrastiveMatrices, ContrastiveScaled],
}
