"""BERT with every layer cut over ranks."""

from copy import deepcopy
from typing import Any

import numpy as np

from transformer_core.distributed.pieces import cut, gather, norm_of_pieces
from transformer_core.distributed.sequence_parallel import (
    SequenceParallelEncoder,
    sequence_pair,
)
from transformer_core.distributed.tensor_parallel import (
    ColumnParallel,
    ParallelSelfAttention,
    RowParallel,
    check_divides,
    conjugate_pair,
)
from transformer_core.distributed.vocabulary_parallel import (
    ParallelReadout,
    VocabularyEmbedding,
    vocabulary_cross_entropy,
    vocabulary_cross_entropy_backward,
)
from transformer_core.layers.feed_forward import FeedForward
from transformer_core.models.bert import Bert
from transformer_core.optim.optimizer import Pieces
from transformer_core.ranks.communicator import Communicator


class TensorParallelBert(Bert):
    """One BERT on N ranks: heads, hidden widths and vocabulary cut, the rest on every rank.

    The parameters have the names of ``Bert``, and so have the gradients. ``forward`` returns the
    logits of this rank's words. An optimiser has to go number by number, as Adam does: Muon would
    take each piece of a matrix for a matrix.

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
        If N does not divide the heads, these share keys, the feed-forward layer is of another
        class, or the hidden width or the vocabulary is less than N.

    Source: Shoeybi et al. 2019; Korthikanti et al. 2022.
    """

    encoder: Any
    readout: Any

    def __init__(self, model: Bert, communicator: Communicator, sequence: bool = False):
        check_model(model, communicator)
        vars(self).update(vars(deepcopy(model)))
        self.communicator = communicator
        self.vocabulary = len(self.tokens.table)
        self.set_parameters(self.cut(self.parameters()))
        f, g = conjugate_pair(communicator)
        pair = sequence_pair(communicator) if sequence else (f, g)
        for layer in self.encoder.layers:
            layer.attention.branch = ParallelSelfAttention(
                layer.attention.branch, *pair, communicator
            )
            feed_forward = layer.feed_forward.branch
            feed_forward.hidden = ColumnParallel(feed_forward.hidden, pair[0])
            feed_forward.output = RowParallel(feed_forward.output, pair[1])
        if sequence:
            self.encoder = SequenceParallelEncoder(self.encoder, communicator)
        self.tokens = VocabularyEmbedding(self.tokens, self.vocabulary, g, communicator)
        self.readout = ParallelReadout(self.readout, f)

    def parameters(self) -> Pieces:
        """Return this rank's parameters, with the norm over all ranks."""
        return Pieces(super().parameters(), self.norm)

    def loss(self, logits: np.ndarray, targets: np.ndarray) -> tuple[float, Any]:
        """Return the loss of this rank's logits, the same on every rank."""
        return vocabulary_cross_entropy(
            logits, targets, self.vocabulary, self.communicator
        )

    def loss_backward(self, cache: Any) -> np.ndarray:
        """Return the gradient of this rank's logits."""
        return vocabulary_cross_entropy_backward(1, cache)

    def cut(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's pieces of whole parameters, gradients or moments."""
        return cut(arrays, self.communicator)

    def gather(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the whole of parameters, gradients or moments; every rank has to call it."""
        return gather(arrays, self.communicator)

    def norm(self, grads: dict[str, np.ndarray]) -> float:
        """Return the norm of the gradients of all ranks together."""
        return norm_of_pieces(grads, self.communicator)


def check_model(model, communicator):
    """Raise ``ValueError`` unless every rank gets a piece of all that is cut."""
    widths = {"vocabulary": len(model.tokens.table)}
    for layer in model.encoder.layers:
        attention, feed_forward = layer.attention.branch, layer.feed_forward.branch
        check_divides("heads", attention.heads, communicator)
        if attention.key_heads != attention.heads:
            raise ValueError(
                f"key_heads: expected as many as the {attention.heads} heads, "
                f"got {attention.key_heads}"
            )
        columns = attention.query_key_value.weight.shape[1]
        if columns != 3 * attention.edges[0]:
            raise ValueError("value_width: expected that of the keys")
        if not isinstance(feed_forward, FeedForward):
            raise ValueError(
                f"feed_forward: expected FeedForward, got {type(feed_forward).__name__}"
            )
        widths["hidden_width"] = feed_forward.hidden.weight.shape[1]
    for name, width in widths.items():
        if width < communicator.size:
            raise ValueError(
                f"{name}: expected at least {communicator.size}, one a rank, got {width}"
            )
