"""Print times and memory of a training step, side by side with others: ``make bench``."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.contenders import CONTENDERS
from benchmarks.race import ROOT, step_times
from benchmarks.work import MASKED

BATCHES = (8, 32)
THREADS = 2
STEPS = 100  # of each contender
IMPORTS = 15
RESULTS = Path(__file__).with_name("results.json")  # of the last release
OVERRIDE = "OPENBLAS_CORETYPE"  # tells OpenBLAS which kernels to use, where it is set


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--release",
        action="store_true",
        help=f"keep the tables in {RESULTS.name}, to be compared with",
    )
    options = parser.parse_args()
    releases = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print(f"One training step of seed 004's Mini-BERT: float32, {MASKED:.0%} masked,")
    print(f"clipping and Adam. Medians of {STEPS} steps, {THREADS} threads each.")
    for environment in environments(os.environ):
        about = measured("machine", environment=environment)
        kernels = about.pop("kernels")
        print(f"\n{about['machine']} with its kernels for {kernels}")
        print("(JAX and PyTorch multiply with kernels of their own)")
        results = about | measure(environment)
        print_table(results, releases.get(kernels))
        if options.release:
            releases[kernels] = results
            RESULTS.write_text(json.dumps(releases, indent=1) + "\n")


def environments(environment):
    """Yield the environment, and once more without what keeps OpenBLAS from its own choice."""
    yield environment
    if OVERRIDE in environment:
        yield {name: value for name, value in environment.items() if name != OVERRIDE}


def measure(environment):
    """Return the results of all measurements in an environment."""
    seconds = {
        str(batch): step_times(batch, environment, threads=THREADS, steps=STEPS)
        for batch in BATCHES
    }
    memory = measured("memory", max(BATCHES), THREADS, environment=environment)
    imports = [measured("imports", environment=environment) for _ in range(IMPORTS)]
    return {
        "seconds": seconds,
        "memory": memory,
        "import": {what: median(run[what] for run in imports) for what in imports[0]},
    }


def measured(module, *arguments, environment):
    """Run a module of this folder in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    return json.loads(subprocess.check_output(command, cwd=ROOT, env=environment))


def print_table(results, release):
    """Print results, and beside them what was kept of the last release; None: nothing."""
    columns = "  last release  now / then" if release else ""
    for batch, times in results["seconds"].items():
        before = release["seconds"][batch] if release else {}
        print(f"\n{f'B = {batch}':57}    ms  ours / it{columns}")
        for name, seconds in times.items():
            print(f"{name:36}{CONTENDERS[name].how:21}{1e3 * seconds:6.1f}", end="")
            print_ratio(ours_to(times, name), ours_to(before, name))
    for name, contender in CONTENDERS.items():
        if contender.missing():
            print(f"{name:36}left out: needs {contender.missing()}")
    print(f"\n{'':74}{columns}")
    for text, of in (
        ("peak memory / what has to be held", memory_ratio),
        ("import in seconds, after that of NumPy", lambda r: r["import"]["this package"]),
    ):
        print(f"{text:63}", end="")
        print_ratio(of(results), of(release) if release else None)
    held = results["memory"]["needed"]
    parts = ", ".join(f"{what} {size / 1e6:.0f}" for what, size in held.items())
    print(f"{results['memory']['taken'] / 1e6:.0f} MB, B = {max(BATCHES)}: {parts}")


def print_ratio(now, then):
    """End a line with a ratio, that of the last release if there is one, and their ratio."""
    print(f"{now:11.2f}" + (f"{then:14.2f}{now / then:12.2f}" if then else ""))


def ours_to(times, name):
    """Return the package's time in units of a contender's; None if it was not there."""
    return times["this package"] / times[name] if name in times else None


def memory_ratio(results):
    return results["memory"]["taken"] / sum(results["memory"]["needed"].values())


if __name__ == "__main__":
    main()
