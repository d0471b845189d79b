"""How the tests run scripts on ranks of MPI."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.texts import ROOT

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
