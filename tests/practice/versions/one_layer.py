"""A layer in pieces as different readers write it."""

import numpy as np


class RankByRank:
    """A loop over the ranks, which add to one output."""

    def forward(x, hidden_weights, hidden_biases, output_weights, output_bias):
        y = np.zeros(x.shape) + output_bias
        kept = []
        for w1, b1, w2 in zip(hidden_weights, hidden_biases, output_weights, strict=True):
            h = x @ w1 + b1
            a = h * (h > 0)
            y += a @ w2
            kept.append((h > 0, a, w1, w2))
        return y, (x, kept)

    def backward(dy, cache):
        x, kept = cache
        leading = list(range(x.ndim - 1))
        dx = np.zeros_like(x)
        dw1, db1, dw2 = [], [], []
        for on, a, w1, w2 in kept:
            dw2.append(np.tensordot(a, dy, (leading, leading)))
            dh = dy @ w2.T * on
            dw1.append(np.tensordot(x, dh, (leading, leading)))
            db1.append(dh.sum(axis=tuple(leading)))
            dx += dh @ w1.T
        db2 = dy.sum(axis=tuple(leading))
        return dx, np.stack(dw1), np.stack(db1), np.stack(dw2), db2


class AllRanksAtOnce:
    """The ranks as one more index."""

    def forward(x, hidden_weights, hidden_biases, output_weights, output_bias):
        rows = x.reshape(-1, x.shape[-1])
        h = rows @ hidden_weights + hidden_biases[:, np.newaxis]
        a = np.maximum(h, 0)
        y = (a @ output_weights).sum(axis=0) + output_bias
        return y.reshape(x.shape), (x, rows, hidden_weights, output_weights, h, a)

    def backward(dy, cache):
        x, rows, w1, w2, h, a = cache
        drows = dy.reshape(rows.shape)
        dh = np.einsum("md,nfd->nmf", drows, w2) * (h > 0)
        dx = np.einsum("nmf,ndf->md", dh, w1)
        dw1 = np.einsum("md,nmf->ndf", rows, dh)
        dw2 = np.einsum("nmf,md->nfd", a, drows)
        return dx.reshape(x.shape), dw1, dh.sum(axis=1), dw2, drows.sum(axis=0)


class ThreeSums:
    """The cross-entropy from what the ranks tell each other."""

    def forward(logits, targets):
        ranks, positions, width = logits.shape
        greatest = np.max([piece.max(axis=1) for piece in logits], axis=0)
        exponentials = [np.exp(piece - greatest[:, np.newaxis]) for piece in logits]
        total = sum(piece.sum(axis=1) for piece in exponentials)
        of_target, own = np.zeros(positions), []
        for rank in range(ranks):
            mine = targets // width == rank
            here = np.where(mine, targets - rank * width, 0)
            of_target += mine * logits[rank][np.arange(positions), here]
            own.append((mine, here))
        loss = (np.log(total) + greatest - of_target).mean()
        return loss, (exponentials, total, own)

    def backward(dloss, cache):
        exponentials, total, own = cache
        dlogits = np.array(exponentials) / total[:, np.newaxis]
        for piece, (mine, here) in zip(dlogits, own, strict=True):
            piece[np.arange(len(total)), here] -= mine
        return dloss * dlogits / len(total)


class Joined:
    """All logits side by side, and the gradient cut again."""

    def forward(logits, targets):
        whole = np.concatenate(list(logits), axis=1)
        e = np.exp(whole - whole.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        wanted = np.eye(whole.shape[1])[targets]
        lse = np.log(e.sum(axis=1)) + whole.max(axis=1)
        return (lse - (wanted * whole).sum(axis=1)).mean(), (p, wanted, len(logits))

    def backward(dloss, cache):
        p, wanted, ranks = cache
        return np.stack(np.split(dloss * (p - wanted) / len(p), ranks, axis=1))


RIGHT = {
    "split_feed_forward": [RankByRank, AllRanksAtOnce],
    "split_cross_entropy": [ThreeSums, Joined],
}
