"""What models that ranks share are held to: the gradients and the training of one process."""

import numpy as np
import pytest
from helpers.witnesses import assert_close

from transformer_core.optim import AdamW
from transformer_core.optim.clipping import global_norm
from transformer_core.ranks import on_threads


def assert_gradients_of_one_process(cut, model, inputs, size, sequence=False):
    """Loss, gradients and norm of ``cut(model, ...)`` on ranks, with the same drops."""

    def generator():
        return np.random.default_rng(4)

    expected, gradients = model.loss_and_gradients(*inputs, rng=generator())

    def work(c):
        part = cut(model, c, sequence)
        loss, grads = part.loss_and_gradients(*inputs, rng=generator())
        assert grads.keys() == part.parameters().keys()
        return loss, part.gather(grads), part.norm(grads)

    results = on_threads(size, work)
    assert len({(loss, norm) for loss, _, norm in results}) == 1
    for loss, found, norm in results:
        assert loss == pytest.approx(expected, rel=1e-13)
        assert norm == pytest.approx(global_norm(gradients), rel=1e-13)
        assert_close(found, gradients, 1e-12)


class Training:
    """A model with its optimiser: whole, or cut."""

    def __init__(self, model, whole=None, *, batch):
        self.model, self.batch = model, batch
        # The biases of the keys have the gradient 0. A smaller eps makes steps of its rounding.
        self.optimizer = AdamW(model.parameters, 1e-2, eps=1e-6)
        if whole:
            parameters, moments, self.optimizer.steps = whole
            copy(model.cut(parameters), model.parameters())
            copy(model.cut(moments), self.optimizer.state())

    def run(self, steps):
        """Take the steps from..to, each with its own batch and drops; the norm is clipped."""
        losses = []
        for step in steps:
            rng = np.random.default_rng(step)
            loss, grads = self.model.loss_and_gradients(*self.batch(rng), rng=rng)
            self.optimizer.step(grads, max_norm=0.5)
            losses.append(loss)
        return losses

    def gathered(self):
        """Return what a checkpoint holds."""
        return (
            self.model.gather(self.model.parameters()),
            self.model.gather(self.optimizer.state()),
            self.optimizer.steps,
        )


def copy(arrays, into):
    for name, array in arrays.items():
        into[name][...] = array
