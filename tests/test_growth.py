"""What a model of today needs, in classes of this file and registry lines alone: it grows."""

from dataclasses import asdict, replace
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pytest
from helpers.witnesses import assert_close, randomise

from transformer_core.distributed import DataParallel, TensorParallelBert
from transformer_core.distributed.over_ranks import over_ranks
from transformer_core.foundation.names import join
from transformer_core.gradient_check import check_gradients, complex_step
from transformer_core.layers import (
    FEED_FORWARDS,
    NORMS,
    AttentionSpec,
    Embedding,
    Layer,
    LayerSpec,
    Linear,
    NormSpec,
    TiedReadout,
)
from transformer_core.layers.attention_spec import TRANSFORMS
from transformer_core.models import Bert, Encoder, StackSpec, beam_search, greedy_search
from transformer_core.ops import (
    causal_keep,
    cross_entropy,
    cross_entropy_backward,
    gated_product,
    gated_product_backward,
    rms_norm,
    rms_norm_backward,
    silu,
    silu_backward,
)
from transformer_core.optim import AdamW
from transformer_core.ranks import on_threads
from transformer_core.training import Recipe, Run, Training, train, train_on_disk

V, LENGTH, END = 11, 12, 1


def rng_of(seed):
    return np.random.default_rng(seed)


class RmsNorm(Layer):
    def __init__(self, width, dtype, eps):
        self.gamma, self.eps = np.ones(width, dtype), eps

    def forward(self, x):
        return rms_norm(x, self.gamma, self.eps)

    def backward(self, dy, cache):
        dx, dgamma = rms_norm_backward(dy, cache)
        return dx, {"gamma": dgamma}


class SwiGlu(Layer):
    columns, rows = ("gate", "hidden"), ("output",)

    def __init__(self, width, hidden_width, rng, dtype):
        self.gate = Linear(width, hidden_width, rng, dtype, bias=False)
        self.hidden = Linear(width, hidden_width, rng, dtype, bias=False)
        self.output = Linear(hidden_width, width, rng, dtype, bias=False)

    def forward(self, x, rng=None):
        gate, gate_cache = self.gate.forward(x)
        hidden, hidden_cache = self.hidden.forward(x)
        active, silu_cache = silu(gate)
        product, product_cache = gated_product(active, hidden)
        y, output_cache = self.output.forward(product)
        return y, (gate_cache, hidden_cache, silu_cache, product_cache, output_cache)

    def backward(self, dy, cache):
        gate_cache, hidden_cache, silu_cache, product_cache, output_cache = cache
        dproduct, output = self.output.backward(dy, output_cache)
        dactive, dhidden = gated_product_backward(dproduct, product_cache)
        dgate_x, gate = self.gate.backward(silu_backward(dactive, silu_cache), gate_cache)
        dhidden_x, hidden = self.hidden.backward(dhidden, hidden_cache)
        return dgate_x + dhidden_x, join({"gate": gate, "hidden": hidden, "output": output})


class Rotary(Layer):
    """Pairs of numbers are turned by angles that grow with the position."""

    buffers = ("frequencies",)

    def __init__(self, width, dtype):
        self.frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)

    def turn(self, x, angles):
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = np.cos(angles).astype(x.real.dtype), np.sin(angles).astype(x.real.dtype)
        pairs = np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
        return pairs.reshape(x.shape)

    def forward(self, x, first=0):
        angles = np.outer(np.arange(first, first + x.shape[2]), self.frequencies)
        return self.turn(x, angles), angles

    def backward(self, dy, angles):
        return self.turn(dy, -angles), {}


class State(NamedTuple):
    layers: tuple

    def select(self, rows):
        return State(tuple(layer.select(rows) for layer in self.layers))


class Gpt(Layer):
    """A stack with a causal mask between a table and its output layer."""

    vocabulary, longest = V, LENGTH

    def __init__(self, spec, layers, rng):
        self.tokens = Embedding(V, spec.width, rng, dtype=spec.dtype)
        self.stack = Encoder(spec, layers, rng, final_norm=True)
        self.readout = TiedReadout(V, spec.dtype)

    def forward(self, ids, rng=None):
        x, tokens = self.tokens.forward(ids)
        h, stack = self.stack.forward(x, causal_keep(ids.shape[1]), rng)
        logits, readout = self.readout.forward(h, self.tokens.table)
        return logits, (tokens, stack, readout)

    def loss_and_gradients(self, ids, rng=None):
        logits, (tokens, stack, readout) = self.forward(ids[:, :-1], rng)
        loss, cache = cross_entropy(logits, ids[:, 1:])
        grads = {}
        dlogits = cross_entropy_backward(1, cache)
        dh, dtable, grads["readout"] = self.readout.backward(dlogits, readout)
        dx, grads["stack"] = self.stack.backward(dh, stack)
        _, grads["tokens"] = self.tokens.backward(dx, tokens)
        grads["tokens"]["table"] += dtable
        return loss, join(grads)

    def begin(self, batch):
        return State(self.stack.begin(batch))

    def step(self, tokens, state):
        x, _ = self.tokens.forward(tokens[:, np.newaxis])
        h, layers = self.stack.step(x, state.layers)
        logits, _ = self.readout.forward(h, self.tokens.table)
        return logits[:, 0], State(layers)


@pytest.fixture
def spec(monkeypatch):
    monkeypatch.setitem(NORMS, "rms_norm", RmsNorm)
    monkeypatch.setitem(FEED_FORWARDS, "swiglu", SwiGlu)
    monkeypatch.setitem(TRANSFORMS, "rotary", Rotary)
    heads = AttentionSpec(4, 6, 3, bias=False, key_heads=2, transform="rotary")
    return LayerSpec(16, heads, 20, "pre", NormSpec("rms_norm"), "swiglu", dtype="float64")


def gpt_of(spec):
    return randomise(Gpt(spec, 2, rng_of(1)), rng_of(2))


def bert_of(spec):
    return randomise(Bert(spec, StackSpec(V, LENGTH, 2), rng_of(1)), rng_of(2))


@pytest.fixture
def gpt(spec):
    return gpt_of(spec)


@pytest.fixture
def ids(rng):
    return rng.integers(2, V, (4, 7))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_every_array_has_the_gradient_of_the_complex_step(spec, ids, rng, placement):
    gpt = gpt_of(replace(spec, placement=placement, dtype="complex128"))
    _, grads = gpt.loss_and_gradients(ids)
    assert not any("frequencies" in name for name in grads)

    def loss():
        return gpt.loss_and_gradients(ids)[0]

    report = check_gradients(loss, gpt.parameters(), grads, complex_step, 3, rng)
    assert report.right, report


def test_step_by_step_it_is_the_forward_pass(gpt, ids):
    logits, _ = gpt.forward(ids)
    state = gpt.begin(len(ids))
    for t in range(ids.shape[1]):
        row, state = gpt.step(ids[:, t], state)
        np.testing.assert_allclose(row, logits[:, t], atol=1e-12)
    shapes = [array.shape for array in state.layers[0]]
    assert shapes == [(4, 2, 7, 6), (4, 2, 7, 3)]  # two heads of keys for four of queries


def test_prompts_of_different_lengths_go_on_as_each_does_alone(gpt, ids):
    lengths = np.array([1, 4, 2, 7])
    tokens, ends = greedy_search(gpt, 4, start=ids, start_lengths=lengths, end=END)
    beams, beam_ends, _ = beam_search(gpt, 4, start=ids, start_lengths=lengths, end=END, beam=1)
    assert tokens.shape[1] <= LENGTH
    np.testing.assert_array_equal(beams[:, 0, : tokens.shape[1]], tokens)
    np.testing.assert_array_equal(beam_ends[:, 0], ends)
    for row, (prompt, n) in enumerate(zip(ids, lengths, strict=True)):
        written = list(prompt[:n])
        while len(written) <= LENGTH and (len(written) == n or written[-1] != END):
            logits, _ = gpt.forward(np.array([written]))
            written.append(int(logits[0, -1].argmax()))
        np.testing.assert_array_equal(tokens[row, : ends[row]], written[1:])


def test_two_ranks_of_data_parallelism_have_the_gradient_of_one(gpt, ids):
    def work(c):
        return DataParallel(gpt, np.size, 1, c).loss_and_gradients(ids[:3])

    loss, expected = gpt.loss_and_gradients(ids[:3])
    for found, grads in on_threads(2, work):
        assert found == pytest.approx(loss, rel=1e-14)
        assert_close(grads, expected, 1e-14)


@pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])
def test_two_ranks_of_tensor_parallelism_have_the_gradient_of_one(spec, ids, sequence):
    """Each has two heads of queries, the one of keys that they share, and half the gates."""
    bert, ids = bert_of(spec), ids[:, :6]
    loss, expected = bert.loss_and_gradients(ids, ids, ids > 4)

    def work(c):
        cut = TensorParallelBert(bert, c, sequence)
        found, grads = cut.loss_and_gradients(ids, ids, ids > 4)
        return found, cut.gather(grads)

    for found, grads in on_threads(2, work):
        assert found == pytest.approx(loss, rel=1e-12)
        assert_close(grads, expected, 1e-12)


def test_gates_send_nothing_of_their_own(spec, ids):
    def work(c, spec):
        TensorParallelBert(bert_of(spec), c).loss_and_gradients(ids, ids, ids > 4)
        return sum(traffic.bytes for traffic in c.sent.values())

    assert on_threads(2, work, spec) == on_threads(2, work, replace(spec, feed_forward="relu"))


def test_a_head_of_keys_and_a_norm_that_two_ranks_share_have_the_gradient_of_one(spec, ids):
    shared = replace(spec.attention, key_heads=1, transform="qk_norm_rotary")
    bert = bert_of(replace(spec, attention=shared))
    _, expected = bert.loss_and_gradients(ids, ids, ids > 4)

    def work(c):
        cut = TensorParallelBert(bert, c)
        return cut.gather(cut.loss_and_gradients(ids, ids, ids > 4)[1])

    for found in on_threads(2, work):
        assert_close(found, expected, 1e-12)


def test_what_cannot_be_cut_is_refused_by_name(spec):
    heads = replace(spec, attention=replace(spec.attention, heads=6))
    for model, size, message in (
        (spec, 3, "heads: expected a multiple of the 3 ranks, got 4"),
        (heads, 3, "key_heads: expected a multiple or a divisor of the 3 ranks, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            on_threads(size, lambda c, m=model: TensorParallelBert(bert_of(m), c))


def test_it_learns(gpt, ids):
    history = train(gpt, AdamW(gpt.parameters, 0.03), repeat((ids,)), 30, progress=False)
    assert history[-1]["loss"] < 0.1 < 1 < history[0]["loss"]


@pytest.mark.parametrize("scheme", [{}, {"zero_stage": 3}, {"tensor_parallel": 2}], ids=str)
def test_on_disk_two_ranks_go_on_where_they_stopped(spec, ids, tmp_path, scheme):
    model_of, batch, weight, rate = gpt_of, (ids,), np.size, 0.01
    if "tensor_parallel" in scheme:
        model_of, batch, weight = bert_of, (ids, ids, ids > 4), lambda *b: b[2].sum()

    def training(settings, files, communicator, **scheme):
        model = model_of(LayerSpec.from_settings(settings["spec"]))
        build = partial(AdamW, learning_rate=rate)
        ranks = over_ranks(model, weight, build, communicator, 1, **scheme)
        batches, schedule = lambda first: repeat(batch), lambda step, steps: rate
        rest = ranks.gather, ranks.scatter, model.set_parameters
        return Training(ranks.scheme, ranks.optimizer, batches, schedule, tuple, *rest)

    defaults = {"spec": asdict(replace(spec, dropout=0.2)), "learning_rate": rate, "seed": 0}
    defaults |= {"max_norm": 0.5, "checkpoint_every": 2, "steps": 5}
    recipe = Recipe("strange", defaults, ("steps",), training)

    def work(c, steps, resume):
        train_on_disk(recipe, tmp_path / "two", {"steps": steps}, resume, c, scheme)

    alone = train_on_disk(recipe, tmp_path / "one", {})
    on_threads(2, work, 3, False)
    on_threads(2, work, 5, True)
    losses = [[r["loss"] for r in Run(tmp_path / name).history()] for name in ("one", "two")]
    np.testing.assert_allclose(*losses, rtol=1e-9)
    found = {name: np.empty_like(array) for name, array in alone.model.parameters().items()}
    Run(tmp_path / "two").load_checkpoint(found)
    assert_close(found, alone.model.parameters(), 1e-9)


@pytest.mark.parametrize("broken", [(Linear,), {"a": Linear}, [[Linear]]], ids=str)
def test_a_container_in_which_layers_would_be_lost_is_refused(rng, broken):
    def built(value):
        if isinstance(value, dict):
            return {name: built(entry) for name, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(built, value))
        return value(2, 2, rng)

    layer = Layer()
    layer.blocks = built(broken)
    with pytest.raises(ValueError, match="blocks: expected layers and arrays as attributes"):
        layer.parameters()


def test_a_name_taken_twice_is_refused(rng):
    layer = Layer()
    layer.block = [Linear(2, 2, rng)]
    layer.blocks = [Linear(2, 2, rng)]
    with pytest.raises(ValueError, match="block_0: expected one layer of the name, got two"):
        layer.parameters()
