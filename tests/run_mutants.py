"""Run the tests on the package with one mistake after another in it: ``make mutants``.

Succeeds if every mistake of the catalogue of ``transformer_core.practice`` makes some test fail,
and a change that is no mistake makes none fail.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from transformer_core.practice.catalogue import MUTANTS, NO_MISTAKE, PLANTABLE
from transformer_core.practice.checks import fresh_check
from transformer_core.practice.planting import planted

ROOT = Path(__file__).parents[1]
LEFT_OUT = {
    "tests/test_mutants.py",
    "tests/test_onefile.py",  # compares with the files, in which no mutant is
    "tests/test_project_files.py",  # looks at pages and notebooks
    "tests/test_run_mutants.py",
    "tests/test_stamps.py",  # looks at notebooks
}
OF_EVERY_OPERATION = ("test_contract.py", "test_memory_layout.py", "test_float32.py")
QUICK = ("ops", "layers", "models", "optim", "training", "distributed")


def every_test_file():
    """List the test files, those that find most mistakes first."""
    files = [
        path.relative_to(ROOT)
        for path in sorted(ROOT.glob("tests/**/test_*.py"))
        if path.parent.name not in ("browser", "parity")
    ]
    files = [path for path in files if path.as_posix() not in LEFT_OUT]
    files.sort(
        key=lambda path: (
            path.name not in OF_EVERY_OPERATION,
            path.parent.name not in QUICK,
            "practice" in path.parts,
        )
    )
    return [str(path) for path in files]


class Verdict(NamedTuple):
    name: str
    killer: str | None  # the test that fails first; None: the mutant survives
    fresh: bool  # whether a check of new models kills it
    seconds: float


def main(arguments=None, suite=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which mistakes; default: all"
    )
    parser.add_argument("--workers", type=int, default=2, help="how many run at a time")
    options = parser.parse_args(arguments)
    names = options.names or list(MUTANTS)
    suite = suite or every_test_file()
    if not MUTANTS.keys() >= set(names):
        parser.error(f"expected names of the catalogue, got {' '.join(names)}")
    try:
        for name in (NO_MISTAKE.name, *names):
            with planted(PLANTABLE[name]):
                pass
    except ValueError as error:
        print(error)
        return 1

    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        verdicts = []
        for verdict in pool.map(partial(judge, suite=suite), (NO_MISTAKE.name, *names)):
            print(
                f"{verdict.name:40}{verdict.seconds:5.0f} s  {verdict.killer or 'survives'}",
                flush=True,
            )
            verdicts.append(verdict)
    sound, *verdicts = verdicts
    killed = sum(verdict.killer is not None for verdict in verdicts)
    fresh = sum(verdict.fresh for verdict in verdicts)
    if sound.killer or sound.fresh:
        print("the tests fail without a mistake: the verdicts tell nothing")
        return 1
    print(f"killed {killed} of {len(verdicts)}")
    print(f"a check of new models kills {fresh} of {len(verdicts)}")
    return 0 if killed == len(verdicts) else 1


def judge(name, suite):
    """Test the package with a mistake in it: the tests of the file, of its folder, then all."""
    start = perf_counter()
    mutant = PLANTABLE[name]
    with planted(mutant):
        fresh = fresh_check() is not None
    folder, _, file = f"tests/{mutant.file}".rpartition("/")
    own = f"{folder}/test_{file}"
    killer = first_failing_test(name, own) if (ROOT / own).exists() else None
    nearest = sorted(suite, key=lambda path: not path.startswith(f"{folder}/"))
    killer = killer or first_failing_test(name, *nearest)
    return Verdict(name, killer, fresh, perf_counter() - start)


def first_failing_test(name, *paths):
    """Return the name of the first test that fails under a mistake, None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "--tb=no", "-rfE"]
    without = ["-p", "no:cacheprovider", "-p", "no:nbval"]  # the second starts slowly
    without += ["-m", "not mpi"]  # other processes do not have the mistake
    run = subprocess.run(
        [*command, *without, f"--mutant={name}", *paths],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", run.stdout, re.MULTILINE)
    if run.returncode == 0:
        return None
    if run.returncode == 1 and failed:
        return failed[1]
    raise RuntimeError(f"pytest could not run:\n{run.stdout}{run.stderr}")


if __name__ == "__main__":
    sys.exit(main())
