"""Greedy search and beam search: what a model writes by itself."""

from typing import Any, Protocol

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_positive_int,
    check_shape,
    is_real,
)
from transformer_core.ops.softmax import log_softmax


class State(Protocol):
    """What a model remembers between two steps of decoding."""

    def select(self, rows: np.ndarray) -> "State":
        """Return the state of some sequences, in another order, some of them several times."""


class Decodes(Protocol):
    """What a search asks of a model, such as :class:`EncoderDecoder`.

    ``vocabulary`` is V, ``longest`` the most tokens that the model can write.
    """

    vocabulary: int
    longest: int

    def begin(self, *inputs: Any) -> Any:
        """Return the :class:`State` before the first token."""

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Return the logits (B, V) of what may follow the newest tokens (B,), and the state."""


def greedy_search(
    model: Decodes,
    *inputs: Any,
    start: int | np.ndarray,
    end: int,
    padding: int = 0,
    longest: int | None = None,
    start_lengths: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Write the likeliest token, read it, and write the next (eq:greedy-search).

    .. math:: y_t = \operatorname{argmax}_v \, p(v \mid y_{<t}, x)

    Parameters
    ----------
    model : Decodes
        Such as an :class:`EncoderDecoder`.
    *inputs
        What the model begins with: an encoder-decoder, with its sources and their lengths; a model
        without a source, with the number B of sequences.
    start : int, or ndarray of int (B, P)
        The id of the token that begins a target, or a prompt for each: its first tokens.
    end : int
        The id of the token that ends a target.
    padding : int
        The id that fills the rows of ``tokens`` after the end token.
    longest : int, optional
        Write at most so many tokens, the end token included, and those of the prompt but for its
        first. Default: as many as the model can.
    start_lengths : ndarray of int (B,), optional
        How many tokens each prompt has, at least 1; padding follows. Default: P.

    Returns
    -------
    tokens : ndarray of int (B, T)
        Without the first token, with the rest of the prompt, and with the end token where one
        was written. T is that of the longest target.
    lengths : ndarray of int (B,)
        How many tokens each target has, the end token included.

    Raises
    ------
    ValueError
        If an id is outside the vocabulary, ``longest`` is more than the model can write, or the
        model refuses the inputs.
    """
    longest = limit(model, (end, padding), longest)
    state = model.begin(*inputs)
    prompts, given = prompts_of(model, start, start_lengths, inputs, longest)
    newest = prompts[:, 0]
    going = np.ones(len(newest), bool)
    lengths = np.zeros(len(newest), int)
    tokens: list[np.ndarray] = []
    while going.any() and len(tokens) < longest:
        logits, state = model.step(newest, state)
        newest = np.where(going, logits.argmax(axis=-1), padding)
        place = len(tokens) + 1
        forced = place < given
        newest[forced] = prompts[forced, place : place + 1].ravel()
        tokens.append(newest)
        lengths += going
        going &= forced | (newest != end)
    return np.stack(tokens, axis=1), lengths


def beam_search(
    model: Decodes,
    *inputs: Any,
    start: int | np.ndarray,
    end: int,
    beam: int,
    length_penalty: float = 1.0,
    padding: int = 0,
    longest: int | None = None,
    start_lengths: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Keep the best few beginnings of a target, and extend them all (eq:beam-score).

    .. math:: \operatorname{score}(y_1 \dots y_n)
              = \frac{1}{n^\lambda} \sum_{t=1}^n \ln p(y_t \mid y_{<t}, x)

    At every step each beginning is extended by every token, and the K extensions of the highest
    score are kept. A target that has ended competes with its score as it is, and so does, in the
    end, one that was cut off at the limit.

    Parameters
    ----------
    model, inputs, start, end, padding, longest, start_lengths
        As for :func:`greedy_search`, which is the search with a beam of 1.
    beam : int
        K, how many beginnings are kept for each source.
    length_penalty : float
        :math:`\lambda`, from 0 to 10. At 0 the likeliest target wins, which favours short
        ones; at 1, the one with the highest mean per token.

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
        ``length_penalty`` out of range.

    Source: the normalisation by a power of the length is that of Wu et al. 2016, without its
    constants.
    """
    check_positive_int("beam", beam)
    if not is_real(length_penalty) or not 0 <= length_penalty <= 10:
        raise ValueError(
            f"length_penalty: expected a number from 0 to 10, got {length_penalty}"
        )
    longest = limit(model, (end, padding), longest)
    state = model.begin(*inputs)
    prompts, given = prompts_of(model, start, start_lengths, inputs, longest)
    batch = len(prompts)
    row = np.arange(batch)[:, np.newaxis]
    state = state.select(np.repeat(np.arange(batch), beam))
    tokens = np.zeros((batch, beam, 0), int)
    newest = np.repeat(prompts[:, :1], beam, axis=1)
    lengths = np.zeros((batch, beam), int)
    totals = np.full((batch, beam), -np.inf)  # ln p of the tokens
    totals[:, 0] = 0  # at first there is one beginning, the empty one
    going = totals == 0
    while going.any() and tokens.shape[2] < longest:
        logits, state = model.step(newest.ravel(), state)
        log_p = log_softmax(logits).reshape(batch, beam, -1)
        place = tokens.shape[2] + 1
        forced = place < given
        log_p[forced] = -np.inf
        log_p[forced, :, prompts[forced, place : place + 1].ravel()] = 0
        log_p[~going] = -np.inf
        log_p[~going, padding] = 0  # the one extension of what has ended
        lengths = lengths + going
        totals = totals[..., np.newaxis] + log_p
        written = np.maximum(lengths - (given - 1)[:, np.newaxis], 1)  # n
        scores = totals / written[..., np.newaxis] ** float(length_penalty)

        best = np.argsort(-scores.reshape(batch, -1), axis=1, kind="stable")[:, :beam]
        origin, newest = np.divmod(best, log_p.shape[2])
        totals, scores = totals[row, origin, newest], scores[row, origin, newest]
        tokens = np.concatenate([tokens[row, origin], newest[..., np.newaxis]], axis=2)
        lengths = lengths[row, origin]
        going = going[row, origin] & (forced[:, np.newaxis] | (newest != end))
        state = state.select((row * beam + origin).ravel())
    return tokens, lengths, scores


def limit(model, special, longest):
    """Check what a search is given, and return how many tokens it writes at most."""
    for name, i in zip(("end", "padding"), special, strict=True):
        check_shape(name, np.array(i))
        check_ids(name, np.array(i), model.vocabulary)
    longest = model.longest if longest is None else longest
    check_positive_int("longest", longest)
    if longest > model.longest:
        raise ValueError(
            f"longest: expected at most {model.longest} tokens, got {longest}"
        )
    return longest


def prompts_of(model, start, lengths, inputs, longest):
    """Return the first tokens of every target (B, P), and how many of them count (B,)."""
    if not isinstance(start, np.ndarray) or start.ndim == 0:
        check_ids("start", np.array(start), model.vocabulary)
        batch = inputs[0] if isinstance(inputs[0], int) else len(inputs[0])
        start = np.full((batch, 1), start)
    check_shape("start", start, "B", "P")
    check_ids("start", start, model.vocabulary)
    batch, most = start.shape
    if lengths is None:
        lengths = np.full(batch, most)
    check_shape("start_lengths", lengths, batch)
    check_ids("start_lengths", lengths, most + 1)
    if lengths.min() < 1 or lengths.max() - 1 > longest:
        raise ValueError(
            f"start_lengths: expected 1 to {longest + 1} tokens, got {lengths}"
        )
    return start, lengths
