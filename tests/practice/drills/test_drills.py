"""Every task of every chapter: its answers are those of the package, its slips are wrong."""

import re
import tomllib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.counting import Counted, count_everything
from transformer_core import ops
from transformer_core.distributed import live_activations, one_forward_one_backward
from transformer_core.gradient_check import complex_step
from transformer_core.layers import (
    AttentionSpec,
    EncoderLayer,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LayerSpec,
    Linear,
    Pooler,
    Residual,
)
from transformer_core.models.sampling import repetition_penalty, temperature, top_p
from transformer_core.models.speculative import accept_or_resample, expected_tokens, residual
from transformer_core.ops.tiled_attention import merge, partial_attention, tiling_of
from transformer_core.optim import SGD, Adam, clip_by_global_norm, unscale, warmup_stable_decay
from transformer_core.ranks import Group, on_threads
from transformer_core.training import combine
from transformer_practice.drills import DRILLS, draw, words_of
from transformer_practice.drills.drill import LEVELS
from transformer_practice.drills.exact import is_equal, numbers, parse, show
from transformer_practice.exercises.byte_pairs import encode_piece, learn_merges, merge_pair
from transformer_practice.exercises.sampling import Given, drawn_tokens

LN2 = np.log(2)
BARELY = 1e-300  # an epsilon that changes nothing

every_drill = pytest.mark.parametrize("name", DRILLS)
any_seed = given(seed=st.integers(0, 10**6))


def floats(value):
    """A value of a drill as float64."""
    return np.array(value, float)


# What the package says: one function a chapter, from the given arrays to all answers.


def of_gradient_check(a, b, c, x, h):
    def f(x):
        return a * x**3 + b * x**2 + c * x

    tiny = 1e-30
    slope = f(x + 1j * tiny).imag / tiny
    central = (f(x + h) - f(x - h)) / (2 * h)
    return f(x + h), f(x - h), central, slope, central - slope, f(x + 1j * h).imag / h


def of_linear(x, w, b, dy):
    y, cache = ops.linear(x, w, b)
    return y, *ops.linear_backward(dy, cache)


def of_softmax(multiples, dweights):
    weights, cache = ops.softmax(multiples * LN2)
    centre = dweights @ weights
    return np.exp(multiples * LN2), weights, centre, ops.softmax_backward(dweights, cache)


def of_cross_entropy(multiples, words, counted):
    words = words.astype(int)
    losses = [
        ops.cross_entropy(z[None], w[None])[0] for z, w in zip(multiples * LN2, words, strict=True)
    ]
    _, cache = ops.cross_entropy(multiples * LN2, words, counted)
    weights = counted / counted.sum()
    gradient = ops.cross_entropy_backward(1.0, cache)
    return ops.softmax(multiples * LN2)[0], np.exp(losses), weights, gradient


def of_layer_norm(x, gamma, dy):
    _, cache = ops.layer_norm(x, gamma, np.zeros(4), BARELY)
    dx, dgamma, _ = ops.layer_norm_backward(dy, cache)
    g = dy * gamma
    means = g.mean(), (g * cache.x_hat).mean()
    return x.mean(), x.std(), cache.x_hat, g, *means, dx, dgamma


def of_rms_norm(x, gamma, dy):
    _, cache = ops.rms_norm(x, gamma, BARELY)
    dx, dgamma = ops.rms_norm_backward(dy, cache)
    g = dy * gamma
    return 1 / cache.inv_rms[0], cache.x_hat, g, (g * cache.x_hat).mean(), dx, dgamma


def of_search(first, second, padding, dy):
    h = np.array([[first, second, padding]])
    mean, pooling = ops.mean_pool(h, np.array([[True, True, False]]))
    y, cache = ops.l2_normalize(mean)
    dmean = ops.l2_normalize_backward(dy[np.newaxis], cache)
    dh = ops.mean_pool_backward(dmean, pooling)
    return mean[0], 1 / cache.inv_length[0, 0], y[0], y[0] @ dy, dmean[0], dh[0, 0]


def of_gated_feed_forward(x, gate, value, output, dy):
    layer = GatedFeedForward(2, 2, np.random.default_rng(0), np.float64, "relu")
    for array, weight in zip(layer.parameters().values(), (gate, value, output), strict=True):
        array[...] = weight
    y, cache = layer.forward(x)
    dx, grads = layer.backward(dy, cache)
    g, v = cache.product
    h, relu_cache = layer.gate.forward(x)[0], cache.activation
    dproduct, _ = layer.output.backward(dy, cache.output)
    dgate, dvalue = ops.gated_product_backward(dproduct, cache.product)
    dh = ops.relu_backward(dgate, relu_cache)
    return h, g, v, y, dproduct, dvalue, dh, grads["output.weight"], dx


def of_feed_forward(x, w1, b1, w2, b2, dy):
    layer = FeedForward(2, 3, np.random.default_rng(0), np.float64)
    parameters = layer.parameters()
    for array, value in zip(parameters.values(), (w1, b1, w2, b2), strict=True):
        array[...] = value
    y, cache = layer.forward(x)
    dx, grads = layer.backward(dy, cache)
    h, _ = ops.linear(x, w1, b1)
    a, relu_cache = ops.relu(h)
    _, second = ops.linear(a, w2, b2)
    da, dw2, _ = ops.linear_backward(dy, second)
    assert np.allclose(dw2, list(grads.values())[2])
    return h, a, y, dw2, da, ops.relu_backward(da, relu_cache), dx


def of_attention(query, key, value, doutput):
    query = query[None] * LN2
    output, cache = ops.attention(query, key, value)
    dquery, dkey, dvalue = ops.attention_backward(doutput[None], cache)
    dweights = doutput @ value.T
    _, softmax_cache = ops.softmax(query @ key.T / 2)
    return (
        (query @ key.T / 2 / LN2)[0],
        cache.weights[0],
        output[0],
        dvalue,
        dweights,
        ops.softmax_backward(dweights[None], softmax_cache)[0],
        dquery[0],
        dkey[0] / LN2,
    )


def of_multi_head_attention(first, weights, value, mix, dy):
    second = weights @ value
    joined = np.concatenate([first, second])
    y, cache = ops.linear(joined, mix)
    djoined, _, _ = ops.linear_backward(dy, cache)
    alone, _ = ops.linear(np.concatenate([first, np.zeros(2)]), mix)
    _, head = ops.attention(np.sqrt(3) * np.log(weights[None]), np.eye(3), value)
    _, _, dvalue = ops.attention_backward(djoined[None, 2:], head)
    return second, joined, y, alone, djoined[:2], djoined[2:], dvalue


def of_embedding(table, ids, drows, h, b, dz):
    rows, looked_up = ops.embedding(ids.astype(int), table)
    z, read_out = ops.tied_readout(h[None], table, b)
    dh, from_readout, *_ = ops.tied_readout_backward(dz[None], read_out)
    from_rows = ops.embedding_backward(drows, looked_up)
    return rows, from_rows, z[0], dh[0], from_readout, from_rows + from_readout


def of_optimizers(g, theta, rate, mu, beta1, beta2):
    trace = {}
    for name, make in {
        "momentum": lambda p: SGD(p, rate, momentum=mu),
        "adam": lambda p: Adam(p, rate, beta1, beta2, BARELY),
    }.items():
        parameter = {"theta": np.array([theta])}
        optimizer = make(parameter)
        for gradient in g:
            optimizer.step({"theta": np.array([gradient])})
            state = [float(average[0]) for average in optimizer.state().values()]
            trace.setdefault(name, []).append([float(parameter["theta"][0]), *state])
    (at, velocity) = np.transpose(trace["momentum"])
    (theta_adam, m, v) = np.transpose(trace["adam"])
    t = np.array([1, 2])
    steps = -np.diff([theta, *theta_adam]) / rate
    corrected = m / (1 - beta1**t), v / (1 - beta2**t)
    return velocity, at, m, v, *corrected, steps, theta_adam


def of_schedules(counts, losses, first, second, most, steps, warmup, decay, at):
    _, loss, _ = combine(
        (n, loss, {"w": np.zeros(1)}) for n, loss in zip(counts, losses, strict=True)
    )
    clipped, norm = clip_by_global_norm({"a": first, "b": second}, most)
    lengths = [int(n) for n in (steps, warmup, decay)]
    rates = [warmup_stable_decay(int(t), lengths[0], 1.0, lengths[1], lengths[2]) for t in at]
    return loss, norm, clipped["a"], clipped["b"], rates


def of_residual(x, r, v, dy):
    branch = Linear(4, 4, np.random.default_rng(0), np.float64, bias=False)
    branch.weight[...] = 0
    branch.weight[int(r)] = v
    block = Residual(branch, LayerNorm(4, np.float64, BARELY), "post")
    y, cache = block.forward(x)
    dx, _ = block.backward(dy, cache)
    written, branch_cache = branch.forward(x)
    dz, _ = block.norm.backward(dy, cache.norm)
    through, _ = branch.backward(dz, branch_cache)
    return written, x + written, y, dz, through, dx


def of_dropout(x, rate, mask, dy):
    y, cache = ops.dropout(x, float(rate), Given(mask))
    masks = np.array(list(product([0, 1], repeat=4)))
    chances = np.prod(np.where(masks, 1 - rate, rate), axis=1)
    all_y = np.array([ops.dropout(x, float(rate), Given(mask))[0] for mask in masks])
    average = chances @ all_y
    return y, ops.dropout_backward(dy, cache), average, chances @ all_y**2 - average**2


def of_cost(t, d, f):
    def products():
        return [size for _, name, size, *_ in Counted.log if name == "matmul"]

    def counted(t):
        spec = LayerSpec(int(d), AttentionSpec(1, bias=False), int(f), "post")
        layer = EncoderLayer(spec, np.random.default_rng(0))
        weights = sum(a.size for a in layer.parameters().values() if a.ndim == 2)
        count_everything(layer)
        Counted.log.clear()
        x = np.random.default_rng(1).normal(size=(1, int(t), int(d))).view(Counted)
        y, cache = layer.forward(x)
        forward = products()
        layer.backward(y, cache)
        return weights, forward, sum(products())

    weights, forward, both = counted(t)
    qkv, scores, averages, output, first, second = forward
    _, longer, _ = counted(2 * t)
    return (
        qkv + output,
        scores + averages,
        first + second,
        sum(forward),
        both,
        sum(longer),
        weights,
    )


def of_rotary(query, key, t, s, dscore):
    frequencies = np.array([np.pi, np.pi / 2])

    def at(x, position):
        return ops.rotary(x[None], np.array([position]), frequencies)

    (u, query_cache), (w, key_cache) = at(query, t), at(key, s)
    score = u[0] @ w[0] / 2
    later = at(query, t + 5)[0][0] @ at(key, s + 5)[0][0] / 2
    du, dw = dscore * w / 2, dscore * u / 2
    back = ops.rotary_backward(du, query_cache)[0], ops.rotary_backward(dw, key_cache)[0]
    return u[0], w[0], score, later, du[0], *back


def of_grouped_queries(alone, layers, width, n, window, t, cap, y):
    layers, width, n, window, t = map(int, (layers, width, n, window, t))
    # Of one key all weights are 1, and what the values get are the cotangents of the heads.
    rows = [np.ones((1, heads, 1, 2)) for heads in (4, 2, 2)]
    _, cache = ops.attention(*rows)
    _, _, shared = ops.attention_backward(alone[None, :, None], cache)
    _, *kept = AttentionSpec(4, width, width, key_heads=2).projected_widths(4 * width)
    keep = ops.window_keep(50, window)
    seen = np.linalg.matrix_power(keep.astype(int), layers)[-1] > 0
    slope = ops.soft_cap_backward(np.ones(1), ops.soft_cap(cap * np.arctanh([y / cap]), cap)[1])
    return (
        shared[0, :, 0],
        layers * n * sum(kept),
        keep[t].sum(),
        seen.sum() - 1,
        layers * keep[n - 1].sum() * sum(kept),
        slope[0],
    )


def of_gpt_over_ranks(own, width, head, tokens, cache, stages, stage, batches):
    width, head, stages, stage, batches = map(int, (width, head, stages, stage, batches))

    def work(c):
        first = c.rank // 2 * 2
        group = Group(c, (first, first + 1))
        shared, whole = group.all_reduce(own[c.rank]), c.all_reduce(own[c.rank])
        c.sent.clear()
        group.all_reduce(np.zeros((width, 2 * head), np.uint8))
        of_keys = sum(traffic.bytes for traffic in c.sent.values())
        c.sent.clear()
        c.all_reduce(np.zeros(2 * head, np.uint8))
        return shared, whole, of_keys, sum(traffic.bytes for traffic in c.sent.values())

    shared, whole, of_keys, of_norms = zip(*on_threads(4, work), strict=True)
    live = live_activations(one_forward_one_backward(stages, batches))[stage]
    return (
        np.stack(shared[::2]),
        whole[0],
        sum(of_keys),
        sum(of_norms),
        live * cache,
        cache + (live - 1) * tokens * width,
    )


def of_byte_pairs(w, v, times, x, bits):
    words, times = [word.astype(int) for word in (w, v)], times.astype(int)
    first, second = merges = learn_merges(words, times, 2)
    places = [(np.stack([word[:-1], word[1:]]).T == first).all(axis=1).sum() for word in words]
    lengths = [len(merge_pair(word, tuple(first), 256)) for word in words]
    tokens = len(encode_piece(x.astype(int), merges))
    return (
        first,
        times @ places,
        times @ lengths,
        np.where(second == 256, 3, second),
        tokens,
        bits * tokens / len(x),
    )


def of_sampling(multiples, seen, share, number):
    z = multiples * LN2
    kept, _ = ops.softmax(top_p(z, float(share)))
    return (
        ops.softmax(z)[0],
        ops.softmax(temperature(z, 0.5))[0],
        kept,
        drawn_tokens(kept[None], number[None])[0],
        repetition_penalty(z, seen > 0, 2.0) / LN2,
    )


def of_shipped(multiples, q):
    z = multiples * LN2
    dz = complex_step(lambda z: -(q * ops.log_softmax(z)).sum(), z.astype(complex))
    return ops.softmax(z)[0], q.sum(), dz, 0


def of_weights(f, h, y, dy):
    pooler = Pooler(2, np.random.default_rng(0), np.float64)
    pooler.dense.weight[...] = f.T
    pooler.dense.bias[...] = np.arctanh(y) - h[0] @ f.T  # the bias that gives y
    pooled, cache = pooler.forward(h[np.newaxis])
    dh, grads = pooler.backward(dy[np.newaxis], cache)
    du = grads["dense.bias"]
    dw = grads["dense.weight"]
    return pooler.dense.weight, 1 - pooled[0] ** 2, du, dw, dw.T, dh[0]


def of_fine_tuning(x, w, a, b, alpha, dy):
    frozen, frozen_cache = ops.linear(x, w)
    added, cache = ops.low_rank(x, a, b, float(alpha))
    dx, da, db = ops.low_rank_backward(dy, cache)
    through, _, _ = ops.linear_backward(dy, frozen_cache)
    dnarrow, _, _ = ops.linear_backward(cache.scale * dy, ops.linear(cache.narrow, b)[1])
    return cache.narrow, frozen + added, db, dnarrow, da, through + dx


def of_speculative(p, q, v):
    (written,) = accept_or_resample(p[np.newaxis], q[np.newaxis], np.array([int(v)]))
    rate = np.minimum(p, q).sum()
    return written[int(v)], rate, residual(p, q), written, expected_tokens(rate, 2)


def of_tiled_attention(e, v, g, extra):
    given = np.ones((1, 1)), np.log(e)[:, None], v[:, None]
    parts = []
    for part in (slice(0, 2), slice(2, 4)):
        tiling = tiling_of(given[0], given[1][part], given[2][part], None, 0, None, 4)
        parts.append(partial_attention(tiling))
    both = merge(*parts)
    output, cache = ops.tiled_attention(*given, tile=2)
    cotangent = np.array([[g]])
    _, dkey, _ = ops.tiled_attention_backward(cotangent, cache)
    _, with_extra, _ = ops.tiled_attention_backward(cotangent, cache, np.array([extra]))
    return (
        parts[0].total[0, 0, 0],
        np.exp(parts[0].top - both.top)[0, 0, 0],
        both.total[0, 0, 0],
        output[0, 0],
        (output * cotangent)[0, 0],
        dkey[:, 0],  # the query is 1
        with_extra[:, 0],
    )


def of_few_bits(p, x, a, z, norm, scale, limit):
    name = {3: "float8_e5m2", 4: "float8_e4m3fn"}[int(p)]
    (rounded,) = ops.round_to(x[None], name)
    total = 0.0
    while (more := ops.round_to(np.array([total + a]), name)[0]) > total:
        total = more
    drawn = ops.round_to(np.full(8, z), name, Given(np.arange(8) / 8))
    clipped, _ = clip_by_global_norm(unscale({"g": norm[None]}, float(scale)), float(limit))
    return (2 * abs(rounded - x), rounded, total, (drawn > z).mean(), drawn.var(), clipped["g"][0])


WITNESSES = {name: globals()[f"of_{name}"] for name in DRILLS}


@pytest.mark.slow
@every_drill
@any_seed
def test_every_answer_is_what_the_package_computes(name, seed):
    task = draw(name, seed)
    found = WITNESSES[name](*map(floats, task.given.values()))
    for step, value in zip(task.steps, found, strict=True):
        right = floats(step.answer)
        assert right.shape == np.shape(value), step.prompt
        assert np.allclose(right, value, rtol=1e-9, atol=1e-9), step.prompt


@pytest.mark.slow
@every_drill
@any_seed
def test_every_slip_is_wrong_and_named_with_the_rule(name, seed):
    for step in draw(name, seed).steps:
        values = [step.answer, *step.slips.values()]
        assert len({show(value) for value in values}) == len(values)
        assert step.verdict(step.answer) == ""
        for mistake, slip in step.slips.items():
            assert step.verdict(slip) == f"{mistake} {step.rule}"


@pytest.mark.slow
@every_drill
@any_seed
def test_every_number_is_small_enough_for_paper(name, seed):
    task = draw(name, seed)
    values = [*task.given.values(), *(step.answer for step in task.steps)]
    for number in (n for value in values for n in numbers(value)):
        assert abs(number.numerator) < (10_000 if name == "cost" else 2_000)
        assert number.denominator <= 64


@pytest.mark.slow
@every_drill
@any_seed
def test_answers_are_read_as_they_are_written(name, seed):
    for step in draw(name, seed).steps:
        for value in (step.answer, *step.slips.values()):
            assert is_equal(parse(show(value), step.answer), value)


@pytest.mark.slow
@every_drill
def test_the_seed_decides(name):
    assert str(draw(name, 3)) == str(draw(name, 3))
    tasks = [draw(name, seed) for seed in range(20)]
    assert len({str(task.given) for task in tasks}) > 15


@pytest.mark.slow
@every_drill
def test_the_words_do_not_depend_on_the_seed(name):
    """The pages hold them once for all tasks."""
    words = {
        (
            task.title,
            task.question,
            *task.given,
            *((s.prompt, s.rule, *s.slips) for s in task.steps),
        )
        for task in (draw(name, seed) for seed in range(100))
    }
    assert len(words) == 1


@every_drill
def test_the_levels_leave_more_and_more_open(name):
    task = draw(name, 0)
    worked, complete, free = map(task.to_fill, LEVELS)
    assert worked == ()
    assert set(complete) < set(free) == set(range(len(task.steps)))
    assert complete[-1] == free[-1]


@every_drill
def test_a_prompt_does_not_give_its_rule_away(name):
    task = draw(name, 0)
    for step in task.steps:
        assert step.rule not in step.prompt
        assert step.rule.endswith(".")
        assert all(mistake.endswith(".") for mistake in step.slips)


@every_drill
def test_a_prompt_has_a_word_beside_its_formula(name):
    """It is the label of a field, and formulas have no accessible name everywhere."""
    for step in tomllib.loads(words_of(name))["steps"]:
        assert re.search(r"[a-z]{3}", re.sub(r"\$[^$]*\$", "", step["prompt"])), step["prompt"]


def test_most_steps_know_slips():
    steps = [step for name in DRILLS for step in draw(name, 0).steps]
    assert len(DRILLS) >= 14
    assert sum(bool(step.slips) for step in steps) > 0.95 * len(steps)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name: expected one of .*softmax.*, got 'sof'"):
        draw("sof", 0)
