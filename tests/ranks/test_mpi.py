"""Ranks as processes give what ranks as threads give, bit for bit and byte for byte."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.collectives import every_collective
from helpers.ranks import mpiexec, on_mpi, on_processes
from helpers.texts import ROOT
from helpers.witnesses import assert_same_bits

from transformer_core.ranks import Communicator, on_threads, world
from transformer_core.ranks.mpi import HEADER, THREADS, header


@on_mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_collective_is_the_same_bits_and_bytes_as_on_threads(tmp_path, size):
    processes = on_processes(size, every_collective, tmp_path)
    for found, expected in zip(processes, on_threads(size, every_collective), strict=True):
        assert_same_bits(found, expected)


@on_mpi
@pytest.mark.parametrize("environment, threads", [({}, "1"), ({"OMP_NUM_THREADS": "2"}, "2")])
def test_a_rank_multiplies_with_one_thread_unless_the_environment_says_more(
    tmp_path, environment, threads
):
    script = tmp_path / "threads.py"
    script.write_text(
        "import os, sys\n"
        f"for name in {THREADS}: os.environ.pop(name, None)\n"
        "os.environ |= dict(a.split('=') for a in sys.argv[1:])\n"
        "from threadpoolctl import threadpool_info\n"
        "from transformer_core.ranks import guarded, world\n"
        "with guarded(world()) as c:\n"
        "    if c.rank == 0: print({p['num_threads'] for p in threadpool_info()})\n"
    )
    given = [f"{name}={value}" for name, value in environment.items()]
    assert mpiexec(2, script, *given).stdout == f"{{{threads}}}\n"


def test_without_mpiexec_the_world_is_one_process(monkeypatch):
    for name in os.environ:
        if name.startswith(("PMI", "OMPI")):
            monkeypatch.delenv(name)
    assert type(world()) is Communicator


def test_an_operation_whose_name_is_too_long_for_the_header_is_refused():
    assert len(header("all_reduce", np.ones((2, 3)))) == HEADER
    with pytest.raises(ValueError, match="operation: expected a name .*, got 'aaa"):
        header("a" * HEADER, np.ones(3))


@pytest.mark.parametrize("rank", [0, 1])
def test_mpiexec_without_mpi4py_says_once_what_to_install(tmp_path, rank):
    script = (
        "import sys\n"
        "sys.modules['mpi4py'] = None\n"
        "from transformer_core.__main__ import main\n"
        f"sys.exit(main(['train', 'encoder', '--out', {str(tmp_path / 'run')!r}]))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PMI_RANK": str(rank), "PMI_SIZE": "2"},
        capture_output=True,
        text=True,
    )
    message = (
        "error: mpi4py is not installed, try: python -m pip install 'transformer-core[machines]'\n"
    )
    assert (result.returncode, result.stderr) == (1, "" if rank else message)
    assert not (tmp_path / "run").exists()


@on_mpi
@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["--help"], 0, ""),
        (["train"], 2, "the following arguments are required: model"),
        (["read", "RUN"], 1, "read: expected one process, got 2 ranks"),
    ],
)
def test_the_first_rank_alone_speaks_for_the_command_line(arguments, status, message):
    result = mpiexec(2, "-m", "transformer_core", *arguments)
    assert result.returncode == status
    assert result.stdout.count("usage:") == (status == 0)
    assert result.stderr.count("error:") == bool(message)
    assert message in result.stderr


@on_mpi
@pytest.mark.parametrize("patience", ["soon", "0", "nan"])
def test_a_patience_that_is_no_time_is_one_line(patience):
    result = mpiexec(2, "-m", "transformer_core", "train", TRANSFORMER_CORE_PATIENCE=patience)
    assert result.returncode == 1
    assert "atience: expected" in result.stderr.lower()
