"""Speculative decoding: a cheap model drafts several tokens, one pass of the model judges all."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from transformer_core.foundation.checks import (
    check_generator,
    check_ids,
    check_positive_int,
    check_real,
    check_reals,
    check_shape,
)
from transformer_core.models.sampling import Sampling, draw


class Drafts(Protocol):
    """What is asked of a drafter, such as :class:`KneserNey` or a smaller :class:`Gpt`.

    A state has a ``length``, how many tokens have been read, and ``first(length)``, which takes it
    back to fewer.
    """

    vocabulary: int

    def begin(self, batch: int) -> Any:
        """Return the state before the first token."""

    def prefill(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Read tokens (1, N): the logits (1, V) of what may follow the last, and the state."""


class Judges(Drafts, Protocol):
    """What is asked of the model that is sampled from, such as :class:`Gpt`."""

    longest: int

    def score(self, ids: np.ndarray, state: Any, rows: int) -> tuple[np.ndarray, Any]:
        """Read tokens (1, N): the logits (1, rows, V) after each of the last, and the state."""


def speculative_sample(
    model: Judges,
    drafter: Drafts,
    start: np.ndarray,
    rng: np.random.Generator,
    sampling: Sampling | None = None,
    *,
    drafts: int = 4,
    end: int | None = None,
    longest: int | None = None,
) -> Iterator[np.ndarray]:
    r"""Write as :func:`sample` does, with the same distribution of texts, in fewer passes.

    The drafter writes :math:`\gamma` tokens, the model reads them all in one pass, and
    :func:`accept` keeps those before the first that it rejects, with one of the model's own. Both
    states then go back to what has been written.

    Parameters
    ----------
    model : Judges
    drafter : Drafts
        With the same vocabulary.
    start : ndarray of int (P,)
        The prompt.
    rng : numpy.random.Generator
    sampling : Sampling, optional
        Of the model and of the drafter alike. Default: the distributions as they are.
    drafts : int
        :math:`\gamma`, at least 1.
    end : int, optional
        The token after which nothing is written. Default: there is none.
    longest : int, optional
        The most tokens of the text, its prompt included. Default: as many as the model can read,
        and one more.

    Yields
    ------
    tokens : ndarray of int (n,)
        What one pass of the model has written, from 1 to :math:`\gamma + 1` tokens.

    Raises
    ------
    ValueError
        When the first tokens are asked for: if an id is outside the vocabulary, the prompt leaves
        no room, the model can read fewer than ``longest`` - 1 tokens, or the two vocabularies
        differ.

    Source: Leviathan, Kalman & Matias 2023, algorithm 1; Chen et al. 2023.
    """
    check_shape("start", start, "P")
    check_ids("start", start, model.vocabulary)
    check_generator("rng", rng)
    check_positive_int("drafts", drafts)
    if drafter.vocabulary != model.vocabulary:
        raise ValueError(
            f"drafter: expected a vocabulary of {model.vocabulary}, got {drafter.vocabulary}"
        )
    longest = model.longest + 1 if longest is None else longest
    check_positive_int("longest", longest)
    if not len(start) < longest <= model.longest + 1:
        raise ValueError(
            f"longest: expected {len(start) + 1} to {model.longest + 1} tokens, got {longest}"
        )
    if end is not None:
        check_shape("end", np.array(end))
        check_ids("end", np.array(end), model.vocabulary)
    sampling = sampling or Sampling()
    text, state, drafted_state = start, model.begin(1), drafter.begin(1)
    while len(text) < longest:
        count = min(drafts, longest - len(text) - 1)
        tried, q, drafted_state = draft(
            drafter, text, drafted_state, rng, sampling, count
        )
        unread = tried[np.newaxis, state.length :]
        logits, state = model.score(unread, state, count + 1)
        seen = seen_up_to(tried, count, model.vocabulary)
        p = sampling.distribution(logits[0], seen)
        written = accept(p, q, tried[len(text) :], rng)
        ends = written == (-1 if end is None else end)
        if ends.any():
            yield written[: ends.argmax() + 1]
            return
        yield written
        text = np.concatenate([text, written])
        known = len(text) - 1  # but for the newest token, which no state has read
        state = state.first(min(state.length, known))
        drafted_state = drafted_state.first(min(drafted_state.length, known))


def draft(drafter, text, state, rng, sampling, count):
    """Write ``count`` tokens behind a text: the longer text, q (count, V), and the state."""
    q = np.empty((count, drafter.vocabulary))
    for i in range(count):
        logits, state = drafter.prefill(text[np.newaxis, state.length :], state)
        seen = seen_up_to(text, 0, drafter.vocabulary)
        q[i] = sampling.distribution(logits, seen)[0]
        text = np.append(text, draw(q[i : i + 1], rng))
    return text, q, state


def accept(
    p: np.ndarray, q: np.ndarray, drafted: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Keep the drafted tokens before the first that is rejected, and write one more.

    A token is rejected if :func:`accept_or_resample` draws another one, which takes its place.
    After all of them, one is drawn from the last row of p.

    Parameters
    ----------
    p : ndarray (N + 1, V)
        The model's distributions at each drafted token's place, and at the place after them.
    q : ndarray (N, V)
        Those from which the tokens were drawn.
    drafted : ndarray of int (N,)
        There may be none.
    rng : numpy.random.Generator

    Returns
    -------
    tokens : ndarray of int (n,)
        From 1 to N + 1.

    Source: Leviathan, Kalman & Matias 2023, algorithm 1.
    """
    written = accept_or_resample(p[:-1], q, drafted) if len(drafted) else q
    written = np.concatenate([written, p[-1:]])
    for n in range(len(p)):
        token = draw(written[n : n + 1], rng)
        if n == len(drafted) or token != drafted[n]:
            break
    return np.append(drafted[:n], token)


def accept_or_resample(p: np.ndarray, q: np.ndarray, drafted: np.ndarray) -> np.ndarray:
    r"""Return the distribution of what is written in the place of each draft (eq:accept).

    .. math::
        a = \min \Bigl( 1, \frac{p_v}{q_v} \Bigr), \qquad
        w_u = a \, [u = v] + (1 - a) \, r_u

    The draft v stays with the probability a; otherwise a token is drawn from the
    :func:`residual` r, which has nothing of v.

    Parameters
    ----------
    p, q : ndarray (N, V)
        The model's distributions, and those from which the drafts were drawn.
    drafted : ndarray of int (N,)

    Returns
    -------
    ndarray (N, V)

    Source: Leviathan, Kalman & Matias 2023, section 2.3.
    """
    check_reals("p", p, "N", "V")
    check_reals("q", q, *p.shape)
    check_shape("drafted", drafted, len(p))
    check_ids("drafted", drafted, p.shape[1])
    rows = np.arange(len(p))
    kept = np.minimum(1, p[rows, drafted] / q[rows, drafted])
    written = (1 - kept)[:, np.newaxis] * residual(p, q)
    written[rows, drafted] += kept
    return written


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    r"""Return what p has more of than q, as a distribution (eq:resample).

    .. math:: r_v = \frac{\max(p_v - q_v, 0)}{\sum_u \max(p_u - q_u, 0)}

    Where p is q, so that nothing is ever rejected, it is p.

    Parameters
    ----------
    p, q : ndarray (..., V)
        Distributions.

    Source: Leviathan, Kalman & Matias 2023, section 2.3.
    """
    check_reals("p", p, ..., "V")
    check_reals("q", q, *p.shape)
    more = np.maximum(p - q, 0)
    total = more.sum(axis=-1, keepdims=True)
    return np.where(total > 0, more / np.where(total > 0, total, 1), p)


def expected_tokens(rate: float, drafts: int) -> float:
    r"""Return how many tokens a pass writes on average (eq:expected-tokens).

    .. math:: \sum_{i=0}^{\gamma} \alpha^i = \frac{1 - \alpha^{\gamma + 1}}{1 - \alpha}

    It assumes that every draft is accepted with the same probability, whatever became of others.

    Parameters
    ----------
    rate : float
        :math:`\alpha`, from 0 to 1.
    drafts : int
        :math:`\gamma`, at least 1.

    Source: Leviathan, Kalman & Matias 2023, equation 1.
    """
    check_real("rate", rate)
    if not 0 <= rate <= 1:
        raise ValueError(f"rate: expected a number from 0 to 1, got {rate}")
    check_positive_int("drafts", drafts)
    return sum(rate**i for i in range(drafts + 1))


def seen_up_to(text, count, vocabulary):
    """Which tokens a text has (count + 1, V): without its last ``count``, then with each more."""
    seen = np.zeros((count + 1, vocabulary), bool)
    seen[:, text[: len(text) - count]] = True
    for i in range(count):
        seen[i + 1 :, text[len(text) - count + i]] = True
    return seen
