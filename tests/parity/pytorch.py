"""PyTorch as a witness: its own functions on the same arrays, and its autograd."""

from contextlib import contextmanager
from unittest import mock

import numpy as np
from helpers.witnesses import gradients_of, named, normal
from parity.twins import F, run, torch

from transformer_core.gradient_check import gradient_error

# Both sides round every operation, each in an order of its own, so that they differ by a multiple
# of eps, the same multiple in both dtypes: most of all in an attention whose softmax is saturated,
# by 1500 eps. The tolerance is 1.1e-12 in float64 and 6e-4 in float32.
ROUNDINGS = 5000


class Parity:
    """Compares outputs and all gradients with PyTorch's, under a random cotangent."""

    def __init__(self, dtype, rng, record):
        self.dtype, self.rng, self.record = dtype, rng, record

    def op(self, op, twin):
        """Compare an ``Op`` with a function that takes the same arguments as tensors."""
        arrays = op.draw(self.rng, self.dtype)
        y, cache = op.forward(*arrays.values(), **op.settings)
        self.compare(
            arrays,
            y,
            lambda dy: op.gradients(dy, cache),
            lambda leaves: twin(*leaves.values(), **tensors(op.settings)),
        )

    def case(self, case):
        """Compare a ``LayerCase`` with its twin."""
        layer, *inputs = case.draw(self.rng, self.dtype)
        self.layer(layer, inputs, case.context)

    def layer(self, layer, inputs, context, twin=run):
        """Compare a layer with its twin. The inputs have gradients, the context has none."""
        original = getattr(layer, "layer", layer)  # without what wraps it for the tests
        y, cache = layer.forward(*inputs, *context)

        def theirs(leaves):
            given = [leaves[name] for name in named(inputs)]
            return twin(original, leaves, *given, *tensors(context))

        self.compare(
            named(inputs) | layer.parameters(), y, lambda dy: gradients_of(layer, dy, cache), theirs
        )

    def loss(self, model, context, twin, **options):
        """Compare ``loss_and_gradients``, which takes the context."""
        options["rng"] = np.random.default_rng(3)
        loss, grads = model.loss_and_gradients(*context, **options)
        self.compare(
            model.parameters(),
            loss,
            lambda dloss: {name: dloss * grad for name, grad in grads.items()},
            lambda leaves: twin(model, leaves, *tensors(context)),
        )

    def compare(self, arrays, y, backward, theirs):
        """Compare y and its gradients with what PyTorch makes of the same arrays."""
        leaves = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
        with dropout_from(np.random.default_rng(3)):
            y_theirs = theirs(leaves)
        assert y_theirs.dtype == getattr(torch, self.dtype.__name__)
        dy = normal(self.rng, np.shape(y), self.dtype)
        y_theirs.backward(torch.tensor(dy))
        gradients = {name: grad for name, grad in backward(dy).items() if grad is not None}
        assert gradients.keys() == leaves.keys()

        scale = 1e-3 * max(np.linalg.norm(gradient) for gradient in gradients.values())
        errors = {"output": error(y, y_theirs.detach())}
        for name, leaf in leaves.items():
            errors[name] = error(gradients[name], leaf.grad, scale)
        if self.dtype == np.float64:
            self.record("witness", "pytorch")
            self.record("error", max(errors.values()))
        for name in errors:
            assert errors[name] <= ROUNDINGS * np.finfo(self.dtype).eps, name


def error(ours, theirs, scale=0.0):
    return gradient_error(np.asarray(ours), theirs.numpy(), scale).norm


def tensors(arrays):
    """Make tensors of the arrays among some arguments."""
    if isinstance(arrays, dict):
        return dict(zip(arrays, tensors(arrays.values()), strict=True))
    return [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]


@contextmanager
def dropout_from(rng):
    """Let PyTorch draw its dropout masks from our generator, in the order in which it asks."""
    attend = F.scaled_dot_product_attention

    def draw(rate, *shape):
        return torch.from_numpy(rng.random(shape, np.float32) >= rate)

    def dropout(x, p, training=True, inplace=False):
        return x * draw(p, *x.shape) / (1 - p) if p else x

    def attention(query, key, value, attn_mask, dropout_p=0.0, is_causal=False):
        if not dropout_p:
            return attend(query, key, value, attn_mask, dropout_p, is_causal)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0, -torch.inf).to(query)
        mask = draw(dropout_p, *query.shape[:-1], key.shape[-2])
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, mask
        )[0]

    with (
        mock.patch.object(F, "dropout", dropout),
        mock.patch.object(F, "scaled_dot_product_attention", attention),
    ):
        yield
