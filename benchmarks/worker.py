"""One contender in a process of its own: ``python -m benchmarks.worker NAME B THREADS``.

Takes a few steps for each line that it reads, and answers with a line of JSON: the seconds of each
step, and how many cores other programs kept busy meanwhile.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.contenders import CONTENDERS

WARM, TIMED = 1, 5  # steps a line


def main(name, batch, threads):
    step = CONTENDERS[name].build(int(batch), int(threads))
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(WARM):
            step()
        elapsed, ours, all_busy = time.perf_counter(), time.process_time(), busy()
        seconds = []
        for _ in range(TIMED):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        ours, all_busy = time.process_time() - ours, busy() - all_busy
        others = max(0, all_busy - ours) / (time.perf_counter() - elapsed)
        print(json.dumps([seconds, others]), flush=True)


def busy():
    """Return for how long all cores together have been busy, in seconds; 0 if Linux is absent."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return 0
    user, nice, system, _, _, *interrupts = statistics.read_text().split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / 100


if __name__ == "__main__":
    main(*sys.argv[1:])
