"""A sharded training, for any carrier; run as a script, on MPI, with a folder for results."""

import sys
from pathlib import Path

import numpy as np
from helpers.sharding import ADAMW, bert, train

from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.ranks import guarded, world


def work(communicator):
    """Return the parameters and the moments after four steps of ZeRO 3."""
    sharded = ShardedParameters(bert(), ADAMW, communicator)
    train(communicator, sharded)
    parameters, optimizer = sharded.gather()
    return parameters | optimizer.state()


if __name__ == "__main__":
    with guarded(world()) as communicator:
        np.savez(Path(sys.argv[1], f"{communicator.rank}.npz"), **work(communicator))
