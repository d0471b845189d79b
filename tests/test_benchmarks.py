"""The pieces of ``make bench``. How long anything takes is never asserted."""

import json
import os
import subprocess
import sys
from statistics import median

import numpy as np
import pytest
from helpers.ranks import on_mpi

from benchmarks import __main__ as bench
from benchmarks import gpt, memory, published_memory, race, ranks
from benchmarks.contenders import (
    CONTENDERS,
    Contender,
    matrix_products,
    mini_bert,
    read_out,
    step_in_parallel,
)
from benchmarks.counting import Counted, GptSizes, count_everything
from benchmarks.work import MASKED, PARAMETERS, draw_batches
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, StackSpec
from transformer_core.ops import cross_entropy, cross_entropy_backward, linear


class Runner:
    """Stands for a contender, with times that are known beforehand."""

    def __init__(self, turns):
        self.turns = iter(turns)

    def turn(self):
        return next(self.turns)


def test_a_race_has_the_medians_of_the_quiet_turns():
    warm, busy = ([99.0], 0.0), ([50.0, 50.0], 1.5)
    left = Runner([warm, ([1.0, 2.0], 0.0), busy, ([3.0, 9.0], 0.05)])
    right = Runner([warm, ([5.0], 0.0), ([6.0], 0.0), ([7.0], 0.0), ([8.0], 0.0)])
    times = race.race({"left": left, "right": right}, steps=3)
    assert times == {"left": median([1, 2, 3, 9]), "right": median([5, 6, 7])}


def test_a_race_ends_on_a_machine_that_is_never_quiet():
    runner = Runner([([1.0], 2.0)] * 6)
    assert race.race({"only": runner}, steps=3, patience=2) == {"only": 1.0}


def test_every_contender_gets_the_same_batches():
    (one, *_), (other, *_) = draw_batches(4), draw_batches(4)
    assert all(map(np.array_equal, one, other))
    ids, targets, masked = one
    assert ids.shape == targets.shape == masked.shape == (4, 64)
    assert abs(np.mean([b[2].mean() for b in draw_batches(32)]) - MASKED) < 0.01


def test_the_tokens_to_be_read_out_are_the_masked_ones():
    for (ids, targets, masked), picked in zip(draw_batches(3), read_out(3), strict=True):
        assert np.array_equal(picked[0], ids)
        assert np.array_equal(picked[1], targets[masked])
        assert np.array_equal(targets.ravel()[picked[2]], targets[masked])


def test_who_lacks_something_is_left_out_and_the_table_says_so(results, monkeypatch, capsys):
    nowhere = "no_such_package"
    assert Contender(None, "eager", nowhere).missing() == nowhere
    assert Contender(None, "eager", "numpy", compiles=False).missing() is None
    monkeypatch.setenv("CXX", "no-such-compiler")
    compiled = Contender(None, "compiled", "numpy", compiles=True)
    assert compiled.missing() == "a C++ compiler"
    monkeypatch.setitem(CONTENDERS, "compiled", compiled)
    bench.print_table(results, None)
    row = f"{'compiled':36}left out: needs a C++ compiler\n"
    assert row in capsys.readouterr().out


@pytest.mark.slow
def test_the_peak_is_that_of_the_process_itself():
    large = np.ones(50_000_000)
    program = "from benchmarks.memory import peak; print(peak())"
    peak = int(subprocess.check_output([sys.executable, "-c", program], cwd=race.ROOT))
    assert 10_000_000 < peak < large.nbytes <= memory.peak()


def test_the_products_are_those_of_a_step(monkeypatch):
    operations = []

    def matmul(left, right, out):
        operations.append(2 * out.size * left.shape[-1])

    step = matrix_products(4, threads=1)
    monkeypatch.setattr(np, "matmul", matmul)
    step()
    L, B, T, D, F, V = 3, 4, 64, 192, 768, 8192
    M = round(np.mean([masked.sum() for _, _, masked in draw_batches(B)]))
    forward = L * (8 * B * T * D**2 + 4 * B * T * D * F + 4 * B * T**2 * D)
    assert sum(operations) == 3 * (forward + 2 * M * D * V)


def test_a_step_moves_every_parameter():
    model = mini_bert()
    before = {name: array.copy() for name, array in model.parameters().items()}
    step, _ = step_in_parallel(model, batch=2, threads=2)
    step()
    assert sum(array.size for array in before.values()) == PARAMETERS
    for name, array in model.parameters().items():
        assert not np.array_equal(array, before[name]), name


def test_what_has_to_be_held_is_counted_once():
    x, weight = np.ones((3, 4), np.float32), np.ones((4, 8), np.float32)
    y, cache = linear(x, weight)
    assert memory.owners([cache, {"again": x[1:]}]) == {id(x): 48, id(weight): 128}
    assert memory.owners((None, 3, y)) == {id(memory_of(y)): 96}


def memory_of(array):
    return array if array.base is None else memory_of(array.base)


def test_openblas_is_also_measured_with_kernels_of_its_own_choice():
    plain = {"PATH": "/bin"}
    chosen = plain | {"OPENBLAS_CORETYPE": "Haswell"}
    assert list(bench.environments(plain)) == [plain]
    assert list(bench.environments(chosen)) == [chosen, plain]


@pytest.fixture
def results():
    return {
        "seconds": {"8": {"this package": 0.03, "JAX": 0.04}},
        "memory": {"taken": 12_000_000, "needed": {"caches": 10_000_000}},
        "import": {"this package": 0.02},
    }


def test_the_table_has_the_ratios_and_those_of_the_release(results, capsys):
    release = json.loads(json.dumps(results))
    release["seconds"]["8"]["JAX"] = 0.06
    release["memory"]["taken"] = 15_000_000
    bench.print_table(results, release)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    row = ["JAX", "compiled,", "one", "shard", "40.0", "0.75", "0.50", "1.50"]
    assert row in lines
    assert any(line[-3:] == ["1.20", "1.50", "0.80"] for line in lines)
    del release["seconds"]["8"]["JAX"]
    for earlier in (release, None):
        bench.print_table(results, earlier)
        row = f"{'JAX':36}{'compiled, one shard':21}  40.0       0.75\n"
        assert row in capsys.readouterr().out


def test_the_release_has_every_measurement():
    releases = json.loads(bench.RESULTS.read_text())
    for parts in releases.values():
        release = parts["mini-bert"]
        assert release["seconds"].keys() == {str(batch) for batch in bench.BATCHES}
        for times in release["seconds"].values():
            assert {"this package", "matrix products alone"} < times.keys()
            assert times.keys() <= CONTENDERS.keys()
        assert {"machine", "memory", "import"} < release.keys()
        of_gpt = parts.get("gpt", {"machine": None, "seconds": dict.fromkeys(bench.GPT_RACES, {})})
        assert of_gpt["seconds"].keys() == bench.GPT_RACES.keys() and "machine" in of_gpt
        for name, times in of_gpt["seconds"].items():
            assert times.keys() <= race.RACES[name].keys()
        for part in ("seconds", "memory"):
            assert parts["published"][part].keys() == bench.PUBLISHED_RACES.keys()


def test_the_table_of_published_models_has_times_and_memory(capsys):
    assert bench.PUBLISHED_RACES.keys() == published_memory.MODELS.keys()
    seconds = {"this package": 0.03, "transformers": 0.04}
    held = {"this package": 60_000_000, "transformers": 50_000_000}
    results = {
        "seconds": dict.fromkeys(bench.PUBLISHED_RACES, seconds),
        "memory": dict.fromkeys(bench.PUBLISHED_RACES, held),
    }
    for release in (None, {"seconds": results["seconds"]}, results):
        bench.print_published(results, release)
        printed = capsys.readouterr().out
        assert printed.count(f"{'transformers':21}    50       1.20") == len(held) + 1


@pytest.mark.thorough
def test_a_contender_of_the_gpt_with_another_gradient_is_refused():
    step = gpt.whole_batch(1, threads=1)
    step()  # its gradients are right, or it would not be there
    grads = gpt.build(gpt.DEFAULTS).loss_and_gradients(*gpt.draw_batches(1)[0])[1]
    gpt.check_gradients(1, grads)
    grads["decoder.layer_2.attention.norm.gamma"][3] *= 1.1
    with pytest.raises(ValueError, match="gradient of decoder.layer_2.attention.norm.gamma"):
        gpt.check_gradients(1, grads)
    del grads["tokens.table"]
    with pytest.raises(ValueError, match="gradients: expected those of"):
        gpt.check_gradients(1, grads)


@pytest.mark.parametrize("wrong, what", [(0, "of the prompt"), (gpt.PROMPT, "with the cache")])
def test_a_contender_with_other_logits_is_refused(wrong, what):
    read = gpt.package_reader(1, threads=1)
    gpt.check_logits(1, read)

    def off(ids, place):
        return read(ids, place) * (1.001 if place == wrong else 1)

    with pytest.raises(ValueError, match=what):
        gpt.check_logits(1, off)


def test_each_decoding_writes_the_most_probable_tokens_anew(monkeypatch):
    monkeypatch.setattr(gpt, "LENGTH", gpt.PROMPT + 8)
    write = gpt.DECODE["this package"].build(1, 1)
    text = gpt.prompt(1)
    model = gpt.build(gpt.DEFAULTS)
    while text.shape[1] < gpt.LENGTH:
        logits, _ = model.forward(text)
        text = np.append(text, logits[:, -1].argmax(axis=-1, keepdims=True), axis=1)
    expected = model.forward(text)[0][:, -1]
    for _ in range(2):
        np.testing.assert_allclose(write(), expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "contender",
    [c for of in (gpt.STEP, gpt.PREFILL, gpt.DECODE) for c in of.values() if not c.compiles],
)
def test_the_contenders_of_the_gpt_agree_with_the_package(contender):
    if contender.missing():
        pytest.skip(f"needs {contender.missing()}")
    contender.build(1, 1)()


def test_the_table_of_the_gpt_has_all_races(capsys):
    seconds = {name: {"this package": 0.03, "JAX": 0.04} for name in bench.GPT_RACES}
    bench.print_gpt({"seconds": seconds}, None)
    printed = capsys.readouterr().out
    assert all(f"{name}, B = {batch}" in printed for name, batch in bench.GPT_RACES.items())
    assert printed.count("40.0       0.75\n") == 3


@on_mpi
def test_a_contender_may_have_ranks():
    runner = race.Runner("Mini-BERT's step", "this package", 2, 1, os.environ, ranks=2)
    try:
        seconds, others = runner.turn()
    finally:
        runner.close()
    assert len(seconds) == 5 and min(seconds) > 0 and others >= 0
    assert runner.process.returncode == 0


@pytest.mark.parametrize("count", ["2", "4"])
def test_the_times_of_an_all_reduce_are_stored_by_its_bytes(count):
    stored = json.loads(ranks.RESULTS.read_text())
    sizes, seconds = zip(*stored["all_reduce"][count], strict=True)
    assert list(sizes) == [8 * 4**k for k in range(12)] and min(seconds) > 0


def test_the_table_of_ranks_has_their_ratio(capsys):
    ranks.print_results(
        {
            "machine": "a machine",
            "step": {"two threads": 0.2, "two ranks": 0.21},
            "all_reduce": {"2": [[8, 5e-5]]},
        }
    )
    printed = capsys.readouterr().out
    assert "ratio 1.050" in printed and "0.050" in printed


@pytest.mark.parametrize(
    "sizes",
    [
        GptSizes(L=2, D=12, H=4, G=2, d_k=6, F=10, V=31),
        GptSizes(L=3, D=16, H=4, G=4, d_k=4, F=10, V=31),
        GptSizes(L=1, D=12, H=6, G=1, d_k=2, F=11, V=17),
    ],
    ids=["grouped", "full", "one group"],
)
def test_the_cost_of_a_gpt_is_that_of_its_arrays(sizes):
    B, T = 3, 5
    attention = AttentionSpec(
        sizes.H, sizes.d_k, sizes.d_k, bias=False, key_heads=sizes.G, transform="rotary_halves"
    )
    spec = LayerSpec(sizes.D, attention, sizes.F, "pre", NormSpec("rms_norm"), "swiglu")
    rng = np.random.default_rng(0)
    model = Gpt(spec, StackSpec(sizes.V, T, sizes.L), rng)
    parameters = model.parameters()
    assert sum(sizes.parameters().values()) == sum(array.size for array in parameters.values())
    ids, targets = rng.integers(sizes.V, size=(2, B, T))
    logits, cache = model.forward(ids)
    _, loss_cache = cross_entropy(logits, targets)
    own, held = memory.owners(parameters), memory.owners([cache, loss_cache])
    assert sum(sizes.kept(B, T).values()) == sum(held[array] for array in held.keys() - own.keys())
    _, state = model.prefill(ids)
    assert sizes.cached(B, T) == sum(k.nbytes + v.nbytes for k, v in state.layers)

    count_everything(model)
    Counted.log.clear()
    logits, cache = model.forward(ids)
    expected = sum(sizes.products(B, T).values())
    assert operations_of_products() == expected
    model.backward(cross_entropy_backward(1, cross_entropy(logits, targets)[1]), cache)
    assert operations_of_products() == 3 * expected


def operations_of_products():
    return sum(n for _, ufunc, n, *_ in Counted.log if ufunc == "matmul")
