"""Greedy search and beam search: what an encoder-decoder writes by itself."""

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_positive_int,
    check_shape,
)
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.models.encoder_decoder import DecodingState
from transformer_core.ops.masks import padding_keep
from transformer_core.ops.softmax import log_softmax


def greedy_search(
    model, source, source_lengths, *, start, end, padding=0, longest=None
):
    r"""Write the likeliest token, read it, and write the next (eq:greedy-search).

    .. math:: y_t = \operatorname{argmax}_v \, p(v \mid y_{<t}, x)

    Parameters
    ----------
    model : EncoderDecoder
    source : ndarray of int (B, S)
    source_lengths : ndarray of int (B,)
        How many tokens each source has, at least 1; padding follows them.
    start, end : int
        The ids of the tokens that begin and end a target.
    padding : int
        The id that fills the rows of ``tokens`` after the end token.
    longest : int, optional
        Write at most so many tokens, the end token included. Default: as many as the model can.

    Returns
    -------
    tokens : ndarray of int (B, T)
        Without the start token, with the end token where one was written. T is that of the
        longest target.
    lengths : ndarray of int (B,)
        How many tokens each target has, the end token included.

    Raises
    ------
    ValueError
        If a source is empty or longer than the model can read, an id is outside its vocabulary,
        or ``longest`` is more than the model can write.
    """
    state, longest = begin(
        model, source, source_lengths, (start, end, padding), longest
    )
    newest = np.full(len(source), start)
    going = np.ones(len(source), bool)
    lengths = np.zeros(len(source), int)
    tokens = []
    while going.any() and len(tokens) < longest:
        logits, state = model.step(newest, state)
        newest = np.where(going, logits.argmax(axis=-1), padding)
        tokens.append(newest)
        lengths += going
        going &= newest != end
    return np.stack(tokens, axis=1), lengths


def beam_search(
    model,
    source,
    source_lengths,
    *,
    start,
    end,
    beam,
    length_penalty=1.0,
    padding=0,
    longest=None,
):
    r"""Keep the best few beginnings of a target, and extend them all (eq:beam-score).

    .. math:: \operatorname{score}(y_1 \dots y_n)
              = \frac{1}{n^\alpha} \sum_{t=1}^n \ln p(y_t \mid y_{<t}, x)

    At every step each beginning is extended by every token, and the K extensions of the highest
    score are kept. A target that has ended competes with its score as it is, and so does, in the
    end, one that was cut off at the limit.

    Parameters
    ----------
    model, source, source_lengths, start, end, padding, longest
        As for :func:`greedy_search`, which is the search with a beam of 1.
    beam : int
        K, how many beginnings are kept for each source.
    length_penalty : float
        :math:`\alpha`. At 0 the likeliest target wins, which favours short ones; at 1, the one
        with the highest mean a token.

    Returns
    -------
    tokens : ndarray of int (B, K, T)
        As of :func:`greedy_search`, the best first.
    lengths : ndarray of int (B, K)
    scores : ndarray (B, K)
        -inf where a source has fewer than K targets.

    Raises
    ------
    ValueError
        As :func:`greedy_search`, or if ``beam`` is not a positive whole number or
        ``length_penalty`` is negative.

    Source: the normalisation by a power of the length is that of Wu et al. 2016, without its
    constants.
    """
    check_positive_int("beam", beam)
    if not length_penalty >= 0:
        raise ValueError(
            f"length_penalty: expected a number of at least 0, got {length_penalty}"
        )
    state, longest = begin(
        model, source, source_lengths, (start, end, padding), longest
    )
    batch = len(source)
    row = np.arange(batch)[:, np.newaxis]
    of_source = np.repeat(np.arange(batch), beam)
    state = DecodingState(
        take(state.past, of_source),
        take(state.source, of_source),
        state.source_keep[of_source],
    )
    tokens = np.zeros((batch, beam, 0), int)
    newest = np.full((batch, beam), start)
    lengths = np.zeros((batch, beam), int)
    totals = np.full((batch, beam), -np.inf)  # ln p of the tokens
    totals[:, 0] = 0  # at first there is one beginning, the empty one
    going = totals == 0
    while going.any() and tokens.shape[2] < longest:
        logits, state = model.step(newest.ravel(), state)
        log_p = log_softmax(logits).reshape(batch, beam, -1)
        log_p[~going] = -np.inf
        log_p[~going, padding] = 0  # the one extension of what has ended
        lengths = lengths + going
        totals = totals[..., np.newaxis] + log_p
        scores = totals / lengths[..., np.newaxis] ** length_penalty

        best = np.argsort(-scores.reshape(batch, -1), axis=1, kind="stable")[:, :beam]
        origin, newest = np.divmod(best, log_p.shape[2])
        totals, scores = totals[row, origin, newest], scores[row, origin, newest]
        tokens = np.concatenate([tokens[row, origin], newest[..., np.newaxis]], axis=2)
        lengths = lengths[row, origin]
        going = going[row, origin] & (newest != end)
        state = state._replace(past=take(state.past, (row * beam + origin).ravel()))
    return tokens, lengths, scores


def begin(model, source, source_lengths, special, longest):
    """Check what a search is given, and read the sources: the first state, and the limit."""
    check_shape("source", source, "B", "S")
    check_shape("source_lengths", source_lengths, len(source))
    keep = padding_keep(source_lengths, source.shape[1])
    if source_lengths.min() < 1:
        raise ValueError("source_lengths: expected at least 1 token in each, got 0")
    for name, i in zip(("start", "end", "padding"), special, strict=True):
        check_ids(name, np.array(i), len(model.target_embedding.table))
    longest = model.target_length if longest is None else longest
    check_positive_int("longest", longest)
    if longest > model.target_length:
        raise ValueError(
            f"longest: expected at most {model.target_length} tokens, got {longest}"
        )
    return model.read(source, keep), longest


def take(pairs, rows):
    return tuple(KeyValue(key[rows], value[rows]) for key, value in pairs)
