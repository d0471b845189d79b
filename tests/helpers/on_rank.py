"""One process of :func:`helpers.ranks.on_processes`: call a function, and save its arrays."""

import sys
from importlib import import_module

import numpy as np

from transformer_core.ranks import guarded, world

with guarded(world()) as communicator:
    module, name, folder, *arguments = sys.argv[1:]
    work = getattr(import_module(module), name)
    np.savez(f"{folder}/{communicator.rank}.npz", **work(communicator, *arguments))
