"""Why a GPT wrote a token: two questions about each of those before it."""

import numpy as np

from transformer_core.foundation.checks import check_ids, check_kind, check_shape
from transformer_core.models import Gpt
from transformer_core.ops import (
    causal_keep,
    cross_entropy,
    cross_entropy_backward,
    log_softmax,
)


def gradient_lengths(gpt: Gpt, ids: np.ndarray) -> np.ndarray:
    r"""Return how fast ln p of a token can change with each input before it (eq:why-gradient).

    .. math:: g_s = \Bigl\| \frac{\partial \ln p_v}{\partial e_s} \Bigr\|

    :math:`p_v` is the probability of the token after those at the positions 0, ..., T - 1, and
    :math:`e_s` is what the decoder is given at position s: the embedding of its token.

    Parameters
    ----------
    gpt : Gpt
    ids : ndarray of int (T + 1,)
        A text, of which the last token is asked about.

    Returns
    -------
    lengths : ndarray (T,)

    Source: Simonyan et al. 2014.
    """
    check_text(gpt, ids, 2)
    x, _ = gpt.embed(ids[np.newaxis, :-1])
    h, cache = gpt.decoder.forward(x, causal_keep(len(ids) - 1))
    logits, readout_cache = gpt.readout.forward(h[:, -1], gpt.tokens.table)
    _, loss_cache = cross_entropy(logits, ids[-1:])
    dlogits = cross_entropy_backward(1, loss_cache)
    dh = np.zeros_like(h)
    dh[:, -1], _, _ = gpt.readout.backward(dlogits, readout_cache)
    dx, _ = gpt.decoder.backward(dh, cache)
    return np.linalg.norm(dx[0], axis=-1)


def changes_without(gpt: Gpt, ids: np.ndarray) -> np.ndarray:
    r"""Return how ln p of a token changes when one before it is left out (eq:why-ablation).

    .. math:: a_s = \ln p_v(\text{without } s) - \ln p_v

    The others move together: those before s are one position nearer. What stands before s is
    read once, and its keys and values are kept (eq:cached-attention).

    Parameters
    ----------
    gpt : Gpt
    ids : ndarray of int (T + 1,)
        A text, of which the last token is asked about; at least two stand before it.

    Returns
    -------
    changes : ndarray (T,)
        Below 0 where the token is less probable without the other.

    Source: Li et al. 2016.
    """
    check_text(gpt, ids, 3)
    before, state = ids[np.newaxis, :-1], gpt.begin(1)
    logits, found = np.empty(0), []
    for s in range(len(ids) - 1):
        rest = before[:, s + 1 :]
        without = gpt.prefill(rest, state)[0] if rest.size else logits
        found.append(log_softmax(without)[0, ids[-1]])
        logits, state = gpt.step(before[:, s], state)
    return np.array(found) - log_softmax(logits)[0, ids[-1]]


def check_text(gpt, ids, least):
    """Raise ``ValueError`` unless ids are so many that the model can read."""
    check_kind("gpt", gpt, Gpt)
    check_shape("ids", ids, "T")
    check_ids("ids", ids, gpt.vocabulary)
    if not least <= len(ids) <= gpt.longest + 1:
        raise ValueError(
            f"ids: expected {least} to {gpt.longest + 1} tokens, got {len(ids)}"
        )
