"""A model runs with the reader's functions, and the package has its own back afterwards."""

from functools import partial
from math import sqrt

import numpy as np
import pytest
from practice.versions import RIGHT as VERSIONS

from transformer_core import ops
from transformer_core.layers import FeedForward, Linear, feed_forward
from transformer_core.layers import linear as linear_layer
from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.spec import LayerSpec, NormSpec
from transformer_core.models import Bert, EncoderDecoder, Gpt, StackSpec
from transformer_core.ops.linear import LinearCache
from transformer_core.optim import Adam
from transformer_practice import examine
from transformer_practice.engine import repair
from transformer_practice.engine.exercise import written_in
from transformer_practice.exercises import every_exercise, find_exercise
from transformer_practice.workspace.folder import Own
from transformer_practice.workspace.substitution import GROUPED, in_the_package, places

IDS, LENGTHS = np.array([[3, 1, 3], [0, 2, 1]]), np.array([3, 2])


def own(name, *functions):
    return Own(find_exercise(name), functions)


class Mine:
    """A cache of the reader's own kind."""

    def __init__(self, cache):
        self.cache = cache


def renamed(exercise):
    """Return the package's functions as if a reader had written them, with caches of their own."""
    if exercise.backward is None:
        return (lambda *arguments, **options: exercise.forward(*arguments, **options),)

    def forward(*arguments, **options):
        y, cache = exercise.forward(*arguments, **options)
        return y, Mine(cache)

    def backward(*arguments):
        *others, cache = arguments
        return exercise.backward(*others, cache.cache)

    return forward, backward


IN_THE_PACKAGE = [exercise for exercise in every_exercise() if places(exercise)]
# In the package, grouped attention is attention itself: what it would call if it were renamed.
OWNS = [Own(exercise, renamed(exercise)) for exercise in IN_THE_PACKAGE if exercise.name != GROUPED]


def bert(dtype=np.float32, spec=None):
    rng = np.random.default_rng(4)
    spec = spec or LayerSpec(6, 2, 7, "post", dropout=0.3, dtype=dtype)
    model = Bert(spec, StackSpec(5, 4, 2), rng, tied=True, segments=2)
    return step(model, IDS, IDS, IDS > 1, segment_ids=IDS % 2, rng=np.random.default_rng(5))


def since_2017(dtype=np.float32):
    return bert(spec=LayerSpec(6, 2, 7, "pre", NormSpec("rms_norm"), "swiglu", dtype=dtype))


def encoder_decoder(dtype=np.float32):
    rng = np.random.default_rng(4)
    spec = LayerSpec(6, 2, 7, "pre", feed_forward="gelu_tanh", dtype=dtype)
    stack = StackSpec(5, 4, 2)
    model = EncoderDecoder(spec, stack, stack, rng)
    return step(model, IDS, LENGTHS, IDS, LENGTHS, rng=np.random.default_rng(5))


def gpt(dtype=np.float32):
    attention = AttentionSpec(4, bias=False, key_heads=2, transform="rotary_halves")
    spec = LayerSpec(8, attention, 7, "pre", NormSpec("rms_norm"), "swiglu", dtype=dtype)
    model = Gpt(spec, StackSpec(5, 4, 2), np.random.default_rng(4))
    return step(model, IDS, IDS[:, ::-1])


def step(model, *batch, **options):
    """Return the loss, the gradients, and the parameters after a step."""
    loss, grads = model.loss_and_gradients(*batch, **options)
    Adam(model.parameters).step(grads)
    after = {f"after {name}": array for name, array in model.parameters().items()}
    return {"loss": np.asarray(loss)} | grads | after


EVERY_MODEL = bert, encoder_decoder, since_2017, gpt
MODELS = pytest.mark.parametrize("model", EVERY_MODEL)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name
        assert found[name].dtype == array.dtype, name


@MODELS
def test_all_functions_renamed_give_the_same_bits(model):
    expected = model()
    with in_the_package(OWNS) as used:
        assert_equal(model(), expected)
    assert {"EncoderLayer", "softmax", "linear", "Adam"} <= used.called
    if model is since_2017:
        assert {"RmsNorm", "rms_norm", "GatedFeedForward", "silu"} <= used.called
    if model is gpt:
        assert {"attention_with_dropout", "rotary", "Rotary", "causal_keep"} <= used.called
    beyond = {"MultiHeadSelfAttention", "TiedReadout"}  # with shared heads, without a bias
    assert used.package == (beyond if model is gpt else set())
    assert ("MultiHeadSelfAttention" in used.called) == (model is not gpt)
    assert used.float64 == set()


@pytest.mark.slow
@pytest.mark.parametrize("each", OWNS, ids=lambda each: str(each.exercise.name))
def test_one_function_renamed_gives_the_same_bits(each):
    for model in EVERY_MODEL:
        expected = model()
        with in_the_package([each]):
            assert_equal(model(), expected)


@pytest.mark.slow
@MODELS
@pytest.mark.parametrize(
    "version", [each for each in VERSIONS if places(find_exercise(each.exercise))], ids=str
)
def test_another_right_version_gives_the_same_to_rounding(model, version):
    exercise = find_exercise(version.exercise)
    written = tuple(version.functions().values())
    assert len(written) == len(exercise.functions)
    expected = model(np.float64)
    with in_the_package([Own(exercise, written)]) as used:
        with np.errstate(over="ignore", invalid="ignore"):  # as trainings do
            found = model()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        if name != "loss":  # a number, of whatever kind
            assert found[name].dtype == np.float32, name
        if not name.startswith("after"):  # Adam's first step has the size of the sign
            atol = 1e-4 * np.abs(array).max() + 1e-6
            assert np.allclose(found[name], array, rtol=1e-3, atol=atol), name
    assert used.float64 <= {version.exercise}


def test_everything_is_put_back():
    def bindings():
        return (
            {name: vars(ops)[name] for name in ops.__all__},
            [place.function for each in IN_THE_PACKAGE for place in places(each)],
            dict(feed_forward.ACTIVATIONS),
            linear_layer.linear,
        )

    before = bindings()
    with pytest.raises(ZeroDivisionError), in_the_package(OWNS):
        assert bindings() != before
        assert ops.linear is linear_layer.linear
        assert ops.linear is not before[-1]
        raise ZeroDivisionError
    assert bindings() == before


def test_a_backward_pass_alone_is_given_the_cache_of_the_package():
    caches, right = [], ops.linear_backward

    def backward(dy, cache):
        caches.append(cache)
        return right(dy, cache)

    expected = bert()
    with in_the_package([own("linear", None, backward)]):
        assert_equal(bert(), expected)
    assert {type(cache) for cache in caches} == {LinearCache}


def test_a_layer_without_bias_has_a_bias_of_zeros_without_a_gradient():
    def forward(x, weight, bias):
        return x @ weight + bias, (x, weight)

    def backward(dy, cache):
        x, weight = cache
        return dy @ weight.T, x.T @ dy, dy.sum(axis=0)

    def alone(dy, cache):
        return backward(dy, (cache.x, cache.weight))

    x = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    for written in ((forward, backward), (None, alone)):
        for bias in (True, False):
            layer = Linear(3, 4, np.random.default_rng(0), bias=bias)
            y, cache = layer.forward(x)
            dx, grads = layer.backward(y, cache)
            with in_the_package([own("linear", *written)]):
                y_own, cache = layer.forward(x)
                dx_own, grads_own = layer.backward(y, cache)
            assert np.allclose(y_own, y, rtol=1e-6)
            assert np.allclose(dx_own, dx, rtol=1e-6)
            assert grads_own.keys() == grads.keys()
            assert all(np.allclose(grads_own[n], grads[n], atol=1e-6) for n in grads)


def test_of_two_exercises_with_one_place_the_later_takes_both_functions():
    calls = []

    def noted(name, function):
        def run(*arguments):
            calls.append(name)
            return function(*arguments)

        return run

    pair = ops.attention, ops.attention_backward
    first = own("attention", *(noted("first", function) for function in pair))
    second = own("attention_with_dropout", None, noted("second", pair[1]))
    x = np.ones((1, 2, 3))
    with in_the_package([first, second]) as used:
        y, cache = ops.attention(x, x, x)
        ops.attention_backward(y, cache)
    assert calls == ["second"]
    assert used.called == {"attention_with_dropout"}


def test_attention_in_groups_takes_what_has_groups_and_drops_nothing():
    written = tuple(
        next(v for v in VERSIONS if v.exercise == "grouped_attention").functions().values()
    )
    rng = np.random.default_rng(3)
    few, many = (rng.normal(size=(2, heads, 3, 5)).astype(np.float32) for heads in (2, 4))
    for own_attention, rate, taken in (
        (renamed(find_exercise("attention")), 0, ["attention", "grouped_attention"]),
        (renamed(find_exercise("attention")), 0.5, ["attention"]),
        ((None, ops.attention_backward), 0, ["attention", "grouped_attention"]),
    ):
        owns = [own("attention", *own_attention), own("grouped_attention", *written)]
        for key, called in ((few, taken), (many, ["attention"])):
            draws = [np.random.default_rng(1) for _ in range(2)]
            y, cache = ops.attention(many, key, key, None, rate, draws[0])
            expected = ops.attention_backward(y, cache)
            with in_the_package(owns) as used:
                y_own, cache = ops.attention(many, key, key, None, rate, draws[1])
                found = ops.attention_backward(y, cache)
            assert sorted(used.called) == called
            assert np.allclose(y_own, y, atol=1e-6)
            assert all(map(partial(np.allclose, atol=1e-5), found, expected))


def test_a_backward_pass_in_groups_alone_is_given_the_cache_of_the_package():
    caches, right = [], ops.attention_backward

    def backward(doutput, cache):
        caches.append(cache)
        return right(doutput, cache)

    expected = gpt()
    with in_the_package([own("grouped_attention", None, backward)]) as used:
        assert_equal(gpt(), expected)
    assert {cache.key.shape[1] for cache in caches} == {2}
    assert {"attention", "softmax"} <= used.package


def test_double_precision_is_cast_back_and_told():
    def forward(x):
        return np.maximum(x.astype(float), 0), x

    def backward(dy, x):
        return np.where(x > 0, dy, 0.0) * np.float64(1)

    with in_the_package([own("relu", forward, backward)]) as used:
        layer = FeedForward(2, 3, np.random.default_rng(0))
        y, cache = layer.forward(np.ones((4, 2), np.float32))
        dx, grads = layer.backward(y, cache)
    assert used.float64 == {"relu"}
    assert y.dtype == dx.dtype == np.float32
    assert {array.dtype for array in grads.values()} == {np.dtype(np.float32)}


def test_double_precision_is_told_of_the_function_that_made_it():
    def forward(self, x):
        h, cache = ops.relu(x * np.ones(3))
        return h * np.ones(3), cache

    def relu(x):
        return x * (x > 0), x

    def relu_backward(dy, x):
        return dy * (x > 0) + 0 * x

    owns = own("FeedForward", forward, None), own("relu", relu, relu_backward)
    with in_the_package(owns) as used:
        layer = FeedForward(3, 4, np.random.default_rng(0))
        y, cache = layer.forward(np.ones((2, 3), np.float32))
        ops.relu_backward(y, cache)
    assert used.called == {"FeedForward", "relu"}
    assert used.float64 == {"FeedForward"}
    assert y.dtype == np.float32


def test_what_a_function_raises_names_it_and_its_line():
    def forward(self, x):
        return x / sqrt(-1), None

    def undefined(x, weight, bias):
        return missing  # noqa: F821

    layer = Linear(2, 3, np.random.default_rng(0))
    x = np.ones((4, 2), np.float32)
    with in_the_package([own("Linear", forward, forward)]):
        with pytest.raises(ValueError, match=r"^Linear.forward raises ValueError: .*\n.*sqrt"):
            layer.forward(x)
    with in_the_package([own("linear", undefined, undefined)]):
        message = r"^linear raises NameError: .*\n    line \d+: return missing"
        with pytest.raises(ValueError, match=message):
            layer.forward(x)


def test_a_forward_pass_without_a_cache_is_named():
    with in_the_package([own("relu", lambda x: x, lambda dy, cache: dy)]):
        with pytest.raises(ValueError, match="^relu raises ValueError: "):
            ops.relu(np.ones(3, np.float32))


def test_what_the_package_does_not_use_has_no_place():
    assert places(find_exercise("RMSprop")) == []
    assert [place.name for place in places(find_exercise("Adam"))] == ["update"]


def test_what_else_a_readers_class_has_comes_with_its_methods(monkeypatch):
    def forward(self, x):
        return self.shifted(x @ self.weight), x

    def shifted(self, y):
        return y if self.bias is None else self.SCALE * (y + self.bias)

    def backward(self, dy, x):
        grads = {"weight": x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])}
        if self.bias is not None:
            grads["bias"] = dy.reshape(-1, dy.shape[-1]).sum(axis=0)
        return self.of_rows(dy), grads

    def of_rows(self, dy):
        return dy @ self.weight.T

    methods = {"forward": forward, "backward": backward, "shifted": shifted, "of_rows": of_rows}
    written = type("Linear", (), methods | {"SCALE": 1, "bias": None})
    exercise = find_exercise("Linear")
    functions = written_in(exercise, {"Linear": written})
    monkeypatch.setattr(repair, "CHANGES", 0)
    assert examine(exercise, *functions).right
    assert not examine(exercise, functions[0], lambda self, dy, x: (dy, {})).right
    x = np.ones((2, 3), np.float32)
    with in_the_package([Own(exercise, tuple(functions))]) as used:
        y, cache = Linear(3, 4, np.random.default_rng(1)).forward(x)
    assert used.called == {"Linear"}
    assert y.shape == (2, 4)
