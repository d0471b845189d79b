"""Malformed input to the cost model."""

import numpy as np
from helpers.malformed import Choice, Table, not_negative, positive, whole

from transformer_core.distributed import cost

SIZES = cost.Sizes(1000, 2, 6, 7, 2, 4)
NETWORK = cost.Network(1e-5, 1e-9)
WRONG = [(*SIZES[:i], value, *SIZES[i + 1 :]) for i in range(7) for value in (0, -1, 2.5, "2")]
LOADS = [cost.all_reduce(2, 10**k) for k in (1, 4)]
NAMES = {
    "sizes": Choice(SIZES, [None, 3, {}, *map(cost.Sizes._make, WRONG)]),
    "network": Choice(NETWORK, [None, 1e-5, (0, 0), cost.Network("1", 0), cost.Network(0, None)]),
    "ranks": whole(3), "stages": whole(2), "batches": whole(3), "every": whole(5),
    "nbytes": not_negative(8.0), "tokens": not_negative(64.0), "operations": not_negative(1e9),
    "rate": positive(1e9), "rest": whole(0, least=0),
    "readout": not_negative(5.0, optional=True),
}  # fmt: skip
LINES = {
    "fit": {
        "loads": Choice(LOADS, [None, 3, [], LOADS[:1], [cost.Load(0), cost.Load(0)]]),
        "seconds": Choice(
            [0.1, 0.2],
            [None, 3, [], [0.1], [0.0, 0.2], [0.1, -0.2], [0.1, None], ["a", "b"],
             [np.nan, 0.1], [[0.1], [0.2]]],
        ),
    },
    "halving_doubling": {"ranks": whole(4)},
    "sharded": {"stage": Choice(1, [0, 4, -1, None, "1", 2.5, [1], {}])},
}  # fmt: skip
OBJECTS = {"Cost": cost.data_parallel(SIZES, 64, 2), "Load": cost.all_reduce(2, 8)}
COST = Table(
    "tests/distributed/test_malformed_cost.py",
    [cost],
    LINES,
    NAMES,
    OBJECTS,
    without={"Cost", "Load"},
)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = COST.tests()
