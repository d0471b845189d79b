"""Run what is not stored, or with EXECUTE=all everything: ``python -m studies [NAME ...]``."""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context

from studies import ROOT, stored, timed

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from stored import RECORDED, computed_with, everything_anew

NAMES = sorted(path.stem for path in (ROOT / "studies").glob("[!_]*.py"))


def main():
    parser = argparse.ArgumentParser(prog="python -m studies")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"expected {', '.join(NAMES)}, got {', '.join(sorted(unknown))}")
    os.environ.update(RECORDED)
    for name in arguments.names or NAMES:
        study(name, arguments.workers)


def study(name, workers):
    """Run what is missing of one study; what a run has found is stored at once."""
    kept = stored(name)
    if everything_anew() or not kept["runs"]:
        kept = {"executed": computed_with("numpy"), "minutes": 0.0, "runs": []}
    wanted = list(import_module(f"studies.{name}").runs())
    found = {key(run["settings"]): run for run in kept["runs"]}
    missing = [settings for settings in wanted if key(settings) not in found]
    print(f"{name}: {len(wanted) - len(missing)} of {len(wanted)} runs are stored")
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        waiting = {pool.submit(timed, name, settings): settings for settings in missing}
        for done in as_completed(waiting):
            if done.exception():
                pool.shutdown(cancel_futures=True)
            seconds, result = done.result()
            settings = waiting[done]
            found[key(settings)] = {"settings": settings, "found": result}
            kept["minutes"] = round(kept["minutes"] + seconds / 60, 2)
            kept["runs"] = [found[key(s)] for s in wanted if key(s) in found]
            path = ROOT / "studies" / "results" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            text = json.dumps(kept, indent=1)
            path.write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {len(kept['runs'])} of {len(wanted)}, {settings}", flush=True)


def key(settings):
    return json.dumps(settings, sort_keys=True)


if __name__ == "__main__":
    main()
