"""The peak memory of training: ``python -m benchmarks.memory B THREADS`` prints it as JSON."""

import json
import resource
import sys

import numpy as np

from benchmarks.contenders import data_parallel
from benchmarks.work import draw_batches

STEPS = 8


def main(batch, threads):
    """Print the bytes that training took at most, and those that it cannot do without."""
    before = peak()
    step, model, optimizer = data_parallel(batch, threads)
    for _ in range(STEPS):
        step()
    taken = peak() - before
    print(json.dumps({"taken": taken} | needed(model, optimizer, batch)))


def peak():
    """Return the most memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def needed(model, optimizer, batch):
    """Return the bytes of what is held when the gradient of the logits has been computed."""
    from transformer_core.ops import cross_entropy, cross_entropy_backward

    ids, targets, masked = draw_batches(batch)[0]
    logits, cache = model.forward(ids, masked)
    _, loss_cache = cross_entropy(logits, targets[masked])
    dlogits = cross_entropy_backward(1, loss_cache)

    parameters = owners(model.parameters().values())
    return {
        "parameters": size(parameters),
        "gradients": size(parameters),
        "moments": size(owners(optimizer.state().values())),
        "caches": size(owners([cache, loss_cache]) - parameters),
        "largest temporary": dlogits.nbytes,
    }


def owners(values):
    """Return the arrays, each once by its id, whose memory the arrays in (nested) tuples are."""
