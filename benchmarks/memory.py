"""The peak memory of training: ``python -m benchmarks.memory B THREADS`` prints it as JSON."""

import json
import resource
import sys
from pathlib import Path

import numpy as np

from benchmarks.contenders import mini_bert, step_in_parallel
from benchmarks.work import draw_batches

STEPS = 8


def main(batch, threads):
    """Print the bytes that training takes at most, and those that it cannot do without."""
    batch, threads = int(batch), int(threads)
    before = peak()
    model = mini_bert()
    step, optimizer = step_in_parallel(model, batch, threads)
    for _ in range(STEPS):
        step()
    taken = peak() - before
    needs = needed(model, optimizer, batch)
    print(json.dumps({"taken": taken, "needed": needs}))


def peak():
    """Return the most memory that this process has held so far, in bytes.

    What Linux says of a process's use of resources begins with the peak of the one that started
    it; what it says of its memory does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (held,) = (line for line in status.read_text().splitlines() if "VmHWM" in line)
        return 1024 * int(held.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def needed(model, optimizer, batch):
    """Return the bytes of what is held once the gradient of the logits has been computed."""
    from transformer_core.ops import cross_entropy, cross_entropy_backward

    ids, targets, masked = draw_batches(batch)[0]
    logits, cache = model.forward(ids, masked)
    _, loss_cache = cross_entropy(logits, targets[masked])
    parameters = owners(model.parameters())
    held = owners([cache, loss_cache])
    return {
        "parameters": sum(parameters.values()),
        "gradients": sum(parameters.values()),
        "moments": sum(owners(optimizer.state()).values()),
        "caches": sum(held[array] for array in held.keys() - parameters.keys()),
        "largest temporary": cross_entropy_backward(1, loss_cache).nbytes,
    }


def owners(values):
    """Return the bytes of each array, by its id, that the arrays in nested groups are views of."""
    if isinstance(values, np.ndarray):
        while isinstance(values.base, np.ndarray):
            values = values.base
        return {id(values): values.nbytes}
    if isinstance(values, dict):
        values = values.values()
    sizes = {}
    if isinstance(values, (tuple, list, type({}.values()))):
        for value in values:
            sizes |= owners(value)
    return sizes


if __name__ == "__main__":
    main(*sys.argv[1:])
