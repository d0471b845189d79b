import numpy as np
import pytest
from helpers.witnesses import assert_close, randomise

from transformer_core.gradient_check import central_difference, check_gradients, complex_step
from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec
from transformer_core.tasks.search.sentence_encoder import SentenceEncoder

QUERIES = np.array([[2, 5, 3, 0], [2, 7, 6, 3], [2, 8, 3, 0]])
KEYS = np.array([[2, 5, 5, 8, 3], [2, 9, 3, 0, 0], [2, 4, 6, 3, 0]])


def sentence_encoder(rng, dropout=0.0):
    spec = LayerSpec(4, 2, 5, "post", dropout=dropout, dtype=np.float64)
    encoder = BertEncoder(spec, StackSpec(10, 5, 1), rng)
    return SentenceEncoder(randomise(encoder, rng), 0.5)


@pytest.mark.equation("eq:sentence")
@pytest.mark.parametrize(
    "witness, dtype, tolerance",
    [
        pytest.param(central_difference, float, 1e-6, marks=pytest.mark.thorough),
        (complex_step, complex, 1e-12),
    ],
)
def test_gradients_agree_with_both_witnesses(rng, witness, dtype, tolerance):
    model = sentence_encoder(rng)
    _, grads = model.loss_and_gradients(QUERIES, KEYS)
    parameters = {name: array.astype(dtype) for name, array in model.parameters().items()}
    model.encoder.set_parameters(parameters)
    errors = check_gradients(
        lambda: model.loss_and_gradients(QUERIES, KEYS)[0], model.parameters(), grads, witness
    )
    for name, error in errors.items():
        assert error.norm < tolerance, f"{name}: {error}"


def test_vectors_have_the_length_1_and_do_not_depend_on_padding(rng):
    model = sentence_encoder(rng)
    y, _ = model.forward(QUERIES)
    assert np.allclose((y * y).sum(axis=-1), 1)
    longer, _ = model.forward(np.pad(QUERIES, ((0, 0), (0, 1))))
    assert np.allclose(longer, y, atol=1e-12)


@pytest.mark.equation("eq:contrastive-parts")
@pytest.mark.parametrize("size", [1, 2, 3])
def test_in_parts_it_is_the_whole_batch(rng, size):
    model = sentence_encoder(rng)
    loss, grads = model.loss_and_gradients(QUERIES, KEYS)
    in_parts, found = model.loss_and_gradients_in_parts(QUERIES, KEYS, size)
    assert np.isclose(in_parts, loss, rtol=1e-13)
    assert_close(found, grads, 1e-10)


def test_a_part_drops_the_same_in_both_of_its_passes(rng):
    model = sentence_encoder(rng, dropout=0.3)

    def in_parts():
        return model.loss_and_gradients_in_parts(QUERIES, KEYS, 2, np.random.default_rng(3))

    bias = {"beta": model.parameters()["encoder.final_norm.beta"]}
    grads = {"beta": in_parts()[1]["encoder.final_norm.beta"]}
    errors = check_gradients(lambda: in_parts()[0], bias, grads, central_difference)
    assert errors["beta"].norm < 1e-7


def test_parts_with_losses_of_their_own_have_another_gradient(rng):
    model = sentence_encoder(rng)
    loss, _ = model.loss_and_gradients(QUERIES, KEYS)
    own = [model.loss_and_gradients(q[None], k[None]) for q, k in zip(QUERIES, KEYS, strict=True)]
    assert loss > 0.1
    for part, grads in own:  # without negatives there is nothing to learn
        assert part == 0 and not any(grad.any() for grad in grads.values())
