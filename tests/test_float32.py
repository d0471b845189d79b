"""Training in float32 computes nothing in float64: one stray number of it, and the work doubles."""

import numpy as np
import pytest
from helpers.cases import split_variant

from transformer_core.layers import AttentionSpec, NormSpec
from transformer_core.models import Bert, EncoderDecoder, Gpt, StackSpec
from transformer_core.optim import SGD, Adam, AdamW, clip_by_global_norm
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.training import combine

B, T, V = 3, 5, 11


class Watched(np.ndarray):
    """A float32 array that reports every wider array that comes of it."""

    wider = []

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        call = getattr(ufunc, method)
        return watch(ufunc.__name__, call(*plain(inputs), **plain(settings)))

    def __array_function__(self, function, types, inputs, settings):
        return watch(function.__name__, function(*plain(inputs), **plain(settings)))


def plain(values):
    """Take the watch off all arrays in a tuple, list or dictionary."""
    if isinstance(values, Watched):
        return values.view(np.ndarray)
    if isinstance(values, dict):
        return {name: plain(value) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(plain(value) for value in values)
    return values


def watch(operation, result):
    """Watch a result, and take note if it is wider than float32."""
    if isinstance(result, dict):
        return {name: watch(operation, value) for name, value in result.items()}
    if isinstance(result, (tuple, list)):
        return type(result)(watch(operation, value) for value in result)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    if result.dtype.kind in "fc" and result.dtype != np.float32:
        Watched.wider.append(f"{operation} {result.dtype} {result.shape}")
    return result.view(Watched) if isinstance(result, np.ndarray) else result


def watch_parameters(layer):
    """Watch every array that a layer and its sublayers own."""
    for name, value in vars(layer).items():
        if isinstance(value, np.ndarray) and value.dtype == np.float32:  # no angle's
            setattr(layer, name, value.view(Watched))
    for sublayer in layer.sublayers().values():
        watch_parameters(sublayer)


@pytest.fixture
def wider():
    Watched.wider.clear()
    return Watched.wider


def bert(rng, **settings):
    spec, others = split_variant(6, 2, 7, settings, dtype=np.float32)
    model = Bert(spec, StackSpec(V, T, 2), rng, **others)
    ids, targets = rng.integers(V, size=(2, B, T))
    keep = np.ones((B, 1, 1, T), bool)
    segments = rng.integers(2, size=(B, T)) if settings.get("segments") else None
    masked = rng.random((B, T)) < 0.5
    return model, (ids, targets, masked, keep, segments)


def encoder(rng, **settings):
    spec, _ = split_variant(6, 2, 7, settings, dtype=np.float32)
    model = Reconstructor(spec, 2, rng, final_norm=True)
    inputs, targets = rng.normal(size=(2, B, T, 6)).astype(np.float32)
    return model, (inputs.view(Watched), targets)


def encoder_decoder(rng, **settings):
    source, target = StackSpec(V, T, 1), StackSpec(V, T - 1, 2)
    spec, others = split_variant(6, 2, 7, settings, dtype=np.float32)
    model = EncoderDecoder(spec, source, target, rng, **others)
    source, target = rng.integers(V, size=(2, B, T))
    return model, (source, np.array([5, 3, 2]), target, np.array([3, 5, 4]))


def gpt(rng, **settings):
    spec, others = split_variant(12, 2, 7, settings, dtype=np.float32)
    model = Gpt(spec, StackSpec(V, T, 2), rng, **others)
    return model, tuple(rng.integers(V, size=(2, B, T)))


ROTATED = AttentionSpec(4, 4, 3, False, 2, "qk_norm_rotary_halves")
MODELS = {
    "Bert": lambda rng: bert(rng, placement="post", attention=AttentionSpec(2, bias=False)),
    "Bert, everything": lambda rng: bert(
        rng, feed_forward="gelu", tied=True, embedding_norm=True, segments=2, dropout=0.1
    ),
    "Bert, the other GELU": lambda rng: bert(rng, feed_forward="gelu_tanh"),
    "Reconstructor": encoder,
    "EncoderDecoder": encoder_decoder,
    "EncoderDecoder, Post-LN": lambda rng: encoder_decoder(
        rng, placement="post", tied=False, dropout=0.1
    ),
    "Gpt": lambda rng: gpt(rng, feed_forward="gelu_tanh", dropout=0.1),
    "Gpt, everything": lambda rng: gpt(
        rng, attention=ROTATED, norm=NormSpec("rms_norm"), feed_forward="swiglu", tied=False
    ),
    "Reconstructor, Post-LN": lambda rng: encoder(rng, placement="post", dropout=0.1),
}


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    "optimizer",
    [SGD, lambda *settings: SGD(*settings, momentum=0.9), Adam, AdamW],
    ids=["SGD", "SGD, momentum", "Adam", "AdamW"],
)
def test_training_stays_in_float32(rng, wider, build, optimizer):
    model, batch = build(rng)
    watch_parameters(model)
    optimizer = optimizer(model.parameters(), 0.01)
    for _ in range(2):
        loss, grads = model.loss_and_gradients(*batch, rng=np.random.default_rng(1))
        grads = watch("backward", grads)
        _, _, grads = combine([(1, loss, grads), (3, loss, grads)])
        clipped, _ = clip_by_global_norm(grads, 0.01)
        optimizer.step(clipped)
    assert wider == []


def test_the_watch_reports_a_stray_number(rng, wider):
    model, batch = bert(rng)
    watch_parameters(model)
    norm = model.encoder.final_norm
    norm.gamma = norm.gamma * np.float64(1)
    assert wider == ["multiply float64 (6,)"]
    model.loss_and_gradients(*batch)
    assert len(wider) > 20
