"""Malformed input to what ranks say to each other."""

from functools import partial
from types import SimpleNamespace

import numpy as np
from helpers.malformed import Choice, Named, Table, array, call, on_two, positive, whole

from transformer_core import ranks
from transformer_core.ranks import Communicator, MpiCommunicator, on_threads


def sender_and_receiver(send, receive):
    """Call one function on rank 0 and another on rank 1."""
    return on_two(lambda c, **given: (receive if c.rank else send)(c, **given))


ALONE = Communicator()
AXIS = Choice(0, [2, -3, 10**30, None, "0", 0.0, 0.5, [0], (), {}, True])
RANK = Choice(0, [2, -1, None, "0", 0.0, 0.5, [0], 10**30, True])
PAIR = {"a": "anything 6 7", "b": "anything 7"}

LINES = {
    "Communicator.all_gather": call(
        on_two(Communicator.all_gather), piece=array(), axis=AXIS
    ),
    "Communicator.all_reduce": call(on_two(Communicator.all_reduce), array=array()),
    "Communicator.bounds": call(on_two(Communicator.bounds), length=whole(7, least=0)),
    "Communicator.broadcast": call(
        on_two(Communicator.broadcast), array=array(), root=RANK
    ),
    "Communicator.exchange": call(
        on_two(Communicator.exchange),
        parts=Choice(
            2 * [np.ones(3)],
            [None, 3, [], [1, 2], 3 * [np.ones(3)], "ab", [np.ones(3), None], {}],
        ),
    ),
    "Communicator.receive": call(
        sender_and_receiver(
            lambda c, source: c.send(np.ones(3), 1), Communicator.receive
        ),
        source=RANK,
    ),
    "Communicator.reduce_scatter": call(
        on_two(Communicator.reduce_scatter), array=array(), axis=AXIS
    ),
    "Communicator.send": call(
        sender_and_receiver(Communicator.send, lambda c, **given: c.receive(0)),
        array=array(),
        to=Choice(1, [0, 2, -1, None, "1", 1.0, [1], True]),
    ),
    "Communicator.swap": call(
        sender_and_receiver(
            lambda c, outgoing, sources: c.swap("mine", outgoing),
            lambda c, outgoing, sources: c.swap("mine", {}, sources),
        ),
        outgoing=Choice(
            {1: np.ones(3)},
            [None, [], 3, {2: np.ones(3)}, {0: np.ones(3)}, {"1": np.ones(3)},
             {1: None}, {1: [1.0]}, {1: np.array("text")}],
        ),
        sources=Choice([0], [None, 3, [1], [2], [-1], ["0"], [None], [0.0], [[0]]]),
    ),
    "Group": call(
        on_two(ranks.Group),
        ranks=Choice(
            [0, 1],
            [None, 3, [], [2], [0, 0], [1, 1], [0, 1, 5], [0, 1, -1], ["0", "1"],
             [0.0, 1.0], [[0], [1]], [None], "01"],
        ),
    ),
    "MpiCommunicator": call(
        partial(
            MpiCommunicator,
            SimpleNamespace(Get_rank=lambda: 0, Get_size=lambda: 1),
        ),
        patience=positive(1.0),
    ),
    "flatten": call(
        ranks.flatten, arrays=Named(free=True, **PAIR)
    ),
    "grid": call(
        lambda tensor: ranks.grid(ALONE, tensor),
        tensor=Choice(1, [0, -1, 2, 2.5, "1", None, True]),
    ),
    "on_threads": call(
        lambda size, patience: on_threads(size, Communicator.barrier, patience=patience),
        size=whole(2),
        patience=positive(1.0),
    ),
    "unflatten": call(
        ranks.unflatten,
        buffer="anything 49",
        like=Named(free=True, **PAIR),
    ),
    "world": {"patience": positive(1.0, optional=True)},
}  # fmt: skip
# What takes nothing but objects of the package, or is called by the package alone.
WITHOUT = {
    "CommunicationError",
    "Communicator",
    "Communicator.carry",
    "Communicator.check_operation",
    "MpiCommunicator.abort",  # ends the process
    "ThreadCommunicator",
    "Traffic",
    "guarded",
}
# What calls an array or a rank by another name than the argument's.
INDIRECT = {
    "Communicator.all_gather": {"piece": "array axis"},
    "Communicator.broadcast": {"root": "rank"},
    "Communicator.exchange": {"parts": "array"},
    "Communicator.receive": {"source": "rank"},
    "Communicator.reduce_scatter": {"array": "axis"},
    "Communicator.send": {"to": "rank"},
    "Communicator.swap": {"outgoing": "array rank", "sources": "rank"},
    "unflatten": {"like": "buffer"},
}
RANKS = Table("tests/ranks/test_malformed.py", [ranks], LINES, without=WITHOUT, indirect=INDIRECT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = RANKS.tests()
