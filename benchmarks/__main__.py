"""Print times and memory of training and decoding, side by side with others: ``make bench``."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.contenders import CONTENDERS
from benchmarks.gpt import BATCH, LENGTH, PROMPT
from benchmarks.published import LENGTH as LONGEST
from benchmarks.published import PROMPT as ASKED
from benchmarks.published import WRITTEN
from benchmarks.published_memory import MODELS
from benchmarks.race import RACES, ROOT, step_times
from benchmarks.work import MASKED

BATCHES = (8, 32)
GPT_RACES = {"the GPT's step": BATCH, "the GPT's prefill": 1, "the GPT's decoding": 1}
PUBLISHED_RACES = {
    "BERT-base, a padded batch": 8,
    "MiniLM, a padded batch": 32,
    "GPT-2, tokens written": 1,
}
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
    parser.add_argument("--only", choices=PARTS, help="measure, and keep, no more than this")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each contender, at least")
    options = parser.parse_args()
    releases = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print("Training steps in float32, with clipping and Adam, and tokens read and written.")
    print(f"Medians of {options.steps} steps, {THREADS} threads each.")
    for environment in environments(os.environ):
        about = measured("machine", environment=environment)
        kernels = about.pop("kernels")
        print(f"\n{about['machine']} with its kernels for {kernels}")
        print("(JAX and PyTorch multiply with kernels of their own)")
        release = releases.setdefault(kernels, {})
        for part in [options.only] if options.only else PARTS:
            measure, print_table = PARTS[part]
            results = about | measure(environment, options.steps)
            print_table(results, release.get(part))
            release[part] = results
        if options.release:
            RESULTS.write_text(json.dumps(releases, indent=1) + "\n")


def environments(environment):
    """Yield the environment, and once more without what keeps OpenBLAS from its own choice."""
    yield environment
    if OVERRIDE in environment:
        yield {name: value for name, value in environment.items() if name != OVERRIDE}


def measure(environment, steps):
    """Return the results of all measurements of Mini-BERT in an environment."""
    seconds = {
        str(batch): step_times("Mini-BERT's step", batch, environment, THREADS, steps)
        for batch in BATCHES
    }
    memory = measured("memory", max(BATCHES), THREADS, environment=environment)
    imports = [measured("imports", environment=environment) for _ in range(IMPORTS)]
    return {
        "seconds": seconds,
        "memory": memory,
        "import": {what: median(run[what] for run in imports) for what in imports[0]},
    }


def measure_gpt(environment, steps):
    """Return the times of the races of the GPT in an environment."""
    return {
        "seconds": {
            race: step_times(race, batch, environment, THREADS, steps)
            for race, batch in GPT_RACES.items()
        }
    }


def measure_published(environment, steps):
    """Return the times of the races of published models, and what they hold, in an environment."""
    return {
        "seconds": {
            race: step_times(race, batch, environment, THREADS, max(5, steps // 5))
            for race, batch in PUBLISHED_RACES.items()
            if MODELS[race][0]()
        },
        "memory": {
            race: {
                name: measured(
                    "published_memory", race, name, folder(), batch, environment=environment
                )
                for name in builders
                if not RACES[race][name].missing()
            }
            for race, batch in PUBLISHED_RACES.items()
            for folder, builders in [MODELS[race]]
            if folder()
        },
    }


def measured(module, *arguments, environment):
    """Run a module of this folder in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    return json.loads(subprocess.check_output(command, cwd=ROOT, env=environment))


def print_table(results, release):
    """Print results, and beside them what was kept of the last release; None: nothing."""
    print(f"\nOne training step of seed 004's Mini-BERT, {MASKED:.0%} of the tokens masked")
    for batch, times in results["seconds"].items():
        before = release["seconds"][batch] if release else {}
        print_race(f"B = {batch}", CONTENDERS, times, before)
    print(f"\n{'':74}{columns(release)}")
    for text, of in (
        ("peak memory / what has to be held", memory_ratio),
        ("import in seconds, after that of NumPy", lambda r: r["import"]["this package"]),
    ):
        print(f"{text:63}", end="")
        print_ratio(of(results), of(release) if release else None)
    held = results["memory"]["needed"]
    parts = ", ".join(f"{what} {size / 1e6:.0f}" for what, size in held.items())
    print(f"{results['memory']['taken'] / 1e6:.0f} MB, B = {max(BATCHES)}: {parts}")


def print_gpt(results, release):
    """Print the races of the GPT, and beside them what was kept of the last release."""
    print(f"\nThe GPT: prefill reads {PROMPT} tokens, decoding then writes {LENGTH - PROMPT}")
    for race, times in results["seconds"].items():
        before = release["seconds"][race] if release else {}
        print_race(f"{race}, B = {GPT_RACES[race]}", RACES[race], times, before)


def print_published(results, release):
    """Print the races of published models, and beside them what was kept of the last release."""
    print(f"\nPublished models: batches padded to {LONGEST}; {WRITTEN} tokens after {ASKED}")
    for race, times in results["seconds"].items():
        before = release["seconds"].get(race, {}) if release else {}
        print_race(f"{race}, B = {PUBLISHED_RACES[race]}", RACES[race], times, before)
    title = "Peak memory of reading the folder and one step"
    print(f"\n{title:57}    MB  ours / it{columns(release)}")
    for race, held in results["memory"].items():
        before = (release or {}).get("memory", {}).get(race, {})
        for name, size in held.items():
            print(f"{race:36}{name:21}{size / 1e6:6.0f}", end="")
            print_ratio(ours_to(held, name), ours_to(before, name))


def print_race(title, contenders, times, before):
    """Print the times of a race, with those of the last release if there are any."""
    print(f"\n{title:57}    ms  ours / it{columns(before)}")
    for name, seconds in times.items():
        print(f"{name:36}{contenders[name].how:21}{1e3 * seconds:6.1f}", end="")
        print_ratio(ours_to(times, name), ours_to(before, name))
    for name, contender in contenders.items():
        if contender.missing():
            print(f"{name:36}left out: needs {contender.missing()}")


def columns(release):
    return "  last release  now / then" if release else ""


def print_ratio(now, then):
    """End a line with a ratio, that of the last release if there is one, and their ratio."""
    print(f"{now:11.2f}" + (f"{then:14.2f}{now / then:12.2f}" if then else ""))


def ours_to(times, name):
    """Return the package's time in units of a contender's; None if it was not there."""
    return times["this package"] / times[name] if name in times else None


def memory_ratio(results):
    return results["memory"]["taken"] / sum(results["memory"]["needed"].values())


PARTS = {
    "mini-bert": (measure, print_table),
    "gpt": (measure_gpt, print_gpt),
    "published": (measure_published, print_published),
}

if __name__ == "__main__":
    main()
