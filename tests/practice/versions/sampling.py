"""Sampling as different readers write it."""

import numpy as np


class TopPSorted:
    """Sort, cut, and put back in the old order."""

    def forward(probabilities, share):
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        falling = np.take_along_axis(probabilities, order, axis=-1)
        above = np.cumsum(falling, axis=-1) - falling
        least = np.where(above < share, falling, 2.0).min(axis=-1, keepdims=True)
        return probabilities >= least


class TopPCompare:
    """The definition: everything above each token."""

    def forward(probabilities, share):
        p = probabilities
        greater = p[..., None, :] > p[..., None]
        above = (greater * p[..., None, :]).sum(axis=-1)
        return above < share


class TopPLoops:
    """One token after the other, until the share is reached."""

    def forward(probabilities, share):
        rows = probabilities.reshape(-1, probabilities.shape[-1])
        keep = np.zeros(rows.shape, bool)
        for row, kept in zip(rows, keep, strict=True):
            total = 0.0
            for value in sorted(set(row.tolist()), reverse=True):
                if total >= share:
                    break
                kept[row == value] = True
                total += value * (row == value).sum()
        return keep.reshape(probabilities.shape)


class PenaltyWhere:
    """Two cases."""

    def forward(logits, seen, penalty):
        changed = np.where(logits > 0, logits / penalty, logits * penalty)
        return np.where(seen, changed, logits)


class PenaltyFactor:
    """A factor for each token."""

    def forward(logits, seen, penalty):
        power = np.where(logits > 0, -1.0, 1.0) * seen
        return logits * penalty**power


class PenaltyLoops:
    """One token after the other."""

    def forward(logits, seen, penalty):
        changed = logits.copy()
        for at in np.argwhere(seen):
            at = tuple(at)
            if logits[at] > 0:
                changed[at] /= penalty
            else:
                changed[at] *= penalty
        return changed


class DrawSearch:
    """The place of the number among the running sums."""

    def forward(probabilities, numbers):
        ends = np.cumsum(probabilities, axis=-1)
        where = numbers * ends[:, -1]
        rows = zip(ends, where, strict=True)
        return np.array([np.searchsorted(row, x, side="right") for row, x in rows])


class DrawCount:
    """How many running sums the number has passed."""

    def forward(probabilities, numbers):
        ends = np.cumsum(probabilities, axis=-1)
        passed = ends <= (numbers * ends[:, -1])[:, None]
        return passed.sum(axis=-1)


class DrawLoops:
    """Take away one probability after the other."""

    def forward(probabilities, numbers):
        tokens = []
        for row, x in zip(probabilities, numbers, strict=True):
            token, end = 0, row[0]
            while end <= x * np.cumsum(row)[-1]:
                token += 1
                end += row[token]
            tokens.append(token)
        return np.array(tokens)


class KeepRows:
    """The last rows of a larger mask."""

    def forward(past, new):
        return np.tril(np.ones((past + new, past + new), bool))[past:]


class KeepCompare:
    """Numbers of positions."""

    def forward(past, new):
        query = past + np.arange(new)[:, None]
        return np.arange(past + new) <= query


class KeepParts:
    """The past, and a triangle."""

    def forward(past, new):
        triangle = np.tril(np.ones((new, new), bool))
        return np.concatenate([np.ones((new, past), bool), triangle], axis=1)


RIGHT = {
    "top_p_keep": [TopPSorted, TopPCompare, TopPLoops],
    "penalised": [PenaltyWhere, PenaltyFactor, PenaltyLoops],
    "drawn_tokens": [DrawSearch, DrawCount, DrawLoops],
    "cached_keep": [KeepRows, KeepCompare, KeepParts],
}
