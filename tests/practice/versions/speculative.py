"""Speculative decoding as different readers write it."""

import numpy as np


class AcceptRows:
    """All drafts at once."""

    def forward(p, q, drafted):
        rows = np.arange(len(drafted))
        kept = np.minimum(1, p[rows, drafted] / q[rows, drafted])[:, None]
        more = np.maximum(p - q, 0)
        total = more.sum(axis=1, keepdims=True)
        r = more / np.where(total > 0, total, 1)
        own = np.arange(p.shape[1]) == drafted[:, None]
        return kept * own + (1 - kept) * r


class AcceptLoops:
    """One draft after the other."""

    def forward(p, q, drafted):
        written = []
        for p_n, q_n, v in zip(p, q, drafted, strict=True):
            accept = min(1.0, p_n[v] / q_n[v])
            r = (p_n - q_n).clip(0)
            if r.sum() > 0:
                r = r / r.sum()
            w = (1 - accept) * r
            w[v] += accept
            written.append(w)
        return np.array(written)


class AcceptPositive:
    """The residual of the tokens that have one."""

    def forward(p, q, drafted):
        written = np.zeros(p.shape)
        for n, v in enumerate(drafted):
            keep = 1.0 if p[n, v] >= q[n, v] else p[n, v] / q[n, v]
            less = p[n] > q[n]
            missing = (p[n] - q[n])[less]
            if keep < 1:
                written[n, less] = (1 - keep) * missing / missing.sum()
            written[n, v] += keep
        return written


class ExpectedSum:
    """The sum."""

    def forward(rate, drafts):
        return sum(rate**i for i in range(drafts + 1))


class ExpectedClosed:
    """The closed form, and its limit."""

    def forward(rate, drafts):
        if rate == 1:
            return drafts + 1
        return (1 - rate ** (drafts + 1)) / (1 - rate)


class ExpectedHorner:
    """From the last draft to the first."""

    def forward(rate, drafts):
        total = 1.0
        for _ in range(drafts):
            total = 1 + rate * total
        return total


RIGHT = {
    "accept_or_resample": [AcceptRows, AcceptLoops, AcceptPositive],
    "expected_tokens": [ExpectedSum, ExpectedClosed, ExpectedHorner],
}
