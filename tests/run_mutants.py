"""Run the tests on the package with one mistake after another in it: ``make mutants``.

Succeeds if every mistake of the catalogue of ``transformer_practice`` makes some test fail that
passes with a change that is no mistake. The tests are imported and collected once; each mistake is
planted in a fork of this process, which runs them and ends with the first that fails: the one that
found the mistake before, then those of the wounded file, of its folder, and all others.
"""

import argparse
import gc
import json
import os
import signal
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import pytest
from helpers.share import chosen
from hypothesis import Phase, settings

from transformer_practice.engine.planting import plant, planted
from transformer_practice.mistakes import MUTANTS, NO_MISTAKE, PLANTABLE

ROOT = Path(__file__).parents[1]
KILLERS = ROOT / "tests/killers.json"  # the test that found each mistake the last time
LEFT_OUT = {
    "tests/test_mutants.py",
    "tests/book/test_onefile.py",  # compares with the files, in which no mutant is
    "tests/test_project_files.py",  # looks at pages and notebooks
    "tests/test_run_mutants.py",
    "tests/book/test_stored.py",  # looks at notebooks
}
PATIENCE = 900  # seconds for the tests of one mistake
OF_EVERY_OPERATION = ("test_contract.py", "test_memory_layout.py", "test_float32.py")
# The examples of every other run; one that fails is enough, the smallest is not looked for.
settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    max_examples=30,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
QUICK = ("ops", "layers", "models", "optim", "training", "distributed")


class Verdict(NamedTuple):
    name: str
    killer: str | None  # the test that fails first; None: the mutant survives
    seconds: float


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all, or those of SHARE")
    parser.add_argument("--workers", type=int, default=2, help="how many run at a time")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="of these files; default: all")
    options = parser.parse_args(arguments)
    names = options.names or chosen(MUTANTS)
    os.environ.pop("SHARE", None)  # of the mistakes, not of the tests
    if not PLANTABLE.keys() >= set(names):
        parser.error(f"expected names of the catalogue, got {' '.join(names)}")
    try:
        for name in (NO_MISTAKE.name, *names):
            with planted(PLANTABLE[name]):
                pass
    except ValueError as error:
        print(error)
        return 1

    run = Run(names, options.workers)
    with TemporaryDirectory() as folder:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # the forks do not tidy up
        command = [
            "-qq",
            "--hypothesis-profile=mutants",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:nbval",
        ]
        command += ["-m", "not mpi"]  # other processes do not have the mistake
        code = pytest.main([*command, *(options.tests or every_test_file())], plugins=[run])
    if code != pytest.ExitCode.OK:
        print("the tests could not be collected")
        return 1
    if run.unsound:
        print(f"{', '.join(run.unsound)}: fails without a mistake, the verdicts tell nothing")
        return 1
    killed = sum(verdict.killer is not None for verdict in run.verdicts)
    print(f"killed {killed} of {len(run.verdicts)}")
    if not options.tests:
        killers = known_killers() | {verdict.name: verdict.killer for verdict in run.verdicts}
        killers = {name: killers[name] for name in MUTANTS if killers.get(name)}
        KILLERS.write_text(json.dumps(killers, indent=0) + "\n", encoding="utf-8")
    return 0 if killed == len(run.verdicts) else 1


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
    return [str(ROOT / path) for path in files]


def known_killers():
    return json.loads(KILLERS.read_text(encoding="utf-8")) if KILLERS.exists() else {}


class Run:
    """A plugin of pytest that judges mistakes in place of running the tests once."""

    def __init__(self, names: list[str], workers: int):
        self.names, self.workers = names, workers
        self.verdicts, self.unsound = [], []
        self.failed = False  # in a fork: whether a test has failed

    def pytest_runtestloop(self, session):
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self.items = session.items
        known = known_killers()
        gc.freeze()  # the forks share what is here
        jobs = ((name, self.nearest_first(PLANTABLE[name], known.get(name))) for name in self.names)
        for verdict in self.judge(jobs):
            seconds, killer = verdict.seconds, verdict.killer or "survives"
            print(f"{verdict.name:40}{seconds:5.1f} s  {killer}", flush=True)
            self.verdicts.append(verdict)
        killers = {verdict.killer for verdict in self.verdicts} - {None}
        alone = [[item] for item in self.items if item.nodeid in killers]
        sound = self.judge((NO_MISTAKE.name, [items]) for items in alone)
        self.unsound = [verdict.killer for verdict in sound if verdict.killer]
        return True

    def nearest_first(self, mutant, killer):
        """Yield the last killer, then the others: the file's own, its folder's; slow ones later."""
        folder, _, file = mutant.file.rpartition("/")
        folder = f"tests/{folder}/" if folder else "tests/"

        def distance(item):
            own = item.nodeid.startswith(f"{folder}test_{file}::")
            far = 0 if own else 1 if item.nodeid.startswith(folder) else 2
            return far, item.get_closest_marker("slow") is not None

        yield [item for item in self.items if item.nodeid == killer]
        yield sorted((item for item in self.items if item.nodeid != killer), key=distance)

    def judge(self, jobs: Iterable):
        """Fork for each job, so many at a time; yield verdicts as they come."""
        running, jobs = {}, iter(jobs)
        while True:
            while len(running) < self.workers and (job := next(jobs, None)):
                reader, writer = os.pipe()
                start = perf_counter()
                child = os.fork()
                if child == 0:
                    self.run_in_a_fork(*job, writer)
                os.close(writer)
                running[child] = job[0], reader, start
            if not running:
                return
            child, status = os.wait()
            name, reader, start = running.pop(child)
            with os.fdopen(reader) as pipe:
                report = pipe.read()
            if status or not report:
                raise RuntimeError(f"{name}: the tests ended with {status} before a verdict")
            yield Verdict(name, json.loads(report), perf_counter() - start)

    def run_in_a_fork(self, name, batches, writer):
        status = 1
        try:
            self.items[0].config.pluginmanager.unregister(name="terminalreporter")
            signal.alarm(PATIENCE)  # a test that waits for ever is no verdict
            plant(PLANTABLE[name])
            os.write(writer, json.dumps(self.first_failing(batches)).encode())
            status = 0
        finally:
            os._exit(status)

    def first_failing(self, batches):
        for items in batches:
            for item, following in pairwise([*items, None]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    return item.nodeid
        return None

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed


if __name__ == "__main__":
    sys.exit(main())
