"""What has been proved about the right package, asked of the one at hand: no witness needed."""

from itertools import product

import numpy as np

from transformer_core import ops
from transformer_core.layers import (
    Embedding,
    LayerNorm,
    LayerSpec,
    LearnedPositions,
    Linear,
    MultiHeadSelfAttention,
)
from transformer_core.models import Encoder, EncoderDecoder, StackSpec
from transformer_core.optim import SGD, AdamW, clip_by_global_norm, warmup_stable_decay
from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.texts.wordpiece import MASK, SPECIAL_TOKENS
from transformer_core.training import combine
from transformer_practice.engine.points import randomise

FLOAT = {"dtype": np.float64}
THEOREMS: list = []


def theorem(holds):
    THEOREMS.append(holds)
    return holds


@theorem
def a_linear_map_and_its_backward_pass_are_adjoint(rng):
    x, dy = rng.normal(size=(2, 3, 4, 5))
    y, cache = ops.linear(x, rng.normal(size=(5, 5)))
    dx, _, _ = ops.linear_backward(dy, cache)
    assert np.isclose((dy * y).sum(), (dx * x).sum())


@theorem
def parameter_gradients_add_up_over_the_sequences(rng):
    layers = [
        Linear(5, 4, rng, **FLOAT),
        LayerNorm(5, **FLOAT),
        LearnedPositions(6, 5, rng, **FLOAT),
    ]
    x = rng.normal(size=(3, 4, 5))
    for layer in layers:
        randomise(layer, rng)
        dy = rng.normal(size=layer.forward(x)[0].shape)

        def gradients(b, layer=layer, dy=dy):
            return layer.backward(dy[b], layer.forward(x[b])[1])[1]

        one_by_one = [gradients(slice(b, b + 1)) for b in range(3)]
        for name, grad in gradients(slice(None)).items():
            assert grad.shape == layer.parameters()[name].shape
            assert np.allclose(grad, sum(one[name] for one in one_by_one))


@theorem
def embedding_gradients_lose_nothing(rng):
    layer = Embedding(4, 3, rng, **FLOAT)
    ids, drows = rng.integers(4, size=(2, 5)), rng.normal(size=(2, 5, 3))
    _, grads = layer.backward(drows, layer.forward(ids)[1])
    assert np.allclose(grads["table"].sum(axis=0), drows.sum(axis=(0, 1)))


@theorem
def softmax_gradients_sum_to_zero(rng):
    x, dweights = rng.normal(size=(2, 3, 4, 5))
    weights, cache = ops.softmax(x)
    assert np.allclose(weights.sum(axis=-1), 1)
    assert np.allclose(ops.softmax_backward(dweights, cache).sum(axis=-1), 0)


@theorem
def a_shift_of_all_scores_changes_nothing(rng):
    x = rng.normal(size=(3, 4))
    shifted = x + 1e4 * np.arange(3)[:, np.newaxis]
    assert np.allclose(ops.softmax(x)[0], ops.softmax(shifted)[0])


@theorem
def hidden_keys_take_no_part(rng):
    x, keep = rng.normal(size=(3, 4)), np.array([True, True, False, True])
    weights, _ = ops.softmax(x, keep)
    assert np.allclose(weights[:, keep], ops.softmax(x[:, keep])[0])
    assert not ops.softmax(x, np.zeros(4, bool))[0].any()


@theorem
def layer_norm_gradients_are_orthogonal_to_ones_and_x_hat(rng):
    x, dy = rng.normal(size=(2, 3, 4, 7))
    y, cache = ops.layer_norm(x, rng.normal(size=7), rng.normal(size=7), eps=1e-12)
    dx, dgamma, dbeta = ops.layer_norm_backward(dy, cache)
    assert np.allclose((cache.x_hat**2).mean(axis=-1), 1)
    assert np.allclose(dx.sum(axis=-1), 0)
    assert np.allclose((dx * cache.x_hat).sum(axis=-1), 0)
    # y is linear in gamma and beta.
    assert np.isclose((dgamma * cache.gamma).sum(), (dy * cache.gamma * cache.x_hat).sum())


@theorem
def dropout_keeps_the_mean_and_is_its_own_backward_pass(rng):
    x = np.ones((400, 500))
    y, cache = ops.dropout(x, 0.3, rng)
    assert abs(y.mean() - 1) < 0.01
    assert np.array_equal(ops.dropout_backward(x, cache), y)


@theorem
def scores_of_unit_variance_stay_so(rng):
    layer = MultiHeadSelfAttention(24, 4, rng, **FLOAT)
    layer.query_key_value.weight[...] = rng.normal(0, 24**-0.5, (24, 72))
    _, cache = layer.forward(rng.normal(size=(64, 6, 24)))
    scores = np.log(cache.attention.weights)
    assert 0.7 < scores.var(axis=-1, ddof=1).mean() < 1.4


@theorem
def outputs_follow_the_order_of_the_tokens(rng):
    encoder, x = small_encoder(rng)
    order = rng.permutation(5)
    y, _ = encoder.forward(x)
    assert np.allclose(encoder.forward(x[:, order])[0], y[:, order])


@theorem
def padding_changes_nothing(rng):
    encoder, x = small_encoder(rng)
    keep = ops.padding_keep(np.array([3, 3]), 5)
    assert np.allclose(encoder.forward(x, keep)[0][:, :3], encoder.forward(x[:, :3])[0])


@theorem
def a_causal_output_sees_the_past_and_itself_alone(rng):
    encoder, x = small_encoder(rng)
    keep = ops.causal_keep(5)
    assert np.allclose(
        encoder.forward(x, keep)[0][:, :3], encoder.forward(x[:, :3], keep[:3, :3])[0]
    )


def small_encoder(rng):
    encoder = Encoder(LayerSpec(6, 2, 7, "pre", **FLOAT), 1, rng, final_norm=True)
    return randomise(encoder, rng), rng.normal(size=(2, 5, 6))


@theorem
def the_probabilities_of_all_targets_sum_to_one(rng):
    """Over all pairs of tokens that a decoder may write, its source and target padded."""
    vocabulary = 4
    spec = LayerSpec(6, 2, 7, "pre", **FLOAT)
    stacks = StackSpec(4, 5, 1), StackSpec(vocabulary, 4, 1)
    model = randomise(EncoderDecoder(spec, *stacks, rng), rng)
    source, source_lengths = rng.integers(4, size=(1, 5)), np.array([3])
    total = 0.0
    for pair in product(range(vocabulary), repeat=2):
        target = np.array([[0, *pair, 0, 0]])
        loss, _ = model.loss_and_gradients(source, source_lengths, target, np.array([3]))
        other = np.where(np.arange(5) < 3, source, 1)
        assert np.isclose(
            loss, model.loss_and_gradients(other, source_lengths, target, np.array([3]))[0]
        )
        total += np.exp(-2 * loss)
    assert np.isclose(total, 1)


@theorem
def writing_token_by_token_scores_as_reading_at_once(rng):
    spec = LayerSpec(6, 2, 7, "pre", **FLOAT)
    model = EncoderDecoder(spec, StackSpec(4, 6, 1), StackSpec(5, 4, 2), rng)
    randomise(model, rng)
    source, lengths = rng.integers(4, size=(2, 6)), np.array([6, 3])
    keep = ops.padding_keep(lengths, 6)
    written = rng.integers(5, size=(2, 4))
    logits, _ = model.forward(source, written, keep)
    state = model.begin(source, lengths)
    for t in range(4):
        newest, state = model.step(written[:, t], state)
        assert np.allclose(newest, logits[:, t])


@theorem
def four_in_five_masked_tokens_are_hidden_and_no_special_one(rng):
    ids = rng.integers(12, size=(300, 100))
    special = ids < len(SPECIAL_TOKENS)
    inputs, masked = mask(ids, 12, rng, share=0.5)
    assert not masked[special].any() and np.array_equal(inputs[~masked], ids[~masked])
    hidden = (inputs == MASK)[masked].mean()
    same = (inputs == ids)[masked].mean()
    assert abs(hidden - 0.8) < 0.02 and abs(same - 0.1 - 0.1 / 7) < 0.02


@theorem
def parts_make_up_the_whole_batch(rng):
    logits, targets = rng.normal(size=(6, 5)), rng.integers(5, size=6)

    def part(where):
        loss, cache = ops.cross_entropy(logits[where], targets[where])
        grad = np.zeros((6, 5))
        grad[where] = ops.cross_entropy_backward(1, cache)
        return len(targets[where]), loss, {"logits": grad}

    _, loss, grads = part(slice(None))
    _, combined_loss, combined = combine([part(slice(1)), part(slice(1, None))])
    assert np.isclose(loss, combined_loss)
    assert np.allclose(grads["logits"], combined["logits"])


@theorem
def the_first_step_of_adam_has_the_size_of_the_rate(rng):
    for unit in (1e-6, 1.0, 1e6):  # whatever the unit of the loss
        parameters = {"weight": np.zeros(3), "bias": np.zeros(2)}
        optimizer = AdamW(parameters, 0.01, eps=1e-20, weight_decay=0.5)
        optimizer.step({"weight": unit * np.ones(3), "bias": -unit * np.ones(2)})
        assert np.allclose(parameters["weight"], -0.01)
        assert np.allclose(parameters["bias"], 0.01)


@theorem
def a_weight_without_gradient_shrinks_by_rate_times_decay_and_a_bias_stays(rng):
    parameters = {"weight": np.ones(3), "bias": np.ones(2)}
    optimizer = AdamW(parameters, 0.01, weight_decay=0.5)
    for _ in range(3):
        optimizer.step({"weight": np.zeros(3), "bias": np.zeros(2)})
    assert np.allclose(parameters["weight"], (1 - 0.01 * 0.5) ** 3)
    assert np.array_equal(parameters["bias"], np.ones(2))


@theorem
def a_constant_gradient_gives_equal_steps_of_adam(rng):
    parameters = {"weight": np.zeros(3), "bias": np.zeros(2)}
    optimizer = AdamW(parameters, 0.01, weight_decay=0.0)
    for step in range(1, 6):
        optimizer.step({"weight": np.ones(3), "bias": np.ones(2)})
        assert np.allclose(parameters["weight"], -0.01 * step)


@theorem
def momentum_moves_by_rate_over_one_minus_mu(rng):
    parameters = {"weight": np.zeros(1)}
    optimizer = SGD(parameters, 0.1, momentum=0.5)
    for _ in range(60):
        before = parameters["weight"].copy()
        optimizer.step({"weight": np.ones(1)})
    assert np.isclose(before - parameters["weight"], 0.1 / (1 - 0.5))


@theorem
def a_missing_gradient_is_an_error(rng):
    try:
        SGD({"weight": np.ones(2)}, 0.1).step({"Weight": np.ones(2)})
    except ValueError:
        return
    raise AssertionError


@theorem
def clipping_turns_nothing_and_lengthens_nothing(rng):
    grads = {"a": rng.normal(size=3), "b": 10 * rng.normal(size=4)}
    for longest in (1.0, 1e6):
        clipped, norm = clip_by_global_norm(grads, longest)
        for name, grad in grads.items():
            assert np.allclose(clipped[name], grad * min(1, longest / norm))


@theorem
def no_step_has_the_rate_zero(rng):
    rates = [warmup_stable_decay(t, 9, 1.0, warmup=3, decay=3) for t in range(1, 10)]
    assert min(rates) > 0 and max(rates) == 1


def broken_theorems():
    """Return the names of the theorems that the package does not fulfil."""
    return [theorem.__name__ for theorem in THEOREMS if not holds(theorem)]


def holds(theorem):
    """Ask one theorem of the package."""
    try:
        with np.errstate(all="ignore"):
            theorem(np.random.default_rng(0))
    except (AssertionError, ValueError, IndexError):
        return False
    return True
