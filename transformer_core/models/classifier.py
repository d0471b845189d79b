"""A classifier of sequences: an encoder that is there already, and a new head."""

from copy import copy
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_booleans, check_kind, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.models.bert import Bert, BertInputCache
from transformer_core.models.stack import StackCache
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.mean_pool import MeanPoolCache, mean_pool, mean_pool_backward


class ClassifierCache(NamedTuple):
    input: BertInputCache
    encoder: StackCache
    pooled: MeanPoolCache
    head: LinearCache


class Classifier(Layer):
    """C logits per sequence: the encoder's rows, their mean, a linear layer (eq:classifier).

    Parameters
    ----------
    bert : Bert
        Its layers are used as they are, and not copied; its output layer is not used.
    classes : int
        C.
    rng : numpy.random.Generator
    first : bool
        True: the row of the first position stands for the sequence, in place of the mean.

    ``classifier.bert = Frozen(classifier.bert)`` trains the head alone.

    Source: Devlin et al. 2019.
    """

    def __init__(
        self, bert: Bert, classes: int, rng: np.random.Generator, first: bool = False
    ):
        check_kind("bert", bert, Bert)
        check_kind("first", first, bool)
        self.loss, self.loss_backward = cross_entropy, cross_entropy_backward
        self.first = first
        table = bert.tokens.table
        self.bert = copy(bert)
        self.bert.readout = None
        self.head = Linear(table.shape[1], classes, rng, table.dtype)

    def forward(
        self,
        ids: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, ClassifierCache]:
        """Map ids (B, T) to logits (B, C).

        ``keep`` (B, T) is False at padding, to which nobody attends and which is not averaged.
        ``rng`` draws what is dropped in training; None: evaluation.
        """
        check_shape("ids", ids, "B", "T")
        if keep is None:
            keep = np.ones(ids.shape, bool)
        check_booleans("keep", keep, *ids.shape)
        x, input_cache = self.bert.embed(ids, rng=rng)
        h, encoder_cache = self.bert.encoder.forward(
            x, keep[:, np.newaxis, np.newaxis], rng
        )
        if self.first:
            keep = keep & (np.arange(ids.shape[1]) == 0)
        pooled, pool_cache = mean_pool(h, keep)
        logits, head_cache = self.head.forward(pooled)
        return logits, ClassifierCache(
            input_cache, encoder_cache, pool_cache, head_cache
        )

    def backward(
        self, dlogits: np.ndarray, cache: ClassifierCache
    ) -> tuple[None, dict]:
        """Return None, for the ids, and the gradients (eq:classifier-backward).

        If nothing below the head is trained, nothing below it is computed.
        """
        grads = {}
        dpooled, grads["head"] = self.head.backward(dlogits, cache.head)
        if self.bert.parameters():
            dh = mean_pool_backward(dpooled, cache.pooled)
            dx, encoder = self.bert.encoder.backward(dh, cache.encoder)
            below = join({"encoder": encoder})
            grads["bert"] = below | join(self.bert.embed_backward(dx, cache.input))
        return None, join(grads)

    def loss_and_gradients(
        self,
        ids: np.ndarray,
        labels: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[float, dict]:
        """Return the mean cross-entropy of the labels (B,) and the gradients of what is trained."""
        logits, cache = self.forward(ids, keep, rng)
        check_shape("labels", labels, len(ids))
        loss, loss_cache = self.loss(logits, labels)
        _, grads = self.backward(self.loss_backward(1, loss_cache), cache)
        return loss, grads
