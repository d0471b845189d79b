"""The state of a training as one process alone has it, one array at a time."""

from collections.abc import Callable, Iterator

import numpy as np

from transformer_core.foundation.names import stand_in
from transformer_core.optim.optimizer import Optimizer
from transformer_core.training.run import in_checkpoint


class WholeState:
    """What a checkpoint holds of a training whose ranks have pieces, or everything.

    No rank ever needs memory for more than its pieces and one whole array.

    Parameters
    ----------
    optimizer : Optimizer
        Of this rank's pieces.
    parameters : dict of str to ndarray, optional
        The shapes and dtypes of the whole parameters, by all their names. Default: those of the
        optimiser, which every rank has everything of.
    join : callable
        ``join(name, piece)`` returns the whole of a parameter, or of an average, on rank 0. All
        ranks call it; a rank without a part of it, with None.
    cut : callable
        ``cut(name, array)`` returns this rank's piece of it.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        parameters: dict[str, np.ndarray] | None = None,
        join: Callable = lambda name, piece: piece,
        cut: Callable = lambda name, array: array,
    ):
        self.join, self.cut = join, cut
        self.pieces = in_checkpoint(optimizer.parameters, optimizer.averages)
        averages = optimizer.averages
        if parameters is None:
            parameters = optimizer.parameters
        else:
            averages = dict.fromkeys(averages, parameters)
        whole = in_checkpoint(parameters, averages)
        self.like = {key: stand_in(array) for key, array in whole.items()}
        named = {
            average: {n: n for n in arrays} for average, arrays in averages.items()
        }
        self.names = in_checkpoint({n: n for n in parameters}, named)

    def gather(self) -> tuple[dict[str, np.ndarray], Iterator]:
        """Return what is like the arrays, and the whole ones in the order of their names.

        Each is there on rank 0 when all ranks ask for it. What goes into
        :meth:`Run.save_arrays`.
        """
        order = sorted(self.names.items())
        return self.like, (self.join(name, self.pieces.get(key)) for key, name in order)

    def scatter(self, key: str, array: np.ndarray) -> None:
        """Go on from a whole array: copy this rank's piece of it to its place."""
        piece = self.pieces.get(key)
        if piece is not None:
            piece[...] = self.cut(self.names[key], array)
