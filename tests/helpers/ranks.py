"""How the tests run scripts on ranks of MPI, and what they ask of a map over ranks."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.texts import ROOT
from helpers.witnesses import normal

from transformer_core.ranks import on_threads

MPIEXEC = shutil.which("mpiexec", path=Path(sys.executable).parent) or shutil.which("mpiexec")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def on_mpi(test):
    """Mark a test that needs MPI; it is skipped, by its name, where there is none."""
    missing = MPIEXEC is None or find_spec("mpi4py") is None
    install = "needs mpiexec and mpi4py: python -m pip install 'transformer-core[machines]'"
    return pytest.mark.mpi(pytest.mark.skipif(missing, reason=install)(test))


def mpiexec(size, *arguments, timeout=60, **environment):
    """Run Python on ranks; ``arguments`` are a script or ``-m module``, and its arguments."""
    return subprocess.run(
        [MPIEXEC, "-n", str(size), sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ
        | ONE_THREAD
        | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            "TRANSFORMER_CORE_PATIENCE": "20",
        }
        | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def on_processes(size, work, folder, *arguments):
    """Call ``work(communicator, ...)`` on ranks of MPI; return the arrays of each, by name."""
    script = Path(__file__).with_name("on_rank.py")
    result = mpiexec(size, script, work.__module__, work.__name__, folder, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    found = []
    for rank in range(size):
        with np.load(folder / f"{rank}.npz") as arrays:
            found.append(dict(arrays))
    return found


def adjoint_gap(make, kind_in, kind_out, size, rng):
    """Return how far <Ax, y> and <x, A* y> lie apart, for ``make(communicator)``, A on ranks.

    The ranks have copies of one array, pieces of one, or terms of a sum.
    """

    def draw(kind):
        arrays = normal(rng, (size, 2, 12 // size if kind == "pieces" else 12, 3))
        return np.broadcast_to(arrays[0], arrays.shape) if kind == "copies" else arrays

    def inner(kind, one, other):
        products = [(a * b).sum() for a, b in zip(one, other, strict=True)]
        return np.array(products) if kind == "copies" else sum(products)

    x, y = draw(kind_in), draw(kind_out)

    def work(c):
        return make(c).forward(x[c.rank]), make(c).backward(y[c.rank])

    out, back = zip(*on_threads(size, work), strict=True)
    return np.abs(inner(kind_out, out, y) - inner(kind_in, x, back)).max()
