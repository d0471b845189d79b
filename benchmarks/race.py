"""Contenders in turn, each in a process of its own, and the times of their steps."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks import gpt, published
from benchmarks.contenders import CONTENDERS

ROOT = Path(__file__).parents[1]
PAUSE = 0.1  # seconds: longer than idle threads of a library wait before they sleep
QUIET = 0.1  # cores
RACES = {
    "Mini-BERT's step": CONTENDERS,
    "the GPT's step": gpt.STEP,
    "the GPT's prefill": gpt.PREFILL,
    "the GPT's decoding": gpt.DECODE,
    "BERT-base, a padded batch": published.BASE,
    "MiniLM, a padded batch": published.SENTENCES,
    "GPT-2, tokens written": published.WRITE,
}


MPIEXEC = shutil.which("mpiexec", path=Path(sys.executable).parent) or "mpiexec"


class Runner:
    """A contender in processes of its own, one a rank, which steps when it is told to."""

    def __init__(self, race, name, batch, threads, environment, ranks=1):
        variables = ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")
        settings = {f"{variable}_NUM_THREADS": str(threads) for variable in variables}
        self.process = subprocess.Popen(
            [*on_ranks(ranks, "benchmarks.worker"), race, name, str(batch), str(threads)],
            cwd=ROOT,
            env=environment | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process.stdout.readline()

    def turn(self):
        """Take a few steps.

        Returns
        -------
        seconds : list of float
            Of each step.
        others : float
            How many cores other programs kept busy meanwhile.
        """
        time.sleep(PAUSE)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def on_ranks(ranks, module):
    """Return the command that runs a module, on ranks of MPI if they are more than one."""
    if ranks == 1:
        return [sys.executable, "-m", module]
    return [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module]


def race(contenders, steps, patience=100):
    """Time the steps of contenders, a few at a time in turn.

    Parameters
    ----------
    contenders : dict of str to Runner
    steps : int
        How many to time of each, at least.
    patience : int
        How many turns to repeat because other programs kept the processor busy.

    Returns
    -------
    dict of str to float
        The median of each contender, in seconds.
    """
    times = {name: [] for name in contenders}
    for contender in contenders.values():
        contender.turn()
    while min(map(len, times.values())) < steps:
        for name, contender in contenders.items():
            seconds, others = contender.turn()
            if others > QUIET and patience > 0:
                patience -= 1
            else:
                times[name] += seconds
    return {name: median(seconds) for name, seconds in times.items()}


def race_to_the_end(contenders, steps):
    """Time the steps of contenders, and end their processes."""
    try:
        return race(contenders, steps)
    finally:
        for contender in contenders.values():
            contender.close()


def step_times(race_name, batch, environment, threads, steps):
    """Hold a race at a batch size, without those that this machine lacks something for."""
    contenders = {
        name: Runner(race_name, name, batch, threads, environment)
        for name, contender in RACES[race_name].items()
        if not contender.missing()
    }
    return race_to_the_end(contenders, steps)
