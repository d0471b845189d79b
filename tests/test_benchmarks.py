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
from benchmarks import memory, race, ranks
from benchmarks.contenders import (
    CONTENDERS,
    Contender,
    matrix_products,
    mini_bert,
    read_out,
    step_in_parallel,
)
from benchmarks.work import MASKED, PARAMETERS, draw_batches
from transformer_core.ops import linear


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
    for release in releases.values():
        assert release["seconds"].keys() == {str(batch) for batch in bench.BATCHES}
        for times in release["seconds"].values():
            assert {"this package", "matrix products alone"} < times.keys()
            assert times.keys() <= CONTENDERS.keys()
        assert {"machine", "memory", "import"} < release.keys()


@on_mpi
def test_a_contender_may_have_ranks():
    runner = race.Runner("this package", 2, 1, os.environ, ranks=2)
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
