"""Print the times of a training step, side by side with PyTorch: ``make bench``."""

import argparse
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.race import step_times

BATCHES = (8, 32)
RESULTS = Path(__file__).with_name("results.json")  # of the last release


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--release",
        action="store_true",
        help=f"keep the table in {RESULTS.name}, to be compared with",
    )
    options = parser.parse_args()
    release = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results = {"machine": machine(), "seconds": {}}
    print("One Mini-BERT training step (seed 004, float32), medians, two threads each.")
    print(results["machine"])
    for batch in BATCHES:
        times = results["seconds"][str(batch)] = step_times(batch)
        before = release.get("seconds", {}).get(str(batch), {})
        ours = times["this package"]
        print(f"\nB = {batch:2}{'':31}    ms  ours / it  ours / it, last release")
        for name, seconds in times.items():
            earlier = (
                f"{before['this package'] / before[name]:10.2f}"
                if name in before
                else ""
            )
            print(f"{name:37}{1e3 * seconds:6.1f}{ours / seconds:11.2f}{earlier}")
    if options.release:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def machine():
    """Describe what was measured on."""
    versions = [f"Python {platform.python_version()}"]
    for package in ("numpy", "torch"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            pass
    return f"{platform.machine()}, {os.cpu_count()} cores, {', '.join(versions)}"


if __name__ == "__main__":
    main()
