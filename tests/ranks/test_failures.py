"""A rank that fails ends the whole job: soon, with a message and an exit status.

A rank that waits gives up after its patience, here 2 s; what goes wrong otherwise is seen at once.
Soon is much sooner than what hangs, for 1000 s, or the patience that nobody has set, 300 s: how
long a job takes to start and to say what happened is a matter of the machine.
"""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers.ranks import MPIEXEC, mpiexec, on_mpi
from helpers.texts import ROOT

pytestmark = pytest.mark.slow
PATIENCE, SOON = 2, 40  # seconds
SCRIPT = """
import os, signal, sys, time
import numpy as np
from transformer_core.ranks import guarded, world

with guarded(world()) as c:
    x = np.ones(5)
    c.all_reduce(x)
    if c.rank == int(sys.argv[1]):
        {fault}
    c.all_reduce(x)
    c.all_reduce(x)
    {end}
"""
ENDED = r"error: rank \d: expected \w+ from rank {rank}, which has ended"
OTHER = r"error: rank \d: expected \w+ from rank \d, got \w+"
WAITED = r"error: rank \d: waited 2 s for rank {rank} in \w+"
OTHER_KIND = r"error: rank \d: expected float\d\d \(\d,\) from rank \d in reduce_scatter"


def run(tmp_path, size, rank, fault="pass", end=""):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(fault=fault, end=end))
    since = time.monotonic()
    result = mpiexec(size, script, rank, TRANSFORMER_CORE_PATIENCE=str(PATIENCE))
    return result, time.monotonic() - since


@on_mpi
@pytest.mark.parametrize("size, rank", [(2, 0), (4, 2)])
@pytest.mark.parametrize(
    "fault, status, message, patience",
    [
        ("raise KeyError('mine')", 1, r"rank {rank}: Traceback[^$]*KeyError: 'mine'", 0),
        ("sys.exit(3)", 3, "rank {rank}: exit status 3", 0),
        ("sys.exit('no more')", 1, "rank {rank}: no more", 0),
        ("sys.exit(0)", 1, ENDED, 0),
        # mpiexec kills the other ranks then, and tells of one of them, or of this one.
        ("os._exit(5)", (5, 9), "", 0),  # nobody is left to say it
        ("os.kill(os.getpid(), signal.SIGKILL)", 9, "EXIT CODE: 9", 0),
        ("os.kill(os.getpid(), signal.SIGSEGV)", (11, 9), r"EXIT CODE: (11|9)\b", 0),
        ("os.kill(os.getpid(), signal.SIGSTOP)", 1, WAITED, PATIENCE),
        ("time.sleep(1000)", 1, WAITED, PATIENCE),
        ("c.all_gather(x)", 1, OTHER, 0),
        ("c.broadcast(x, c.rank)", 1, OTHER, 0),
        ("c.receive((c.rank + 1) % c.size)", 1, OTHER, 0),
        ("x = np.ones(9)", 1, OTHER_KIND, 0),
        ("x = np.ones(5, np.float32)", 1, OTHER_KIND, 0),
    ],
    ids=lambda value: value.split("(")[0] if isinstance(value, str) else "",
)
def test_the_job_ends_soon_with_one_message(tmp_path, size, rank, fault, status, message, patience):
    result, seconds = run(tmp_path, size, rank, fault)
    assert result.returncode in np.atleast_1d(status)
    assert seconds < patience + SOON
    assert re.search(message.format(rank=rank), result.stdout + result.stderr)
    said = re.findall(r"^(?:error|rank \d):", result.stderr, re.MULTILINE)
    assert len(said) == bool(message and "EXIT CODE" not in message)


@on_mpi
@pytest.mark.parametrize("end", ["raise ValueError('ours')", "sys.exit(3)"])
def test_what_all_ranks_raise_is_said_once(tmp_path, end):
    result, _ = run(tmp_path, 4, 0, end=end)
    assert result.returncode == (3 if "exit" in end else 1)
    assert len(re.findall(r"^rank 0: ", result.stderr, re.MULTILINE)) == 1
    assert not re.search(r"^rank [1-3]: ", result.stderr, re.MULTILINE)


@on_mpi
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_hangs_after_the_last_operation_ends_the_job(tmp_path, rank):
    end = f"if c.rank == {rank}: time.sleep(1000)"
    result, seconds = run(tmp_path, 2, 0, end=end)
    assert result.returncode == 1 and seconds < PATIENCE + SOON
    assert re.search(WAITED.format(rank=rank), result.stderr)


@on_mpi
def test_ranks_that_send_large_arrays_to_each_other_do_not_wait_for_ever(tmp_path):
    end = "c.send(np.ones(10**6), 1 - c.rank); c.receive(1 - c.rank)"
    result, seconds = run(tmp_path, 2, 0, end=end)
    assert result.returncode == 1 and seconds < PATIENCE + SOON
    assert "waited 2 s for rank 1 in send" in result.stderr


@on_mpi
def test_ctrl_c_ends_all_ranks(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(fault="print('ready', flush=True)", end="while True: c.barrier()")
    )
    with subprocess.Popen(
        [MPIEXEC, "-n", "2", sys.executable, script, "1"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that mpiexec alone is told
    ) as job:
        job.stdout.readline()
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=20)
    assert job.returncode != 0
    assert errors.count("KeyboardInterrupt") <= 1  # mpiexec may end it first


@on_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_all_ranks_may_end_early(tmp_path, size):
    result, _ = run(tmp_path, size, 0, end="sys.exit(0)")
    assert (result.returncode, result.stderr) == (0, "")
