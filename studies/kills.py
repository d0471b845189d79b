"""Trainings that are killed at random moments, alone and on two ranks, and resumed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from studies import ROOT
from transformer_core.ranks import guarded, world
from transformer_core.tasks.bert.recipe import RECIPE as BERT
from transformer_core.tasks.dates.recipe import RECIPE as DATES
from transformer_core.tasks.reconstruction.recipe import RECIPE as ENCODER
from transformer_core.training import Run, train_on_disk

KILLS = 20
RECIPES = {recipe.model: recipe for recipe in (ENCODER, DATES, BERT)}
OWN = {
    "encoder": {"epochs": 60},
    "dates": {"steps": 60},
    "bert": {"steps": 60, "vocabulary": 60, "length": 16, "layers": 1},
}
SMALL = {
    "batch": 8,
    "checkpoint_every": 5,
    "spec": {"width": 32, "hidden_width": 64, "dropout": 0.1},
}
SENTENCES = (
    "the cat will chase a mouse .",
    "one mouse may eat some cheese .",
    "a dog can bite his bone .",
)
LONGEST = 120  # seconds that a training may take


def runs():
    """The settings of every run."""
    for model in RECIPES:
        for ranks in (1, 2):
            yield {"model": model, "ranks": ranks}


def run(model, ranks, kills=KILLS):
    """Kill a training at a random moment and resume it, again and again from the start.

    Return for each kill the step of the checkpoint that it left, None where there was none yet,
    the seconds until all processes were gone, and whether the resumed run is, to the last bit,
    the one that nobody killed.
    """
    rng = np.random.default_rng(ranks)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder / "text.txt")
        Process(model, ranks, folder, "warm up").end()
        whole = Process(model, ranks, folder, "whole")
        lasted = whole.end()
        found = {"steps": [], "seconds": [], "same": []}
        while len(found["same"]) < kills:
            out = f"run {len(found['same'])}"
            process = Process(model, ranks, folder, out)
            seconds = process.kill(rng.uniform(0, lasted), rng.integers(ranks))
            if seconds is None:  # it was done before
                shutil.rmtree(folder / out)
                continue
            found["seconds"].append(round(seconds, 2))
            found["steps"].append(Run(folder / out).steps())
            Process(model, ranks, folder, out).end()
            found["same"].append(content(folder / out) == content(folder / "whole"))
    return found


def write_text(path):
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(SENTENCES, 40)) for _ in range(60)]
    path.write_text("\n\n".join(documents), encoding="utf-8")


def content(folder):
    """What a run has come to."""
    return [Run(folder).read(n) for n in ("history.json", "checkpoint.safetensors")]


class Process:
    """A training of some ranks in processes of their own, which goes on where one was begun."""

    def __init__(self, model, ranks, folder, out):
        command = [sys.executable, "-m", "studies.kills", model, out]
        if ranks > 1:
            command = [mpiexec(), "-n", str(ranks), *command]
        self.out = folder / out
        self.identities = [folder / f"{out}.{rank}" for rank in range(ranks)]
        for path in self.identities:
            path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def begin(self):
        """Wait until every rank has begun, and the folder is there; return when that was."""
        while not all(path.exists() for path in (self.out, *self.identities)):
            if self.process.poll() is not None:
                raise RuntimeError(f"exit status {self.process.returncode}")
            time.sleep(0.001)
        return time.perf_counter()

    def end(self):
        """Wait until it is done; return how long it took."""
        begun = self.begin()
        if self.process.wait(LONGEST):
            raise RuntimeError(f"exit status {self.process.returncode}")
        return time.perf_counter() - begun

    def kill(self, delay, rank):
        """Kill one rank; return the seconds until all are gone, None if it was done before."""
        self.begin()
        time.sleep(delay)
        if self.process.poll() is not None:
            return None
        killed = time.perf_counter()
        try:
            os.kill(int(self.identities[rank].read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass
        if self.process.wait(LONGEST) == 0:
            return None
        return time.perf_counter() - killed


def mpiexec():
    """Return the program that starts ranks: that of this environment, if it has one."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def main(model, out):
    """Train in a folder of the current one, as one rank."""
    with guarded(world()) as communicator:
        identity = Path(f"{out}.{communicator.rank}")
        part = Path(f"{out}.{communicator.rank}.part")
        part.write_text(str(os.getpid()))
        part.replace(identity)
        given = SMALL | OWN[model] | ({"text": "text.txt"} if model == "bert" else {})
        resume = Run(out).has("settings.json")
        communicator.barrier()  # before rank 0 writes the settings
        train_on_disk(RECIPES[model], out, given, resume, communicator)


if __name__ == "__main__":
    main(*sys.argv[1:])
