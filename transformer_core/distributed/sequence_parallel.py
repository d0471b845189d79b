"""The norms and the dropout between the cut layers: each rank has a piece of every sequence."""

import numpy as np

from transformer_core.distributed.pieces import cuts_of, replicated
from transformer_core.distributed.tensor_parallel import (
    Collective,
    ParallelSelfAttention,
    check_divides,
    own_draws,
)
from transformer_core.foundation.checks import check_floats, check_kind
from transformer_core.layers.layer import Wrapper, member
from transformer_core.models.stack import Encoder, StackCache
from transformer_core.ranks.communicator import Communicator
from transformer_core.ranks.flat import flatten, unflatten


def sequence_pair(communicator: Communicator) -> tuple[Collective, Collective]:
    r"""Return f' and g', which take the place of f and g (eq:sequence-parallel).

    f' joins the pieces (B, T / N, D) of all ranks to x (B, T, D); backward, the cotangents of x
    are summed, and each rank gets its piece of the sum. g' does the same the other way round.

    Parameters
    ----------
    communicator : Communicator

    Returns
    -------
    f, g : Collective

    Source: Korthikanti et al. 2023.
    """
    f = Collective(
        lambda x: communicator.all_gather(x, axis=1),
        lambda dx: communicator.reduce_scatter(dx, axis=1),
    )
    return f, f.adjoint


def join_pieces(communicator: Communicator) -> Collective:
    """Return what joins pieces (B, T / N, D) to a y (B, T, D) that all ranks go on with alike.

    Their cotangents of y are the same then, and not parts of a sum: each rank takes its piece of
    its own (eq:sequence-parallel).
    """

    return Collective(
        lambda y: communicator.all_gather(y, axis=1),
        lambda dy: np.split(dy, communicator.size, axis=1)[communicator.rank],
    )


class SequenceParallelEncoder(Wrapper):
    """An encoder between whose cut layers each rank has T / N positions (eq:sequence-parallel).

    Every rank gives it the whole x, and gets the whole y.

    Parameters
    ----------
    encoder : Encoder
        Its layers must already be cut, between f' and g'.
    communicator : Communicator

    Raises
    ------
    ValueError
        If the layers are not cut; from its passes, if the ranks do not divide T, or as
        :class:`Encoder` does.

    Source: Korthikanti et al. 2023.
    """

    def __init__(self, encoder: Encoder, communicator: Communicator):
        for layer in encoder.layers:
            check_kind("encoder", layer.attention.branch, ParallelSelfAttention)
        super().__init__(encoder)
        self.communicator, self.cuts = communicator, cuts_of(encoder)
        self.join = join_pieces(communicator)
        summed = {
            f"{member('layers', i)}.attention.branch.{name}"
            for i, layer in enumerate(encoder.layers)
            for name in layer.attention.branch.norm_names
        }
        names = replicated(encoder.parameters(), self.cuts)
        self.partial_names = [name for name in names if name not in summed]

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, StackCache]:
        """Map x (B, T, D) to y (B, T, D), as :class:`Encoder` does; the ranks have to divide T."""
        self.check_positions("x", x)
        rng = own_draws(rng, self.communicator)
        piece, cache = self.layer.forward(self.join.backward(x), keep, rng)
        return self.join.forward(piece), cache

    def backward(self, dy: np.ndarray, cache: StackCache) -> tuple[np.ndarray, dict]:
        """Return dx (B, T, D) and the gradients.

        Those of the norms and of the biases behind g' are summed over the positions of all ranks;
        attention has summed its own.
        """
        self.check_positions("dy", dy)
        dpiece, grads = self.layer.backward(self.join.backward(dy), cache)
        parts = {name: grads[name] for name in self.partial_names}
        total = self.communicator.all_reduce(flatten(parts))
        return self.join.forward(dpiece), grads | unflatten(total, parts)

    def check_positions(self, name, x):
        """Raise ``ValueError`` unless x is (B, T, D), and the ranks divide T."""
        check_floats(name, x, "B", "T", self.width)
        check_divides("positions", x.shape[1], self.communicator)
