"""Sampling: the distribution of the next token, changed before it is drawn from.

Each change maps logits (..., V) to logits, where -inf rules a token out, and keeps their dtype.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from transformer_core.foundation.checks import (
    check_booleans,
    check_floats,
    check_generator,
    check_ids,
    check_not_negative,
    check_positive,
    check_positive_int,
    check_real,
    check_reals,
    check_shape,
)
from transformer_core.models.decoding import Decodes, prompts_of
from transformer_core.ops.softmax import softmax


def temperature(logits: np.ndarray, value: float) -> np.ndarray:
    r"""Divide the logits by the temperature: below 1 the likely tokens gain (eq:temperature).

    .. math:: z'_v = \frac{z_v - \max_u z_u}{\tau}

    Parameters
    ----------
    logits : ndarray (..., V)
    value : float
        :math:`\tau`. At 0, its limit, only the most probable tokens are left.

    Source: Ackley et al. 1985.
    """
    check_logits(logits)
    check_not_negative("value", value)
    below = logits - logits.max(axis=-1, keepdims=True)
    value = logits.dtype.type(value)
    if value == 0:
        return ruled_out(logits, below == 0)
    with np.errstate(over="ignore"):  # to -inf, and not both ways: the largest is 0
        return below / value


def top_k(logits: np.ndarray, count: int) -> np.ndarray:
    """Keep the k most probable tokens, and what is as probable as the last (eq:top-k).

    Parameters
    ----------
    logits : ndarray (..., V)
    count : int
        k, at least 1.

    Source: Fan et al. 2018.
    """
    check_logits(logits)
    check_positive_int("count", count)
    place = max(logits.shape[-1] - count, 0)
    least = np.partition(logits, place, axis=-1)[..., place, np.newaxis]
    return ruled_out(logits, logits >= least)


def top_p(logits: np.ndarray, share: float) -> np.ndarray:
    r"""Keep the smallest set of most probable tokens with a share of the probability (eq:top-p).

    .. math:: \text{keep}_v = \Bigl[ \sum_{u : p_u > p_v} p_u < \rho \Bigr]

    The token that reaches the share is kept, and so is what is as probable. One token at least is
    always left.

    Parameters
    ----------
    logits : ndarray (..., V)
    share : float
        :math:`\rho`, above 0. At 1 all are kept.

    Source: Holtzman et al. 2020.
    """
    check_logits(logits)
    check_share("share", share)
    if share == 1:  # which a sum may reach early, by rounding
        return logits.copy()
    p, _ = softmax(logits)
    falling = -np.sort(-p, axis=-1)
    above = np.cumsum(falling, axis=-1) - falling
    least = np.where(above < share, falling, np.inf).min(axis=-1, keepdims=True)
    return ruled_out(logits, p >= least)


def min_p(logits: np.ndarray, share: float) -> np.ndarray:
    r"""Keep tokens with at least a share of the most probable one's probability (eq:min-p).

    .. math:: \text{keep}_v = \Bigl[ p_v \ge \mu \max_u p_u \Bigr]

    Parameters
    ----------
    logits : ndarray (..., V)
    share : float
        :math:`\mu`, from 0, which keeps all, to 1.

    Source: Nguyen et al. 2025.
    """
    check_logits(logits)
    check_share("share", share, zero=True)
    if share == 0:
        return logits.copy()
    p, _ = softmax(logits)
    return ruled_out(logits, p >= share * p.max(axis=-1, keepdims=True))


def repetition_penalty(
    logits: np.ndarray, seen: np.ndarray, penalty: float
) -> np.ndarray:
    r"""Make tokens that have been written less probable (eq:repetition-penalty).

    .. math:: z'_v = \begin{cases} z_v / \theta & z_v > 0 \\ z_v \theta & z_v \le 0 \end{cases}
              \qquad \text{where } v \text{ has been seen}

    It depends on more than the distribution: softmax is the same for all :math:`z_v + c`, and
    what the penalty makes of them is not. Among positive logits, c changes the log-odds of a seen
    token to an unseen one by :math:`c (1 / \theta - 1)`.

    Parameters
    ----------
    logits : ndarray (..., V)
    seen : ndarray of bool (..., V)
        Which tokens the text so far has, the prompt included; how often does not matter.
    penalty : float
        :math:`\theta`, positive: above 1 against repetitions, at 1 nothing.

    Source: Keskar et al. 2019, with negative logits treated as in later programs.
    """
    check_logits(logits)
    check_booleans("seen", seen, *logits.shape)
    check_positive("penalty", penalty)
    penalty = logits.dtype.type(penalty)
    penalised = np.where(logits > 0, logits / penalty, logits * penalty)
    return np.where(seen, penalised, logits)


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn: its logits go through these, in this order.

    Parameters
    ----------
    penalty : float
        Of :func:`repetition_penalty`.
    temperature : float
    top_k : int, optional
        Default: all tokens.
    top_p, min_p : float

    Raises
    ------
    ValueError
        If one of them is out of range.
    """

    penalty: float = 1.0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self):
        check_positive("penalty", self.penalty)
        check_not_negative("temperature", self.temperature)
        if self.top_k is not None:
            check_positive_int("top_k", self.top_k)
        check_share("top_p", self.top_p)
        check_share("min_p", self.min_p, zero=True)

    def distribution(self, logits: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Return the probabilities of the next token (..., V), in float64.

        Parameters
        ----------
        logits : ndarray (..., V)
        seen : ndarray of bool (..., V)
            Which tokens the text so far has.
        """
        check_logits(logits)
        z = repetition_penalty(logits.astype(np.float64), seen, self.penalty)
        z = temperature(z, self.temperature)
        if self.top_k is not None:
            z = top_k(z, self.top_k)
        p, _ = softmax(min_p(top_p(z, self.top_p), self.min_p))
        return p


class Writes(Decodes, Protocol):
    """What sampling asks of a model, such as :class:`Gpt`: ``begin`` takes the number B."""

    def prefill(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Return what ``step`` does after several tokens (B, N) of each sequence."""


def sample(
    model: Writes,
    start: np.ndarray,
    rng: np.random.Generator,
    sampling: Sampling | None = None,
    *,
    start_lengths: np.ndarray | None = None,
    end: int | None = None,
    longest: int | None = None,
) -> Iterator[np.ndarray]:
    """Write token by token: each is drawn, yielded, and read for the next one.

    What all prompts have is read at once. A prompt that is longer than the shortest goes on while
    the others are written already: no row has padding between its tokens, and each is continued as
    it would be alone.

    Parameters
    ----------
    model : Writes
        Such as a :class:`Gpt`.
    start : ndarray of int (B, P)
        A prompt for each sequence: its first tokens.
    rng : numpy.random.Generator
    sampling : Sampling, optional
        Default: from the distribution as it is.
    start_lengths : ndarray of int (B,), optional
        How many tokens each prompt has, at least 1; padding follows. Default: P.
    end : int, optional
        The token that ends a sequence: of one that has ended, nothing else is written. When all
        have, nothing more is yielded. Default: there is none.
    longest : int, optional
        The most tokens of a sequence, its prompt included. Default: as many as the model can read,
        and one more.

    Yields
    ------
    tokens : ndarray of int (B,)
        The next token of each sequence, from the end of the shortest prompt on: drawn, or that of
        a longer prompt.

    Raises
    ------
    ValueError
        When the first token is asked for: if an id is outside the vocabulary, a prompt leaves no
        room, or the model can read fewer than ``longest`` - 1 tokens.
    """
    check_shape("start", start, "B", "P")
    check_generator("rng", rng)
    longest = model.longest + 1 if longest is None else longest
    check_positive_int("longest", longest)
    if longest > model.longest + 1:
        raise ValueError(
            f"longest: expected at most {model.longest + 1} tokens, got {longest}"
        )
    if end is not None:
        check_shape("end", np.array(end))
        check_ids("end", np.array(end), model.vocabulary)
    batch = len(start)
    prompts, given = prompts_of(model, start, start_lengths, (batch,), longest - 2)
    sampling = sampling or Sampling()
    rows, place = np.arange(batch), int(given.min())
    seen = np.zeros((batch, model.vocabulary), bool)
    seen[rows[:, np.newaxis], prompts[:, :place]] = True
    going = np.ones(batch, bool)
    logits, state = model.prefill(prompts[:, :place], model.begin(batch))
    while going.any() and place < longest:
        newest = draw(sampling.distribution(logits, seen), rng)
        forced = place < given
        newest[forced] = prompts[forced, place : place + 1].ravel()
        if end is not None:
            newest[~going] = end
            going &= forced | (newest != end)
        yield newest
        seen[rows, newest] = True
        place += 1
        if going.any() and place < longest:
            logits, state = model.step(newest, state)


def draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one token of each row of probabilities (B, V), never one of 0 (eq:draw)."""
    check_reals("probabilities", probabilities, "B", "V")
    below = np.cumsum(probabilities, axis=-1, dtype=np.float64)
    bounds = rng.random((len(below), 1)) * below[:, -1:]
    return (below <= bounds).sum(axis=-1)


def ruled_out(logits, keep):
    """Give -inf to what is not kept."""
    return np.where(keep, logits, logits.dtype.type(-np.inf))


def check_logits(logits):
    """Raise ``ValueError`` unless each row has a finite logit, and none is NaN or infinite."""
    check_floats("logits", logits, ..., "V")
    if logits.dtype.kind != "f":
        raise ValueError(f"logits: expected real numbers, got {logits.dtype}")
    if not np.isfinite(logits.max(axis=-1)).all():
        raise ValueError(
            "logits: expected finite numbers, or -inf beside them, got others"
        )


def check_share(name, share, zero=False):
    """Raise ``ValueError`` unless a share is above 0, or 0 where that may be, and at most 1."""
    check_real(name, share)
    if not (0 <= share <= 1 if zero else 0 < share <= 1):
        bounds = "from 0 to 1" if zero else "above 0, up to 1"
        raise ValueError(f"{name}: expected a number {bounds}, got {share}")
