"""The time of an all-reduce: ``mpiexec -n N python -m mpi4py -m benchmarks.all_reduce``.

The first rank prints pairs of bytes and seconds as JSON.
"""

import json
import time

import numpy as np

from transformer_core.distributed.memory import keep_freed_memory
from transformer_core.ranks import guarded, world

SIZES = [8 * 4**k for k in range(12)]  # bytes: 8 to 34 million
ROUNDS = 30


def main():
    keep_freed_memory()
    with guarded(world()) as communicator:
        points = [
            (nbytes, measure(communicator, np.ones(nbytes // 4, np.float32))) for nbytes in SIZES
        ]
        if communicator.rank == 0:
            print(json.dumps(points))


def measure(communicator, array):
    """Return the shortest time from a common start to the end of the slowest rank."""
    times = []
    for _ in range(ROUNDS):
        communicator.barrier()
        start = time.perf_counter()
        communicator.all_reduce(array)
        taken = np.array([time.perf_counter() - start])
        times.append(communicator.all_reduce(taken, np.maximum).item())
    return min(times)


if __name__ == "__main__":
    main()
