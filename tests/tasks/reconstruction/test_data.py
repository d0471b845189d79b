import numpy as np
import pytest
from helpers.cases import STACKS
from helpers.witnesses import generators, normal, randomise
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.gradient_check import central_difference, gradient_error
from transformer_core.layers import LayerSpec
from transformer_core.ops import (
    layer_norm,
    layer_norm_backward,
    mean_squared_error,
    mean_squared_error_backward,
    sinusoidal_positions,
)
from transformer_core.tasks.reconstruction import (
    Reconstruction,
    Reconstructor,
    layer_norm_floor,
    predict_mean,
    predict_zero,
)


def test_inputs_are_targets_plus_positions(rng):
    task = Reconstruction(rng, vocabulary=7, length=5, width=6, dtype=np.float64)
    inputs, targets = task.sample(4, rng)
    assert inputs.shape == targets.shape == (4, 5, 6)
    assert np.allclose(inputs - targets, sinusoidal_positions(5, 6), atol=1e-15)


def test_targets_are_rows_of_the_embedding_all_of_them_in_time(rng):
    task = Reconstruction(rng, vocabulary=7, length=5, width=6)
    _, targets = task.sample(40, rng)
    rows = targets.reshape(-1, 1, 6) == task.embedding
    token_of_row = rows.all(axis=-1)
    assert (token_of_row.sum(axis=1) == 1).all()
    assert token_of_row.any(axis=0).all()


def test_embeddings_have_the_standard_deviation_asked_for(rng):
    embedding = Reconstruction(rng, vocabulary=500, std=0.02).embedding
    assert np.isclose(embedding.std(), 0.02, rtol=0.02)
    assert np.isclose(embedding.mean(), 0, atol=0.001)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_as_asked(rng, dtype):
    inputs, targets = Reconstruction(rng, dtype=dtype).sample(2, rng)
    assert inputs.dtype == targets.dtype == dtype


def test_the_same_seed_gives_the_same_task():
    (inputs, _), (again, _) = (
        Reconstruction(np.random.default_rng(3)).sample(2, np.random.default_rng(4))
        for _ in range(2)
    )
    assert np.array_equal(inputs, again)


TARGETS = np.array([[[1.0, 2.0], [3.0, 2.0]], [[1.0, 0.0], [3.0, 0.0]]])


def test_baselines_by_hand():
    assert predict_zero(TARGETS) == (1 + 4 + 9 + 4 + 1 + 0 + 9 + 0) / 8
    assert predict_mean(TARGETS) == 1  # the mean is (2, 1), one away from every entry


@pytest.mark.parametrize("dtype", ["i1", "u1", "f2"])
def test_baselines_of_narrow_numbers_do_not_overflow(dtype):
    targets = np.array([[100, 120], [100, 80]]).astype(dtype)
    assert predict_zero(targets) == (100**2 + 120**2 + 100**2 + 80**2) / 4
    assert predict_mean(targets) == (20**2 + 20**2) / 4


@pytest.mark.equation("eq:floor-closed")
@given(generators, st.integers(2, 9), st.integers(1, 5))
def test_the_floor_has_a_closed_form_for_gamma_1_and_beta_0(rng, width, rows):
    targets = rng.normal(rng.normal(), 2, (2, rows, width))
    floor = layer_norm_floor(targets, np.ones(width), np.zeros(width))
    mean, std = targets.mean(axis=-1), targets.std(axis=-1)
    assert np.isclose(floor, ((1 - std) ** 2 + mean**2).mean(), rtol=1e-9, atol=1e-12)


@pytest.mark.equation("eq:floor-closed")
@pytest.mark.parametrize("width", [2, 5, 64])
@pytest.mark.parametrize("level", [0.0, 0.3, -2.0])
def test_the_closed_form_holds_for_targets_without_spread(width, level):
    targets = np.full((3, width), level)
    floor = layer_norm_floor(targets, np.ones(width), np.zeros(width))
    assert np.isclose(floor, 1 + level**2, rtol=1e-12)


@pytest.mark.equation("eq:floor")
@given(generators, st.integers(2, 6), st.integers(1, 4))
def test_no_x_hat_beats_the_floor(rng, width, rows):
    targets = rng.normal(size=(rows, width))
    gamma, beta = rng.normal(size=(2, width))
    floor = layer_norm_floor(targets, gamma, beta)
    x_hat = rng.normal(size=(500, rows, width))
    x_hat -= x_hat.mean(axis=-1, keepdims=True)
    x_hat *= np.sqrt(width) / np.linalg.norm(x_hat, axis=-1, keepdims=True)
    errors = ((gamma * x_hat + beta - targets) ** 2).mean(axis=-1)
    assert floor <= errors.min(axis=0).mean() + 1e-9


@pytest.mark.slow
@pytest.mark.equation("eq:floor")
@pytest.mark.parametrize("seed", range(4))
def test_gradient_descent_comes_down_to_the_floor(seed):
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=(3, 5))
    gamma, beta = rng.normal(1, 0.5, 5), rng.normal(size=5)
    floor = layer_norm_floor(targets, gamma, beta)
    # From each of several starts, because a row may have two valleys.
    x = rng.normal(size=(8, 3, 5))
    for _ in range(4000):
        y, cache = layer_norm(x, gamma, beta, eps=1e-20)
        _, loss_cache = mean_squared_error(y, np.broadcast_to(targets, y.shape))
        dx, _, _ = layer_norm_backward(mean_squared_error_backward(20, loss_cache), cache)
        x -= dx
    lowest = ((y - targets) ** 2).mean(axis=-1).min(axis=0).mean()
    assert floor - 1e-12 <= lowest <= floor + 1e-6


def test_a_target_that_a_layer_norm_can_give_costs_nothing(rng):
    gamma, beta = rng.normal(size=(2, 6))
    y, _ = layer_norm(rng.normal(size=(2, 3, 6)), gamma, beta, eps=1e-30)
    assert layer_norm_floor(y, gamma, beta) < 1e-20


def test_equal_rows_count_as_often_as_they_occur(rng):
    few, often = rng.normal(size=(2, 4))
    gamma, beta = rng.normal(size=(2, 4))
    together = layer_norm_floor(np.array([few, often, often, often]), gamma, beta)
    one, three = (layer_norm_floor(row[None], gamma, beta) for row in (few, often))
    assert np.isclose(together, (one + 3 * three) / 4, rtol=1e-12)


def test_a_floor_of_one_entry_is_refused():
    with pytest.raises(ValueError, match="targets: expected a width of at least 2, got 1"):
        layer_norm_floor(np.ones((2, 1)), np.ones(1), np.ones(1))


# --- the model --------------------------------------------------------------------------

MODELS = [name for name in STACKS if "Reconstructor" in name]


@pytest.mark.slow
@pytest.mark.equation("eq:chain-backward")
@pytest.mark.parametrize("name", MODELS)
def test_gradients_agree_with_the_witnesses(check, name):
    check.layer(STACKS[name])


def test_the_readout_follows_the_encoder(rng):
    model = randomise(Reconstructor(LayerSpec(6, 2, 7, "pre"), 2, rng), rng)
    x = rng.normal(size=(2, 5, 6))
    h, _ = model.encoder.forward(x)
    expected = h @ model.readout.weight + model.readout.bias
    assert np.allclose(model.forward(x)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("readout", [False, True])
def test_only_the_parts_asked_for_have_parameters(rng, readout):
    spec = LayerSpec(4, 2, 5, "pre")
    model = Reconstructor(spec, 1, rng, final_norm=True, readout=readout)
    parts = {name.split(".")[0] for name in model.parameters()}
    assert parts == ({"encoder", "readout"} if readout else {"encoder"})
    _, cache = model.forward(np.ones((1, 2, 4)))
    assert (cache.readout is not None) == readout


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loss_and_gradients_keep_the_dtype(rng, dtype):
    name = "Reconstructor, post, final norm, readout"
    model, x = STACKS[name].draw(rng, dtype)
    loss, grads = model.loss_and_gradients(x, normal(rng, x.shape, dtype))
    assert loss.dtype == dtype
    assert {grad.dtype for grad in grads.values()} == {np.dtype(dtype)}


@pytest.mark.parametrize("masked", [False, True])
def test_loss_and_gradients_are_those_of_the_mean_squared_error(rng, masked):
    case = STACKS["Reconstructor, pre, readout"]
    context = case.context if masked else ()
    model, x = case.draw(rng, np.float64)
    targets = normal(rng, x.shape)
    loss, grads = model.loss_and_gradients(x, targets, *context)
    assert np.isclose(loss, ((model.forward(x, *context)[0] - targets) ** 2).mean())
    for name, array in model.parameters().items():
        at = rng.choice(array.size, 3, replace=False)
        measured = central_difference(
            lambda _: model.loss_and_gradients(x, targets, *context)[0], array, at=at
        )
        scale = 1e-3 * np.linalg.norm(grads[name])
        assert gradient_error(grads[name].flat[at], measured, scale).norm < 1e-7, name


def test_targets_of_another_shape_are_named(rng):
    model, x = STACKS["Reconstructor, pre, readout"].draw(rng, np.float64)
    with pytest.raises(ValueError, match=r"target: .* \(2, 5, 6\), got \(2, 5, 1\)"):
        model.loss_and_gradients(x, x[..., :1])
