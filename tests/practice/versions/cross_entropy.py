"""The cross-entropy as different readers write it."""

import numpy as np


class Loops:
    """One position after the other."""

    def forward(logits, targets, weights=None, smoothing=0):
        weights = np.ones(targets.shape) if weights is None else weights
        weights = weights / weights.max()
        p = np.zeros(logits.shape)
        loss = 0.0
        for at in np.ndindex(targets.shape):
            z = logits[at]
            top = z.max()
            total = sum(np.exp(score - top) for score in z)
            p[at] = np.exp(z - top) / total
            right = z[targets[at]]
            if smoothing:
                right = (1 - smoothing) * right + smoothing * z.mean()
            if weights[at] > 0:
                loss += weights[at] * (top + np.log(total) - right) / weights.sum()
        return loss, (p, targets, weights, smoothing)

    def backward(dloss, cache):
        p, targets, weights, smoothing = cache
        dlogits = np.zeros(p.shape)
        for at in np.ndindex(targets.shape):
            for v in range(p.shape[-1]):
                right = 1 if v == targets[at] else 0
                wanted = (1 - smoothing) * right + smoothing / p.shape[-1]
                dlogits[at][v] = weights[at] / weights.sum() * (p[at][v] - wanted)
        return dloss * dlogits


class OneHot:
    """The difference between two distributions, with one-hot vectors."""

    def forward(logits, targets, weights=None, smoothing=0):
        size = logits.shape[-1]
        wanted = (1 - smoothing) * np.eye(size)[targets] + smoothing / size
        share = np.ones(targets.shape) if weights is None else weights / weights.max()
        share = share / share.sum()
        z = logits - logits.max(axis=-1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
        surprise = -np.where(wanted > 0, wanted * log_p, 0).sum(axis=-1)
        loss = np.sum(share * surprise, where=share > 0)
        return loss, {"p": np.exp(log_p), "wanted": wanted, "share": share}

    def backward(dloss, cache):
        difference = cache["p"] - cache["wanted"]
        return dloss * cache["share"][..., np.newaxis] * difference


class Flat:
    """Rows of one matrix, with the targets as indices."""

    def forward(logits, targets, weights=None, smoothing=0):
        z = logits.reshape(-1, logits.shape[-1])
        t = targets.reshape(-1)
        w = np.ones(len(t)) if weights is None else weights.reshape(-1) / weights.max()
        log_total = np.logaddexp.reduce(z, axis=1)
        at_target = z[np.arange(len(z)), t]
        if smoothing:
            at_target = (1 - smoothing) * at_target + smoothing * z.mean(axis=1)
        counted = w > 0
        surprise = log_total - at_target
        loss = np.average(surprise[counted], weights=w[counted])
        cache = z, t, log_total, w, smoothing, logits.shape
        return loss, cache

    def backward(dloss, cache):
        z, t, log_total, w, smoothing, shape = cache
        dz = np.exp(z - log_total[:, None])
        dz -= smoothing / z.shape[1]
        dz[np.arange(len(z)), t] -= 1 - smoothing
        dz *= dloss * (w / w.sum())[:, None]
        return dz.reshape(shape)


RIGHT = {"cross_entropy": [Loops, OneHot, Flat]}
