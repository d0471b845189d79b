"""core.js, the operations that react on the pages, against the package: to 1e-12, every one."""

import numpy as np
import pytest
from helpers.texts import ROOT

from transformer_core import ops, optim

CORE = ROOT / "book/_static/core.js"
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
RNG = np.random.default_rng(7)

# In the page: tensors come as {shape, values, kind} and go back as {shape, values}.
CALL = """([name, given]) => {
    const kinds = {float: Float64Array, ids: Int32Array, keep: Uint8Array};
    const read = (value) => value?.kind
        ? core.tensor(value.shape, kinds[value.kind].from(value.values)) : value;
    const write = (value) => Array.isArray(value) ? value.map(write)
        : value?.data ? {shape: value.shape, values: [...value.data]} : value;
    const [forward, backward] = name;
    const result = core[forward](...given.inputs.map(read));
    if (!backward) return [write(Array.isArray(result) ? result[0] : result)];
    const [y, cache] = result;
    const grads = core[backward](read(given.cotangent), cache);
    return [write(y), Object.fromEntries(Object.entries(grads).map(([k, v]) => [k, write(v)]))];
}"""


@pytest.fixture(scope="module")
def page(browser):
    tab = browser.new_page()
    tab.add_script_tag(path=CORE)
    yield tab
    tab.close()


def normal(*shape):
    return RNG.normal(size=shape)


def written(value):
    if not isinstance(value, np.ndarray):
        return value
    kind = {"f": "float", "i": "ids", "b": "keep"}[value.dtype.kind]
    return {"shape": value.shape, "values": value.ravel().tolist(), "kind": kind}


def read(value):
    if isinstance(value, dict):
        return np.array(value["values"]).reshape(value["shape"])
    return value


def in_the_page(page, names, inputs, cotangent=None):
    given = {"inputs": [written(value) for value in inputs], "cotangent": written(cotangent)}
    return page.evaluate(CALL, [names, given])


KEEP = RNG.random((2, 1, 4, 5)) < 0.6
KEEP[0, 0, 1] = False  # a query that may attend to nothing
IDS = np.array([[0, 3, 3], [2, 0, 1]])  # repeated ones
HEADS = normal(2, 3, 4, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 7)
NORM = normal(2, 3, 5) * 3 + 1, normal(5), normal(5)
TARGETS, COUNTED = RNG.integers(0, 6, (2, 3)), np.array([[1.0, 0, 2], [1, 1, 0.5]])
WIDE = np.concatenate([normal(40) * 4, [-9, -3.001, -2.999, 0, 1e-9, 3, 9]])

OPS = {
    "linear": (normal(2, 3, 4), normal(4, 5), normal(5)),
    "linear without bias": (normal(3, 4), normal(4, 5)),
    "softmax": (normal(2, 3, 5) * 3,),
    "softmax under a mask": (normal(2, 3, 4, 5), KEEP),
    "log_softmax": (normal(2, 5) * 30,),
    "cross_entropy": (normal(2, 3, 6), TARGETS),
    "cross_entropy, weighted and smoothed": (normal(2, 3, 6), TARGETS, COUNTED, 0.1),
    "layer_norm": NORM,
    "layer_norm with a large eps": (*NORM, 0.5),
    "relu": (WIDE,),
    "gelu": (WIDE,),
    "gelu_tanh": (WIDE,),
    "attention": HEADS,
    "attention under a mask": (*HEADS, KEEP),
    "split_heads": (normal(2, 3, 6), 2),
    "merge_heads": (normal(2, 3, 4, 5),),
    "causal_keep": (5,),
    "padding_keep": (np.array([1, 3, 0]), 3),
    "embedding": (IDS, normal(4, 5)),
    "tied_readout": (normal(2, 3, 4), normal(6, 4), normal(6)),
    "sinusoidal_positions": (7, 6),
    "mean_squared_error": (normal(2, 3), normal(2, 3)),
}


@pytest.mark.parametrize("case", OPS)
def test_an_operation_agrees_with_the_package(page, case):
    name = case.replace(",", " ").split()[0]
    forward, backward = getattr(ops, name), getattr(ops, f"{name}_backward", None)
    inputs = OPS[case]
    result = forward(*inputs)
    y, cache = result if backward else (result, None)
    cotangent = 0.7 if np.ndim(y) == 0 else normal(*y.shape)
    names = [camel(name), camel(f"{name}_backward") if backward else None]
    given = [v.tolist() if name == "padding_keep" and np.ndim(v) else v for v in inputs]
    shown, *grads = in_the_page(page, names, given, cotangent)
    np.testing.assert_allclose(read(shown), np.asarray(y, float), **CLOSE)
    assert np.shape(read(shown)) == np.shape(y)
    if backward:
        expected = backward(cotangent, cache)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = [read(grads[0][key]) for key in list(grads[0])[: len(expected)]]
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours is None) == (theirs is None)
            if theirs is not None:
                np.testing.assert_allclose(ours, theirs, **CLOSE)


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_every_operation_that_is_there_is_tried(page):
    there = set(page.evaluate("Object.keys(core)"))
    tried = {case.replace(",", " ").split()[0] for case in OPS} | {"dropout"}
    assert tried == {n for n in ops.__all__ if camel(n) in there and not n.endswith("_backward")}


def test_the_terms_of_layer_norm_add_up(page):
    x, gamma, beta = NORM
    dy = normal(*x.shape)
    terms = page.evaluate(
        """([x, gamma, beta, dy]) => {
            const [x_, gamma_, beta_, dy_] = [x, gamma, beta, dy].map((v) => core.from(v));
            const [, cache] = core.layerNorm(x_, gamma_, beta_);
            return Object.values(core.layerNormTerms(dy_, cache)).map(core.nested);
        }""",
        [a.tolist() for a in (*NORM, dy)],
    )
    _, cache = ops.layer_norm(x, gamma, beta)
    dx, _, _ = ops.layer_norm_backward(dy, cache)
    np.testing.assert_allclose(np.sum(terms, axis=0), dx, **CLOSE)
    np.testing.assert_allclose(terms[0], dy * gamma * cache.inv_std, **CLOSE)


def test_dropout_scales_what_it_keeps_and_passes_the_gradient_there(page):
    x, dy = normal(6, 5), normal(6, 5)
    y, mask, dx = page.evaluate(
        """([x, dy]) => {
            const [y, cache] = core.dropout(core.from(x), 0.4, core.generator(3).uniform);
            const {dx} = core.dropoutBackward(core.from(dy), cache);
            return [y, cache.mask, dx].map(core.nested);
        }""",
        [x.tolist(), dy.tolist()],
    )
    mask = np.array(mask, bool)
    assert 0 < mask.sum() < mask.size
    expected = ops.dropout_backward(dy, ops.dropout(x, 0.4, Drawn(mask))[1])
    np.testing.assert_allclose(y, ops.dropout(x, 0.4, Drawn(mask))[0], **CLOSE)
    np.testing.assert_allclose(dx, expected, **CLOSE)


class Drawn:
    """A generator that draws a given mask."""

    def __init__(self, mask):
        self.mask = mask

    def random(self, shape, dtype):
        return self.mask.reshape(shape).astype(dtype)


OPTIMIZERS = {
    "sgd": (optim.SGD, "core.sgd(p, 0.1)", {}),
    "momentum": (optim.SGD, "core.sgd(p, 0.1, 0.9)", {"momentum": 0.9}),
    "adam": (optim.Adam, "core.adam(p, 0.1)", {}),
    "adamw": (optim.AdamW, "core.adamW(p, 0.1, {weightDecay: 0.2})", {"weight_decay": 0.2}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_the_steps_of_the_package(page, name):
    kind, made, settings = OPTIMIZERS[name]
    start = {"weight": normal(3, 2), "norm.gamma": normal(2)}
    grads = [{key: normal(*v.shape) for key, v in start.items()} for _ in range(5)]
    parameters = {key: v.copy() for key, v in start.items()}
    optimizer = kind(parameters, 0.1, **settings)
    for grad in grads:
        optimizer.step(grad)
    nested = [{k: v.tolist() for k, v in part.items()} for part in (start, *grads)]
    found = page.evaluate(
        f"""([start, ...grads]) => {{
            const read = (part) => Object.fromEntries(
                Object.entries(part).map(([k, v]) => [k, core.from(v)]));
            const p = read(start), optimizer = {made};
            grads.forEach((grad) => optimizer.step(read(grad)));
            return Object.fromEntries(Object.entries(p).map(([k, v]) => [k, core.nested(v)]));
        }}""",
        nested,
    )
    for key, array in parameters.items():
        np.testing.assert_allclose(found[key], array, **CLOSE)


def test_results_have_the_kind_of_their_input(page):
    kinds = page.evaluate(
        """() => {
            const x = core.tensor([2, 3], new Float32Array([1, 2, 3, 4, 5, 7]));
            const one = core.tensor([3], new Float32Array([1, 1, 1]));
            const weight = core.tensor([3, 2], new Float32Array(6).fill(0.5));
            const [y, cache] = core.layerNorm(x, one, one);
            const {dx} = core.layerNormBackward(y, cache);
            const [z] = core.linear(x, weight);
            const [w] = core.softmax(x);
            return [y, dx, z, w].map(({data}) => data.constructor.name);
        }"""
    )
    assert set(kinds) == {"Float32Array"}


@pytest.mark.parametrize(
    "code, said",
    [
        ("core.tensor([2, 2], new Float64Array(3))", "expected 4 numbers"),
        ("core.linear(core.from([[1, 2]]), core.from([[1], [2], [3]]))", "rows of 3 numbers"),
        ("core.softmax(core.from([[1, 2]]), core.mask([[1, 0, 1]]))", "broadcasts to (1,2)"),
        ("core.splitHeads(core.from([[[1, 2, 3]]]), 2)", "a divisor of the width 3"),
        ("core.embedding(core.ids([4]), core.from([[1], [2]]))", "numbers from 0 to 1"),
        ("core.sgd({w: core.from([1])}, 0.1).step({})", "a gradient of w"),
    ],
)
def test_bad_input_says_what_was_expected(page, code, said):
    message = page.evaluate(
        f"() => {{ try {{ {code}; return ''; }} catch (e) {{ return e.message; }} }}"
    )
    assert said in message


def test_random_numbers_are_the_same_for_the_same_seed_and_look_normal(page):
    first, again, other = page.evaluate(
        "() => [5, 5, 6].map((seed) => [...core.generator(seed).normals([4000]).data])"
    )
    assert first == again != other
    assert abs(np.mean(first)) < 0.06 and abs(np.std(first) - 1) < 0.05
