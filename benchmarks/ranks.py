"""Two ranks of MPI beside two threads of one process: ``python -m benchmarks.ranks``.

Also the time of an all-reduce by its bytes, to which the alpha-beta model is fitted.
"""

import argparse
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from benchmarks.__main__ import measured
from benchmarks.race import MPIEXEC, ROOT, Runner, on_ranks, race_to_the_end

RACE, BATCH, CORES, STEPS = "Mini-BERT's step", 32, 2, 100
RANKS = (2, 4)  # whose all-reduce is timed
RESULTS = Path(__file__).with_name("ranks.json")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--release", action="store_true", help=f"keep the numbers in {RESULTS.name}"
    )
    options = parser.parse_args()
    if which(MPIEXEC) is None or find_spec("mpi4py") is None:
        sys.exit("left out: needs pip install 'transformer-core[machines]'")
    results = measure()
    print_results(results)
    if options.release:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def measure(steps=STEPS):
    """Return the median step of both contenders, and the times of the all-reduces."""
    return {
        "machine": measured("machine", environment=os.environ)["machine"],
        "step": step_times(steps),
        "all_reduce": {str(ranks): all_reduce_times(ranks) for ranks in RANKS},
    }


def step_times(steps):
    contenders = {
        "two threads": Runner(RACE, "this package", BATCH, CORES, os.environ),
        "two ranks": Runner(RACE, "this package", BATCH, 1, os.environ, ranks=CORES),
    }
    return race_to_the_end(contenders, steps)


def all_reduce_times(ranks):
    """Return pairs of bytes and seconds."""
    command = on_ranks(ranks, "benchmarks.all_reduce")
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def print_results(results):
    threads, ranks = results["step"]["two threads"], results["step"]["two ranks"]
    print(f"\nOne step of seed 004's Mini-BERT, B = {BATCH}, {results['machine']}:")
    print(f"two threads {1e3 * threads:.1f} ms, two ranks of MPI {1e3 * ranks:.1f} ms,")
    print(f"ratio {ranks / threads:.3f}")
    for count, points in results["all_reduce"].items():
        print(f"\n{'bytes':>10}  ms of an all-reduce on {count} ranks")
        for nbytes, seconds in points:
            print(f"{nbytes:10}{1e3 * seconds:9.3f}")


if __name__ == "__main__":
    main()
