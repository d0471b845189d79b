r"""What a training step sends, holds and takes on many machines, from the sizes alone.

A message of n bytes takes :math:`\alpha + n \beta` seconds (eq:alpha-beta). Bytes and messages
are those that the counters of the communicators show; the optimiser is Adam, with 16 bytes a
parameter in float32 and in mixed precision. Every function raises ``ValueError`` for ranks, stages
or batches that are not positive whole numbers, and for bytes or tokens below 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    as_list,
    check_kind,
    check_not_negative,
    check_positive,
    check_positive_int,
    check_real,
    check_whole,
)


class Network(NamedTuple):
    """Seconds per message, and seconds per byte."""

    alpha: float
    beta: float


@dataclass(frozen=True)
class Load:
    """Messages and bytes of all ranks together, and how many of them send at the same time."""

    senders: int
    messages: float = 0
    bytes: float = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.senders, self.messages + other.messages, self.bytes + other.bytes
        )

    def __mul__(self, times: float) -> "Load":
        return Load(self.senders, times * self.messages, times * self.bytes)

    def seconds(self, network: Network) -> float:
        r""":math:`(\alpha \cdot \text{messages} + \beta \cdot \text{bytes})` a sender."""
        for name, value in check_kind("network", network, Network)._asdict().items():
            check_real(name, value)
        total = network.alpha * self.messages + network.beta * self.bytes
        return total / self.senders if self.senders else 0.0


def count(name, value):
    """Return a positive whole number as Python has them: NumPy's overflow."""
    check_positive_int(name, value)
    return int(value)


def check_sizes(sizes):
    """Raise ``ValueError`` unless they are ``Sizes``, and positive whole numbers."""
    for name, value in check_kind("sizes", sizes, Sizes)._asdict().items():
        check_whole(name, value, least=1)


def all_gather(ranks: int, nbytes: float) -> Load:
    """Every rank sends its piece to all others, or passes pieces on in a ring (eq:all-gather).

    ``nbytes`` are those of the whole array, of which each rank has a piece before, and all after.
    """
    ranks = count("ranks", ranks)
    check_not_negative("nbytes", nbytes)
    return Load(ranks, ranks * (ranks - 1), (ranks - 1) * nbytes)


reduce_scatter = all_gather  # backwards: each sends what the other would send to it


def all_reduce(ranks: int, nbytes: float) -> Load:
    """A reduce-scatter and an all-gather (eq:all-reduce)."""
    return reduce_scatter(ranks, nbytes) + all_gather(ranks, nbytes)


def recursive_doubling(ranks: int, nbytes: float) -> Load:
    """An all-reduce in which what a rank has summed doubles in each round.

    In one round each rank sends one whole array, the sum over the ranks before it, with its own
    array or without: so N - 1 others are summed in as many rounds as N - 1 has binary digits, for
    every N (Bruck & Ho 1993). Few messages, whole arrays.
    """
    ranks = count("ranks", ranks)
    check_not_negative("nbytes", nbytes)
    rounds = (ranks - 1).bit_length()
    return Load(ranks, ranks * rounds, ranks * rounds * nbytes)


def halving_doubling(ranks: int, nbytes: float) -> Load:
    """An all-reduce in 2 log N messages, with the bytes of a ring (eq:halving-doubling-seconds).

    The reduce-scatter exchanges halves with the partner N/2 away, quarters with the one N/4 away,
    and so on; the all-gather runs the same rounds backwards. N has to be a power of 2.
    """
    ranks = count("ranks", ranks)
    check_not_negative("nbytes", nbytes)
    if ranks & (ranks - 1):
        raise ValueError(f"ranks: expected a power of 2, got {ranks}")
    rounds = (ranks - 1).bit_length()
    return Load(ranks, 2 * ranks * rounds, 2 * (ranks - 1) * nbytes)


class Sizes(NamedTuple):
    """The sizes of a Transformer: n_theta, L, D, F, H, T; and the bytes of a number.

    A number of a parameter, gradient or activation has 4 bytes in float32. In mixed precision it
    has 2, and Adam 12 a parameter, with its copy of the parameters in float32.
    """

    parameters: int
    layers: int
    width: int
    hidden: int
    heads: int
    length: int
    item: int = 4

    def kept(self, tokens: float, norms: float = 1, cut: float = 1) -> float:
        """Bytes that a forward pass keeps of its layers (eq:cost-activations).

        Tensor parallelism ``cut``s what stands between f and g among so many ranks. On each of
        them it leaves the inputs of attention and feed-forward, and the norms, which sequence
        parallelism cuts along the positions, among as many ranks as ``norms`` says.
        """
        between = 4 * self.width + self.hidden + self.heads * self.length
        of_norms = 2 * self.width + 2
        of_layer = 2 * self.width + of_norms / norms + between / cut
        return tokens * self.layers * (self.item * of_layer + self.hidden / cut)


@dataclass(frozen=True)
class Cost:
    """What one step costs a rank.

    Attributes
    ----------
    load : Load
        What is sent, by all ranks together.
    memory : float
        Bytes on one rank: parameters, gradients, moments, and what the forward pass keeps.
    work : float
        The share of the step's operations that a rank takes the time of.
    """

    load: Load
    memory: float
    work: float

    def seconds(self, operations: float, rate: float, network: Network) -> float:
        """Return computing and sending, one after the other (eq:alpha-beta).

        Parameters
        ----------
        operations : float
            Of the step, all ranks together.
        rate : float
            Operations per second of one rank.
        network : Network
        """
        check_not_negative("operations", operations)
        check_positive("rate", rate)
        return self.work * operations / rate + self.load.seconds(network)


def data_parallel(sizes: Sizes, tokens: float, ranks: int) -> Cost:
    """The batch is cut, everything else is there on every rank (eq:data-parallel).

    Two more numbers go round, of 8 bytes each: the counted tokens and the loss.
    """
    check_sizes(sizes)
    ranks = count("ranks", ranks)
    check_not_negative("tokens", tokens)
    return Cost(
        all_reduce(ranks, sizes.item * sizes.parameters)
        + all_gather(ranks, 16 * ranks),
        16 * sizes.parameters + sizes.kept(tokens / ranks),
        1 / ranks,
    )


def sharded(sizes: Sizes, tokens: float, ranks: int, stage: int, rest: int = 0) -> Cost:
    """ZeRO: each rank keeps a part of the moments, gradients, parameters (eq:zero-memory).

    Stage 1 cuts the moments, stage 2 the gradients too, stage 3 the parameters as well. Layers
    are sent one by one, and what is in no layer once. Stage 3 keeps the ``rest``, so many
    parameters of no layer, from its forward to its backward pass, and of each layer the input
    alone: one layer at a time is gathered and computed again, a third more operations. Three more
    numbers go round, of 8 bytes each: the counted tokens, the loss and the norm.
    """
    check_sizes(sizes)
    if stage not in (1, 2, 3):
        raise ValueError(f"stage: expected 1, 2 or 3, got {stage}")
    ranks = count("ranks", ranks)
    check_not_negative("tokens", tokens)
    check_whole("rest", rest)
    whole = {1: 2, 2: 1, 3: 0}[stage] * sizes.item
    pieces, numbers = 2 * (sizes.layers + 1), 2 * sizes.parameters
    kept, work = sizes.kept(tokens / ranks), 1.0
    if stage == 3:
        pieces += sizes.layers
        in_layers = sizes.parameters - rest
        numbers += in_layers
        inputs = sizes.item * tokens / ranks * sizes.width * sizes.layers
        # Gathered parameters and their gradients: of the rest, and of one layer at a time.
        borrowed = 2 * sizes.item * (rest + in_layers / sizes.layers)
        kept, work = inputs + kept / sizes.layers + borrowed, 4 / 3
    load = all_gather(ranks, 0) * pieces
    load += Load(ranks, 0, (ranks - 1) * sizes.item * numbers)
    return Cost(
        load + all_gather(ranks, 8 * ranks) * 3,
        (whole + (16 - whole) / ranks) * sizes.parameters + kept,
        work / ranks,
    )


def tensor_parallel(
    sizes: Sizes,
    tokens: float,
    ranks: int,
    readout: float | None = None,
    sequence: bool = False,
    key_heads: int | None = None,
    norms: bool = False,
) -> Cost:
    """Each layer is cut, the tokens are the same on every rank (eq:megatron-bytes).

    ``readout`` is the number of tokens that are read out, M; all of them, if it is not given.
    With ``sequence`` the norms are cut along the positions (eq:sequence-parallel), in the same
    bytes, but for the two ends of the encoder and the gradients of what is still whole. What f'
    has gathered is kept whole, and not gathered once more for the backward pass. Where there are
    fewer ``key_heads`` than ranks the gradients of their copies are summed, and with ``norms`` of
    queries and keys the gradients of those (eq:gpt-ranks-bytes).
    """
    check_sizes(sizes)
    ranks = count("ranks", ranks)
    check_not_negative("tokens", tokens)
    M = tokens if readout is None else readout
    check_not_negative("readout", M)
    item = sizes.item
    rows = item * tokens * sizes.width
    load = all_reduce(ranks, rows) * (4 * sizes.layers + 1)
    load += all_reduce(ranks, item * M * sizes.width)
    load += all_reduce(ranks, item * M) + all_reduce(ranks, item * 2 * M)
    head = sizes.width // sizes.heads
    if key_heads is not None and ranks > count("key_heads", key_heads):
        of_head = all_reduce(ranks // key_heads, item * 2 * head * sizes.width)
        load += of_head * (sizes.layers * key_heads)
    if norms:
        load += all_reduce(ranks, item * 2 * head) * sizes.layers
    if sequence:
        whole = sizes.layers * 5 * sizes.width + 2 * sizes.width
        load += all_gather(ranks, rows) * 2 + all_reduce(ranks, item * whole)
    return Cost(
        load,
        16 * sizes.parameters / ranks
        + sizes.kept(tokens, norms=ranks if sequence else 1, cut=ranks),
        1 / ranks,
    )


def bubble(stages: int, batches: int) -> float:
    """Return the share of the time that a stage of a pipeline waits (eq:bubble).

    (p - 1) / (m + p - 1) for p stages and m micro-batches.
    """
    stages, batches = count("stages", stages), count("batches", batches)
    return (stages - 1) / (batches + stages - 1)


def pipeline(
    sizes: Sizes, tokens: float, stages: int, batches: int, recompute: bool = False
) -> Cost:
    """The layers are cut into stages, the batch into micro-batches that go through them.

    A boundary between two stages is crossed twice by each micro-batch; then the last stage tells
    the others the loss. One forward, one backward: a stage keeps at most as many micro-batches as
    there are stages. With ``recompute`` it keeps of all but one their inputs alone, and runs a
    forward pass once more, a third more operations (eq:pipeline-recompute).
    """
    check_sizes(sizes)
    stages, batches = count("stages", stages), count("batches", batches)
    check_not_negative("tokens", tokens)
    between = stages - 1
    load = Load(
        between, 2 * between * batches, 2 * between * sizes.item * tokens * sizes.width
    )
    live, kept, work = min(stages, batches), sizes.kept(tokens) / stages / batches, 1.0
    if recompute:
        inputs = sizes.item * tokens * sizes.width / batches
        kept, work = kept + (live - 1) * inputs, 4 / 3
    else:
        kept *= live
    return Cost(
        load + Load(between, between, 8 * between),
        16 * sizes.parameters / stages + kept,
        work / stages / (1 - bubble(stages, batches)),
    )


def local_steps(sizes: Sizes, tokens: float, ranks: int, every: int) -> Cost:
    """An outer step in ``every`` many: an all-reduce, and the weights (eq:local-bytes).

    The shared weights and their velocity take 8 bytes per parameter.
    """
    check_sizes(sizes)
    check_positive_int("every", every)
    ranks = count("ranks", ranks)
    check_not_negative("tokens", tokens)
    changes = sizes.item * sizes.parameters
    meeting = all_reduce(ranks, changes) + all_gather(ranks, 8 * ranks)
    return Cost(
        meeting * (1 / every),
        24 * sizes.parameters + sizes.kept(tokens / ranks),
        1 / ranks,
    )


def fit(loads: Sequence[Load], seconds: Sequence[float]) -> Network:
    """Fit alpha and beta to measured times, by the least squares of the relative errors.

    Raises
    ------
    ValueError
        If there are fewer than two loads, not as many as times, a time is not positive, or a
        load has no senders.
    """
    loads, seconds = as_list("loads", loads), as_list("seconds", seconds)
    if len(loads) != len(seconds) or len(loads) < 2:
        raise ValueError(
            f"seconds: expected one a load, two at least, "
            f"got {len(loads)} loads and {len(seconds)} times"
        )
    for load, time in zip(loads, seconds, strict=True):
        check_positive_int("senders", load.senders)
        check_positive("seconds", time)
    rows = [
        [load.messages / load.senders / s, load.bytes / load.senders / s]
        for load, s in zip(loads, seconds, strict=True)
    ]
    (alpha, beta), *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
    return Network(float(alpha), float(beta))
