"""Models with every layer cut over ranks: BERT and GPT."""

from copy import deepcopy
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
from transformer_core.models.gpt import Gpt
from transformer_core.optim.optimizer import Pieces
from transformer_core.ranks.communicator import Communicator


class TensorParallelModel(Wrapper):
    """One model on N ranks: heads, hidden widths and vocabulary cut, the rest on every rank.

    It is the model, of layers that are cut. The parameters have the names that they had, and so
    have the gradients. ``forward`` returns the logits of this rank's tokens. An optimiser has to go
    number by number, as Adam does: Muon would take each piece of a matrix for a matrix.

    Parameters
    ----------
    model : Bert or Gpt
        The whole model, the same on every rank. Not modified.
    communicator : Communicator
    sequence : bool
        True: between the cut layers each rank has a piece of every sequence.

    Raises
    ------
    ValueError
        If N does not divide the heads of queries, or neither divides those of keys nor is a
        multiple of them; a feed-forward layer does not say how it is cut; or the hidden width or
        the vocabulary is less than N.

    Source: Shoeybi et al. 2019; Korthikanti et al. 2023.
    """

    stack: str  # the attribute with the layers

    def __init__(self, model: Any, communicator: Communicator, sequence: bool = False):
        own: Any = deepcopy(model)
        f, g = conjugate_pair(communicator)
        pair = sequence_pair(communicator) if sequence else (f, g)
        stack = getattr(own, self.stack)
        for layer in stack.layers:
            for residual, parallel in (
                (layer.attention, ParallelSelfAttention),
                (layer.feed_forward, ParallelFeedForward),
            ):
                residual.branch = parallel(residual.branch, *pair, communicator)
        if sequence:
            setattr(own, self.stack, SequenceParallelEncoder(stack, communicator))
        own.tokens = VocabularyEmbedding(own.tokens, g, communicator)
        own.readout = ParallelReadout(own.readout, f, communicator)
        vocabulary = own.tokens.vocabulary

        def loss(logits, targets, weights=None):
            if weights is not None:
                raise ValueError(
                    "weights: expected None, on ranks every target counts the same, "
                    f"got {type(weights).__name__}"
                )
            return vocabulary_cross_entropy(logits, targets, vocabulary, communicator)

        own.loss, own.loss_backward = loss, vocabulary_cross_entropy_backward
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


class TensorParallelBert(TensorParallelModel):
    """A BERT on N ranks, see :class:`TensorParallelModel`."""

    stack = "encoder"

    def __init__(self, model: Bert, communicator: Communicator, sequence: bool = False):
        super().__init__(model, communicator, sequence)


class TensorParallelGpt(TensorParallelModel):
    """A GPT on N ranks, see :class:`TensorParallelModel`; every target counts the same.

    The table of a tied model is cut once, for both its uses (eq:tied-vocabulary-parallel).
    """

    stack = "decoder"

    def __init__(self, model: Gpt, communicator: Communicator, sequence: bool = False):
        if model.pairs:
            raise ValueError(
                "model: expected no rows for pairs of tokens, which ranks do not divide, got "
                f"{len(model.pairs.table)}"
            )
        super().__init__(model, communicator, sequence)
