"""One layer on many ranks: linear layers cut by column and by row, heads over ranks."""

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from transformer_core.distributed.pieces import Cut, CutLayer
from transformer_core.foundation.checks import check_shape
from transformer_core.layers.layer import Wrapper
from transformer_core.layers.linear import Linear
from transformer_core.layers.multi_head_attention import (
    MultiHeadSelfAttention,
    SelfAttentionCache,
)
from transformer_core.ops.linear import LinearCache, linear, linear_backward
from transformer_core.ops.softmax import check_keep
from transformer_core.ranks.communicator import Communicator
from transformer_core.ranks.flat import flatten, unflatten
from transformer_core.ranks.group import Group


class Collective(NamedTuple):
    """A linear map over all ranks, and its adjoint: its backward pass (eq:conjugate-f-g)."""

    forward: Callable[[np.ndarray], np.ndarray]
    backward: Callable[[np.ndarray], np.ndarray]

    @property
    def adjoint(self) -> "Collective":
        return Collective(self.backward, self.forward)


def conjugate_pair(communicator: Communicator) -> tuple[Collective, Collective]:
    r"""Return f and g, which stand before and behind what the ranks share (eq:conjugate-f-g).

    .. math:: f: x \mapsto (x, \dots, x), \qquad g = f^*: (y_0, \dots, y_{N-1}) \mapsto \sum_r y_r

    f gives the x that all ranks have to the part of each; backward, the cotangents of the parts
    are summed. g sums the parts; backward, each part gets the cotangent that all ranks have.

    Parameters
    ----------
    communicator : Communicator

    Returns
    -------
    f, g : Collective

    Source: Shoeybi et al. 2019.
    """
    f = Collective(lambda x: x, communicator.all_reduce)
    return f, f.adjoint


class ColumnParallel(CutLayer):
    r"""y_r = f(x) W_r + b_r, with the columns W_r of W of this rank r (eq:column-parallel).

    Parameters
    ----------
    linear : Linear
        The whole one. Not modified.
    f : Collective
    communicator : Communicator
    sections : tuple of int
        How wide the parts of y are of which each rank has its columns. Default: one part.
    copies : tuple of int
        How many ranks in turn have the same columns of each part: 1, or a divisor of N that is the
        same for all that are shared. Default: 1 (eq:shared-key-heads).

    Source: Shoeybi et al. 2019.
    """

    def __init__(
        self,
        linear: Linear,
        f: Collective,
        communicator: Communicator,
        sections: tuple[int, ...] = (),
        copies: tuple[int, ...] = (),
    ):
        cuts = {"weight": Cut(1, sections, copies), "bias": Cut(0, sections, copies)}
        super().__init__(linear, cuts, communicator)
        self.f = f
        size, sharers = communicator.size, max(copies, default=1)
        first = communicator.rank // sharers * sharers
        self.sharers = Group(communicator, range(first, first + sharers))
        own = [width * n // size for width, n in zip(sections, copies, strict=False)]
        self.shared_columns = np.repeat(
            np.array(copies) > 1, own
        )  # which of this rank's columns

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, LinearCache]:
        """Map x (..., D_in) to this rank's columns of y."""
        return self.layer.forward(self.f.forward(x))

    def backward(self, dy: np.ndarray, cache: LinearCache) -> tuple[np.ndarray, dict]:
        """Return dx, of all ranks' columns, and the gradients of this rank's parameters.

        Those of shared columns are summed over their ranks (eq:shared-key-heads-backward); dx is
        not, before f sums it over all.
        """
        dx, grads = self.layer.backward(dy, cache)
        if self.sharers.size > 1:
            terms = {n: grad[..., self.shared_columns] for n, grad in grads.items()}
            for name, total in all_reduce(self.sharers, terms).items():
                grads[name][..., self.shared_columns] = total
        return self.f.backward(dx), grads


class RowParallel(CutLayer):
    r"""y = g(x_r W_r) + b, with the rows W_r of W of this rank r (eq:row-parallel).

    b is added once, behind the sum: every rank has all of it.

    Parameters
    ----------
    linear : Linear
        The whole one. Not modified.
    g : Collective
    communicator : Communicator

    Source: Shoeybi et al. 2019.
    """

    def __init__(self, linear: Linear, g: Collective, communicator: Communicator):
        super().__init__(linear, {"weight": Cut(0)}, communicator)
        self.g = g

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, LinearCache]:
        """Map this rank's columns of x to y (..., D_out)."""
        part, cache = linear(x, self.weight)
        y = self.g.forward(part)
        return y if self.bias is None else y + self.bias, cache

    def backward(self, dy: np.ndarray, cache: LinearCache) -> tuple[np.ndarray, dict]:
        """Return the gradient of this rank's columns of x, and those of its parameters."""
        dx, dweight, _ = linear_backward(self.g.backward(dy), cache)
        grads = {"weight": dweight}
        if self.bias is not None:
            grads["bias"] = dy.reshape(-1, dy.shape[-1]).sum(axis=0)
        return dx, grads


class ParallelFeedForward(Wrapper):
    """A feed-forward layer with some of the hidden units on each rank (eq:column-parallel).

    x goes through f once, however many linear layers read it.

    Parameters
    ----------
    feed_forward : layer
        The whole one. Not modified. Its ``columns`` and ``rows`` name all its linear layers.
    f, g : Collective
    communicator : Communicator

    Raises
    ------
    ValueError
        If they do not, or there are fewer hidden units than ranks.

    Source: Shoeybi et al. 2019.
    """

    def __init__(
        self,
        feed_forward: Any,
        f: Collective,
        g: Collective,
        communicator: Communicator,
    ):
        columns = getattr(feed_forward, "columns", ())
        rows = getattr(feed_forward, "rows", ())
        parts = {name.partition(".")[0] for name in feed_forward.parameters()}
        if not rows or parts != {*columns, *rows}:
            raise ValueError(
                "feed_forward: expected one whose columns and rows name its linear layers, got "
                f"{type(feed_forward).__name__} with {columns} and {rows}"
            )
        own = copy(feed_forward)
        same = Collective(lambda x: x, lambda dx: dx)
        for name in columns:
            setattr(own, name, ColumnParallel(getattr(own, name), same, communicator))
        for name in rows:
            check_enough("hidden_width", len(getattr(own, name).weight), communicator)
            setattr(own, name, RowParallel(getattr(own, name), g, communicator))
        super().__init__(own)
        self.f = f

    def forward(
        self, x: np.ndarray, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, Any]:
        """Map x (..., D) to y (..., D), of all ranks' units."""
        return self.layer.forward(self.f.forward(x), rng=rng)

    def backward(self, dy: np.ndarray, cache: Any) -> tuple[np.ndarray, dict]:
        """Return dx, of all ranks' units, and the gradients of this rank's parameters."""
        dx, grads = self.layer.backward(dy, cache)
        return self.f.backward(dx), grads


class ParallelSelfAttention(Wrapper):
    """Self-attention with H / N of the H heads on each of N ranks (eq:heads-over-ranks).

    Where there are G < N heads of keys, groups of N / G ranks have copies of one
    (eq:shared-key-heads). What queries and keys go through is whole on every rank. The gradients
    of both are sums over what each rank has made of its copy.

    Parameters
    ----------
    attention : MultiHeadSelfAttention
        The whole one. Not modified.
    f, g : Collective
        Before the queries, keys and values, and behind the output's matrix product.
    communicator : Communicator

    Raises
    ------
    ValueError
        If the ranks do not divide the heads, or neither divide those of the keys nor are a
        multiple of them.

    Source: Shoeybi et al. 2019.
    """

    def __init__(
        self,
        attention: MultiHeadSelfAttention,
        f: Collective,
        g: Collective,
        communicator: Communicator,
    ):
        check_divides("heads", attention.heads, communicator)
        size, width = communicator.size, attention.output.weight.shape[1]
        key_heads = attention.key_heads
        if key_heads % size and size % key_heads:
            raise ValueError(
                f"key_heads: expected a multiple or a divisor of the {size} ranks, "
                f"got {key_heads}"
            )
        sharers = max(size // key_heads, 1)  # ranks that have the same keys
        key_width, value_width = attention.spec.head_widths(width)
        spec = replace(
            attention.spec,
            heads=attention.heads // size,
            key_heads=max(key_heads // size, 1),
            key_width=key_width,
            value_width=value_width,
        )
        rng = np.random.default_rng(0)  # of what gives way to the pieces
        dtype, dropout = attention.output.weight.dtype, attention.dropout
        own: Any = MultiHeadSelfAttention(width, spec, rng, dtype, dropout)
        widths = attention.spec.projected_widths(width)
        own.query_key_value = ColumnParallel(
            attention.query_key_value, f, communicator, widths, (1, sharers, sharers)
        )
        own.output = RowParallel(attention.output, g, communicator)
        own.query_transform = deepcopy(attention.query_transform)
        own.key_transform = deepcopy(attention.key_transform)
        super().__init__(own)
        self.communicator = communicator
        self.norm_names = [n for n in own.parameters() if "_transform." in n]

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, SelfAttentionCache]:
        """Attend in this rank's heads, of which ``keep`` and ``rng`` are for all."""
        check_shape("x", x, "B", "T", "D")
        if keep is not None:
            heads = self.heads * self.communicator.size
            check_keep(keep, (len(x), heads, *np.shape(keep)[-2:]))
            if keep.ndim > 2 and keep.shape[-3] > 1:
                pieces = np.split(keep, self.communicator.size, axis=-3)
                keep = pieces[self.communicator.rank]
        return self.layer.forward(x, keep, own_draws(rng, self.communicator))

    def backward(
        self, dy: np.ndarray, cache: SelfAttentionCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx, of all ranks' heads, and the gradients of this rank's parameters.

        Those of what queries and keys go through are summed over all ranks
        (eq:qk-norm-over-ranks).
        """
        dx, grads = self.layer.backward(dy, cache)
        terms = {name: grads[name] for name in self.norm_names}
        return dx, grads | all_reduce(self.communicator, terms)


class OwnDraws:
    """A generator that draws for a whole array, and returns the piece of it that is this rank's.

    What the ranks drop of their pieces together is what one rank drops of the whole.
    """

    def __init__(self, rng: Any, communicator: Communicator):
        self.rng, self.communicator = rng, communicator

    def __deepcopy__(self, memo: dict) -> "OwnDraws":
        return OwnDraws(deepcopy(self.rng, memo), self.communicator)

    def random(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """Draw uniform numbers for a piece, one of N equal ones along axis 1."""
        batch, length, *others = shape
        size = self.communicator.size
        whole = self.rng.random((batch, length * size, *others), dtype)
        return np.split(whole, size, axis=1)[self.communicator.rank]


def all_reduce(communicator, arrays):
    """Sum arrays over ranks in one message, under their names."""
    if not arrays:
        return {}
    return unflatten(communicator.all_reduce(flatten(arrays)), arrays)


def own_draws(rng, communicator):
    """Return a generator for pieces along axis 1, or None in evaluation."""
    if rng is None or isinstance(rng, OwnDraws):
        return rng
    return OwnDraws(rng, communicator)


def check_divides(name: str, length: int, communicator: Communicator) -> None:
    """Raise ``ValueError`` unless a length can be cut into one equal piece a rank."""
    if length % communicator.size:
        raise ValueError(
            f"{name}: expected a multiple of the {communicator.size} ranks, got {length}"
        )


def check_enough(name: str, length: int, communicator: Communicator) -> None:
    """Raise ``ValueError`` unless every rank gets something of a length."""
    if length < communicator.size:
        raise ValueError(
            f"{name}: expected at least {communicator.size}, one a rank, got {length}"
        )
