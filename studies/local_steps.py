"""Eight workers that meet once in many steps, beside eight that agree on every one.

All of them train a small encoder on fresh sequences, and all trainings use as many of them.
"""

import numpy as np

from transformer_core.distributed import LocalSteps
from transformer_core.layers import LayerSpec
from transformer_core.ops import mean_squared_error
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.ranks import Group, on_threads
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor

SEEDS = range(5)
WORKERS = 8
SEQUENCES = 1  # of a worker in a step
STEPS = 500  # of each worker, where all of them take as many
EVERY = 5, 25, 125
OUTER = {"mean": (1.0, 0.0), "half": (0.7, 0.5), "published": (0.7, 0.9)}  # rate, momentum
CONTROLS = {"three": (0.3, 0.9), "one": (0.1, 0.9)}  # shorter rounds, the published momentum
RATES = {  # of the inner steps, around the best
    "synchronous": (1e-2, 3e-2, 1e-1, 3e-1),
    "alone": (1e-2, 3e-2, 1e-1),
    "mean": (1e-2, 3e-2, 1e-1),
    "half": (1e-2, 3e-2, 1e-1),
    "published": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
}
CONTROL_RATES = {
    ("one", 5): (3e-2, 1e-1, 3e-1),
    ("one", 25): (1e-2, 3e-2, 1e-1),
    ("one", 125): (1e-2, 3e-2, 1e-1),
    ("three", 25): (1e-2, 3e-2, 1e-1),
}
SPEC = LayerSpec(32, 4, 64, "pre")
LOOKS = 20  # at the error on unseen sequences


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for kind in ("synchronous", "alone"):
            for rate in RATES[kind]:
                yield {"kind": kind, "rate": rate, "seed": seed}
        for outer in OUTER:
            for every in EVERY:
                settings = {"kind": "local", "every": every, "outer": outer, "seed": seed}
                yield from (settings | {"rate": rate} for rate in RATES[outer])
        for (outer, every), rates in CONTROL_RATES.items():
            settings = {"kind": "local", "every": every, "outer": outer, "seed": seed}
            yield from (settings | {"rate": rate} for rate in rates)
        for outer in ("mean", "half"):
            for change in (
                {"who": "stragglers", "weights": "steps"},
                {"who": "stragglers", "weights": "equal"},
                {"who": "leaving"},
            ):
                settings = {"every": 25, "outer": outer, "rate": 3e-2, "seed": seed}
                yield {"kind": "local"} | settings | change


def run(kind, **settings):
    """One training: of ``synchronous`` workers, of one ``alone``, or with ``local`` steps."""
    return {"synchronous": synchronous, "alone": alone, "local": local}[kind](**settings)


class Worker:
    """One of the workers: its model, its optimiser, and sequences that no other one sees."""

    def __init__(self, seed, rank, rate, sequences=SEQUENCES):
        rng = np.random.default_rng(seed)
        self.task = Reconstruction(rng, length=8, width=32)
        self.unseen = self.task.sample(256, rng)
        self.model = Reconstructor(SPEC, 1, rng, final_norm=True)
        self.rng = np.random.default_rng([seed, rank])
        self.rate, self.sequences = rate, sequences
        self.begin()

    def begin(self):
        self.optimizer = AdamW(self.model.parameters())

    def step(self, share):
        """Take a step when this share of all sequences has been used."""
        self.optimizer.learning_rate = warmup_stable_decay(
            1 + int(share * STEPS), STEPS, self.rate, STEPS // 20, STEPS - STEPS // 20
        )
        _, grads = self.model.loss_and_gradients(*self.task.sample(self.sequences, self.rng))
        self.optimizer.step(grads, max_norm=1.0)

    def error(self):
        inputs, targets = self.unseen
        loss, _ = mean_squared_error(self.model.forward(inputs)[0], targets)
        return round(float(loss), 5)


def synchronous(rate, seed, sequences=WORKERS * SEQUENCES):
    """Data parallel, here in one process: a step on the sequences of all workers together."""
    worker = Worker(seed, 0, rate, sequences)
    looks = []
    for step in range(STEPS):
        worker.step(step / STEPS)
        if (step + 1) % (STEPS // LOOKS) == 0:
            looks.append([(step + 1) / STEPS, worker.error()])
    return {"looks": looks, "unseen": looks[-1][1]}


def alone(rate, seed):
    """One worker that never meets another one, with an eighth of the sequences."""
    return synchronous(rate, seed, SEQUENCES)


def local(every, outer, rate, seed, who="all", weights="steps"):
    """Local steps with an outer optimiser; with who is there, and how quick they are."""
    rounds = plan(who, every, seed)
    ranks = on_threads(WORKERS, work, rounds, (OUTER | CONTROLS)[outer], rate, seed, weights)
    looks = sorted(look for looks, _ in ranks for look in looks)
    return {
        "looks": looks,
        "unseen": looks[-1][1],
        "meetings": len(rounds),
        "bytes": {
            operation: sum(sent[operation].bytes for _, sent in ranks if operation in sent)
            for operation in sorted({name for _, sent in ranks for name in sent})
        },
    }


def plan(who, every, seed):
    """The steps of each worker in each round, 0 for who is away, to the last sequence."""
    rng = np.random.default_rng([seed, WORKERS])
    rounds, left = [], STEPS * WORKERS
    here = np.ones(WORKERS, bool)
    while left > 0:
        steps = np.full(WORKERS, every)
        if who == "stragglers":
            steps[-WORKERS // 4 :] = every // 5
        if who == "leaving" and rounds:
            stays = here
            while not (stays & (here := rng.random(WORKERS) < 0.75)).any():
                pass
            steps[~here] = 0
        if steps.sum() > left:  # the last round is shorter
            steps = steps * left // steps.sum()
            steps[np.flatnonzero(steps)[0]] += left - steps.sum()
        rounds.append([int(n) for n in steps])
        left -= sum(rounds[-1])
    return rounds


def work(communicator, rounds, outer, rate, seed, weights):
    """What one rank does; returns what it saw, at the meetings where it was the first."""
    rank, total = communicator.rank, STEPS * WORKERS
    worker = Worker(seed, rank, rate)
    steps_together = LocalSteps(worker.model.parameters(), *outer)
    looks, used, before = [], 0, list(range(WORKERS))
    for steps in rounds:
        present = [r for r in range(WORKERS) if steps[r]]
        back = [r for r in present if r not in before]
        guide = next(r for r in present if r in before)
        if back and rank in (guide, *back):
            steps_together.catch_up(Group(communicator, [guide, *back]))
        if rank in back:
            worker.begin()
        for step in range(steps[rank]):
            worker.step((used + sum(steps) * step / steps[rank]) / total)
        used += sum(steps)
        if rank in present:
            weight = steps[rank] if weights == "steps" else 1
            steps_together.meet(Group(communicator, present), weight)
        if rank == present[0]:
            looks.append([used / total, worker.error()])
        before = present
    return looks, communicator.sent
