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

PLANTED = [
    (
        Loops,
        "cross-entropy-gradient-unmasked",
        {"weights[at] / weights.sum() * (p": "1 / weights.size * (p"},
    ),
    (
        Loops,
        "cross-entropy-gradient-of-the-sum",
        {
            "weights[at] / weights.sum() * (p": "weights[at] * weights.size / weights.sum() * (p"
        },
    ),
    (
        Loops,
        "cross-entropy-gradient-of-the-sum",
        {
            "weights[at] / weights.sum() * (p": "weights[at] * (p",
            "        weights = weights / weights.max()\n": "",
        },
    ),
    (
        Loops,
        "cross-entropy-smoothing-forgotten",
        {"(1 - smoothing) * right + smoothing / p": "right + smoothing / p"},
    ),
    (
        Loops,
        "cross-entropy-smoothing-forgotten",
        {
            "wanted = (1 - smoothing) * right + smoothing / p.shape[-1]": "wanted = right"
        },
    ),
    (
        Loops,
        "cross-entropy-padding-counted",
        {"weights = weights / weights.max()": "weights = np.ones(targets.shape)"},
    ),
    (
        Loops,
        "cross-entropy-mean-over-everything",
        {
            "(top + np.log(total) - right) / weights.sum()": (
                "(top + np.log(total) - right) / weights.size"
            ),
            "weights[at] / weights.sum() * (p": "weights[at] / weights.size * (p",
            "        weights = weights / weights.max()\n": "",
        },
    ),
    (
        Loops,
        "cross-entropy-logarithm-of-softmax",
        {
            "(top + np.log(total) - right)": (
                "((1 - smoothing) * -np.log(p[at][targets[at]]) - "
                "smoothing * np.log(p[at]).mean())"
            )
        },
    ),
    (
        OneHot,
        "cross-entropy-gradient-unmasked",
        {'cache["share"][..., np.newaxis]': '1 / cache["share"].size'},
    ),
    (
        OneHot,
        "cross-entropy-gradient-of-the-sum",
        {'dloss * cache["share"]': 'dloss * cache["share"].size * cache["share"]'},
    ),
    (
        OneHot,
        "cross-entropy-gradient-of-the-sum",
        {
            "weights / weights.max()": "weights",
            "        share = share / share.sum()\n": "",
            "np.sum(share * surprise, where=share > 0)": (
                "np.average(surprise, weights=share)"
            ),
        },
    ),
    (
        OneHot,
        "cross-entropy-smoothing-forgotten",
        {
            'cache["wanted"]\n': 'np.eye(cache["p"].shape[-1])[cache["wanted"].argmax(axis=-1)]\n'
        },
    ),
    (
        OneHot,
        "cross-entropy-padding-counted",
        {
            "share = share / share.sum()": "share = np.full(targets.shape, 1 / targets.size)"
        },
    ),
    (
        OneHot,
        "cross-entropy-mean-over-everything",
        {
            "else weights / weights.max()": "else weights",
            "share = share / share.sum()": "share = share / share.size",
        },
    ),
    (
        OneHot,
        "cross-entropy-logarithm-of-softmax",
        {
            "z - np.log(np.exp(z).sum(axis=-1, keepdims=True))": (
                "np.log(np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True))"
            )
        },
    ),
    (Flat, "cross-entropy-gradient-unmasked", {"(w / w.sum())[:, None]": "1 / len(w)"}),
    (
        Flat,
        "cross-entropy-gradient-of-the-sum",
        {"(w / w.sum())": "(len(w) * w / w.sum())"},
    ),
    (Flat, "cross-entropy-smoothing-forgotten", {"t] -= 1 - smoothing": "t] -= 1"}),
    (
        Flat,
        "cross-entropy-smoothing-forgotten",
        {
            "t] -= 1 - smoothing": "t] -= 1",
            "        dz -= smoothing / z.shape[1]\n": "",
        },
    ),
    (
        Flat,
        "cross-entropy-padding-counted",
        {
            (
                "w = np.ones(len(t)) if weights is None else "
                "weights.reshape(-1) / weights.max()"
            ): "w = np.ones(len(t))"
        },
    ),
    (
        Flat,
        "cross-entropy-mean-over-everything",
        {
            "weights.reshape(-1) / weights.max()": "weights.reshape(-1)",
            "np.average(surprise[counted], weights=w[counted])": (
                "(surprise[counted] * w[counted]).sum() / len(w)"
            ),
            "(w / w.sum())": "(w / len(w))",
        },
    ),
    (
        Loops,
        "cross-entropy-gradient-unmasked",
        {"weights[at] / weights.sum() * (p": "(1 / weights.size) * (p"},
    ),
    (
        Loops,
        "cross-entropy-gradient-of-the-sum",
        {"return dloss * dlogits": "return dloss * dlogits * targets.size"},
    ),
    (
        OneHot,
        "cross-entropy-mean-over-everything",
        {
            "weights / weights.max()": "weights * 1.0",
            "share = share / share.sum()": "share = share / targets.size",
        },
    ),
    (
        OneHot,
        "cross-entropy-smoothing-forgotten",
        {'"wanted": wanted': '"wanted": np.eye(size)[targets]'},
    ),
    (
        Flat,
        "cross-entropy-padding-counted",
        {
            "loss = np.average(surprise[counted], weights=w[counted])": "loss = surprise.mean()"
        },
    ),
]

UNKNOWN = [
    (
        Loops,
        "the target is one too far",
        {"if v == targets[at]": "if v == (targets[at] + 1) % p.shape[-1]"},
    ),
    (
        OneHot,
        "the other way round",
        {'cache["p"] - cache["wanted"]': 'cache["wanted"] - cache["p"]'},
    ),
    (
        OneHot,
        "the probabilities enter squared",
        {'cache["p"] - c': 'cache["p"] ** 2 - c'},
    ),
    (Flat, "the uniform share is added", {"dz -= smoothing": "dz += smoothing"}),
    (
        Flat,
        "in bits, not nats",
        {"return loss, cache": "return loss / np.log(2), cache"},
    ),
]
