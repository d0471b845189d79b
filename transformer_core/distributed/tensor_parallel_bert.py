"""BERT with every layer cut over ranks."""

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from transformer_core.distributed.pieces import cut, cuts_of, gather, norm_of_pieces
from transformer_core.distributed.sequence_parallel import (
    SequenceParallelEncoder,
    sequence_pair,
)
from transformer_core.distributed.tensor_parallel import (
    ParallelFeedForward,
    ParallelSelfAttention,
    conjugate_pair,
)
from transformer_core.distributed.vocabulary_parallel import (
    ParallelReadout,
    VocabularyEmbedding,
    vocabulary_cross_entropy,
    vocabulary_cross_entropy_backward,
)
from transformer_core.layers.layer import Wrapper
from transformer_core.models.bert import Bert
from transformer_core.optim.optimizer import Pieces
from transformer_core.ranks.communicator import Communicator


class TensorParallelBert(Wrapper):
    """One BERT on N ranks: heads, hidden widths and vocabulary cut, the rest on every rank.

    It is a ``Bert`` of layers that are cut. The parameters have the names that they had, and so
    have the gradients. ``forward`` returns the logits of this rank's words. An optimiser has to go
    number by number, as Adam does: Muon would take each piece of a matrix for a matrix.

    Parameters
    ----------
    model : Bert
        The whole model, the same on every rank. Not modified.
    communicator : Communicator
    sequence : bool
        True: between the cut layers each rank has a piece of every sequence.

    Raises
    ------
    ValueError
        If N does not divide the heads of queries or those of keys, a feed-forward layer does not
        say how it is cut, or the hidden width or the vocabulary is less than N.

    Source: Shoeybi et al. 2019; Korthikanti et al. 2022.
    """

    def __init__(self, model: Bert, communicator: Communicator, sequence: bool = False):
        own: Any = deepcopy(model)
        f, g = conjugate_pair(communicator)
        pair = sequence_pair(communicator) if sequence else (f, g)
        for layer in own.encoder.layers:
            for residual, parallel in (
                (layer.attention, ParallelSelfAttention),
                (layer.feed_forward, ParallelFeedForward),
            ):
                residual.branch = parallel(residual.branch, *pair, communicator)
        if sequence:
            own.encoder = SequenceParallelEncoder(own.encoder, communicator)
        own.tokens = VocabularyEmbedding(own.tokens, g, communicator)
        own.readout = ParallelReadout(own.readout, f, communicator)
        own.loss = partial(
            vocabulary_cross_entropy,
            vocabulary=own.tokens.vocabulary,
            communicator=communicator,
        )
        own.loss_backward = vocabulary_cross_entropy_backward
        super().__init__(own)
        self.communicator, self.cuts = communicator, cuts_of(own)

    def parameters(self) -> Pieces:
        """Return this rank's parameters, with the norm over all ranks."""
        return Pieces(super().parameters(), self.norm)

    def cut(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's pieces of whole parameters, gradients or moments."""
        return cut(arrays, self.cuts, self.communicator)

    def gather(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the whole of parameters, gradients or moments; every rank has to call it."""
        return gather(arrays, self.cuts, self.communicator)

    def norm(self, grads: dict[str, np.ndarray]) -> float:
        """Return the norm of the gradients of all ranks together."""
        return norm_of_pieces(grads, self.cuts, self.communicator)
