"""One contender in a process of its own: ``python -m benchmarks.worker RACE NAME B THREADS``.

Takes a few steps for each line that it reads, and answers with a line of JSON: the seconds of each
step, and how many cores other programs kept busy meanwhile. Started by ``mpiexec``, it is one
contender on many ranks, of which the first one reads and answers.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.race import RACES
from transformer_core.ranks import guarded, world

WARM, TIMED = 1, 5  # steps a line


def main(race, name, batch, threads):
    with guarded(world()) as communicator:
        step = RACES[race][name].build(int(batch), int(threads))
        communicator.barrier()
        answer(communicator, "ready")
        while communicator.broadcast(np.array(bool(wanted(communicator)))):
            answer(communicator, json.dumps(turn(step, communicator)))


def wanted(communicator):
    """Read a line, on the first rank; nothing is left when it is empty."""
    return communicator.rank == 0 and sys.stdin.readline()


def answer(communicator, line):
    if communicator.rank == 0:
        print(line, flush=True)


def turn(step, communicator):
    """Return the seconds of each step, and how many cores others kept busy meanwhile."""
    for _ in range(WARM):
        step()
    elapsed, ours, all_busy = time.perf_counter(), time.process_time(), busy()
    seconds = []
    for _ in range(TIMED):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    ours, all_busy = time.process_time() - ours, busy() - all_busy
    of_all_ranks = communicator.all_reduce(np.array([ours])).item()
    others = max(0, all_busy - of_all_ranks) / (time.perf_counter() - elapsed)
    return seconds, others


def busy():
    """Return for how long all cores together have been busy, in seconds; 0 if Linux is absent."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return 0
    user, nice, system, _, _, *interrupts = statistics.read_text().split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / 100


if __name__ == "__main__":
    main(*sys.argv[1:])
