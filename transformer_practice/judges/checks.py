"""Two gradient checks of whole models: the one that many projects ship, and a better one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from transformer_core import ops
from transformer_core.foundation.names import check_fit
from transformer_core.gradient_check import central_difference, complex_step, gradient_error
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Bert, EncoderDecoder, StackSpec
from transformer_core.tasks.reconstruction import Reconstructor

V, T, S, D, H, F = 7, 5, 4, 6, 2, 8
UNEQUAL = AttentionSpec(H, key_width=4, value_width=5)


class Case(NamedTuple):
    name: str
    build: Callable  # from a dtype to a model
    batch: tuple  # what ``loss_and_gradients`` is given
    settings: dict = {}


def fresh_check():
    """Compare the gradients of new models, on one sequence, with central differences.

    Scales are 1, biases 0; nothing is masked, padded or dropped. An error of 1e-4 passes.

    Returns
    -------
    str or None
        What fails first.
    """
    return first_failure(FRESH, lambda model: model, central_difference, 1e-4)


def generic_check(witness=complex_step, tolerance=1e-12):
    """Compare the gradients of models at a random point with a witness.

    Three sequences with padding, dropout, tied tables, repeated tokens, and a query that may
    attend to nothing.

    Returns
    -------
    str or None
        What fails first.
    """
    return first_failure(GENERIC, randomised, witness, tolerance)


def first_failure(cases, prepare, witness, tolerance):
    dtype = np.complex128 if witness is complex_step else np.float64
    for name, build, batch, settings in cases:
        model = prepare(build(dtype))
        try:
            with np.errstate(all="ignore"):
                errors = slope_errors(model, batch, witness, **settings)
        except (ValueError, IndexError, TypeError) as error:
            return f"{name}: {error}"
        worst = max(errors, key=errors.get)
        if not errors[worst] < tolerance:
            return f"{name}: error {errors[worst]:.0e} in {worst}"
    return None


def slope_errors(model, batch, witness, **settings):
    """Compare the slopes of the loss along one random direction in each parameter array."""
    rng = np.random.default_rng(2)
    parameters = model.parameters()

    def loss_and_gradients():
        # The same dropout masks in each call.
        rng = np.random.default_rng(3)
        return model.loss_and_gradients(*batch, rng=rng, **settings)

    _, grads = loss_and_gradients()
    check_fit("grads", grads, parameters)
    scale = 1e-3 * max(np.linalg.norm(grad) for grad in grads.values())
    model.backward = lambda *_: (None, None)  # from here on the loss will do
    errors = {}
    for name, array in parameters.items():
        start, direction = array.copy(), rng.normal(size=array.shape)
        direction /= np.linalg.norm(direction)

        def loss(step, array=array, start=start, direction=direction):
            array[...] = start + step * direction
            return loss_and_gradients()[0]

        measured = witness(loss, np.zeros(1, array.dtype))
        array[...] = start
        slope = np.array([(grads[name].real * direction).sum()])
        errors[name] = gradient_error(slope, measured, scale).norm
    del model.backward
    return errors


def randomised(model):
    """Move every parameter of a new model away from where it starts."""
    rng = np.random.default_rng(1)
    for array in model.parameters().values():
        array += 0.5 * rng.normal(size=array.shape)
    return model


def reconstructor(placement, **settings):
    return lambda dtype: Reconstructor(
        LayerSpec(D, H, F, placement, dtype=dtype, **settings),
        2,
        np.random.default_rng(0),
        final_norm=placement == "pre",
    )


def encoder_decoder(dropout=0.0, **settings):
    return lambda dtype: EncoderDecoder(
        LayerSpec(D, UNEQUAL, F, "pre", dropout=dropout, dtype=dtype),
        StackSpec(V, S, 1),
        StackSpec(V, T, 2),
        np.random.default_rng(0),
        **settings,
    )


def bert(feed_forward="relu", dropout=0.0, **settings):
    attention = AttentionSpec(H, bias=False)
    return lambda dtype: Bert(
        LayerSpec(D, attention, F, "post", NormSpec(), feed_forward, dropout, dtype),
        StackSpec(V, T, 1),
        np.random.default_rng(0),
        **settings,
    )


def rows(sequences):
    return np.random.default_rng(4).normal(size=(sequences, T, D))


SOURCE = np.array([[3, 1, 3, 5], [2, 2, 0, 0], [6, 1, 4, 0]])
SOURCE_LENGTHS = np.array([4, 2, 3])
TARGET = np.array([[1, 4, 5, 4, 2, 0], [1, 6, 2, 0, 0, 0], [1, 3, 3, 3, 5, 2]])
TARGET_LENGTHS = np.array([5, 3, 6])
IDS = np.array([[3, 1, 3, 5, 2], [2, 2, 4, 0, 0], [6, 1, 4, 6, 0]])
RIGHT_IDS = np.array([[3, 4, 3, 5, 1], [2, 5, 4, 0, 0], [6, 1, 2, 3, 0]])
MASKED = np.array([[0, 1, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0]], bool)
KEEP = ops.padding_keep(np.array([5, 3, 4]), T)
SOME_KEEP = np.broadcast_to(KEEP, (3, 1, T, T)).copy()
SOME_KEEP[1, 0, 2] = False  # a query that may attend to nothing
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0]])

FRESH = [
    Case("Reconstructor", reconstructor("post"), (rows(1), rows(1)[:, ::-1])),
    Case(
        "EncoderDecoder",
        encoder_decoder(),
        (SOURCE[:1], SOURCE_LENGTHS[:1], TARGET[:1, :5], TARGET_LENGTHS[:1]),
    ),
    Case("Bert", bert(), (IDS[:1], RIGHT_IDS[:1], MASKED[:1])),
]
GENERIC = [
    Case(
        f"Reconstructor, {placement}, {activation}",
        reconstructor(placement, feed_forward=activation, dropout=0.3),
        (rows(3), rows(3)[::-1], SOME_KEEP),
    )
    for placement, activation in [("post", "gelu"), ("pre", "gelu_tanh")]
] + [
    Case(
        "EncoderDecoder",
        encoder_decoder(shared=True, dropout=0.3),
        (SOURCE, SOURCE_LENGTHS, TARGET, TARGET_LENGTHS),
        {"smoothing": 0.1},
    ),
    Case(
        "Bert",
        bert(tied=True, segments=2, embedding_norm=True, feed_forward="gelu", dropout=0.3),
        (IDS, RIGHT_IDS, MASKED, KEEP, SEGMENTS),
    ),
]
