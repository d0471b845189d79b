"""Every collective once, for any carrier."""

import numpy as np

DTYPES = ["float64", "float32", "float16", "complex128", "int64", "uint8", "bool", ">f8"]


def every_collective(c):
    """Return what each collective gives this rank, and its traffic as rows of numbers."""
    rng = np.random.default_rng(c.rank)
    x = rng.normal(size=(7, 3))
    got = {
        "all_reduce": c.all_reduce(x),
        "all_reduce_float32": c.all_reduce(x.astype(np.float32)),
        "all_reduce_strided": c.all_reduce(x.T),
        "all_reduce_one_number": c.all_reduce(x[:1, :1].reshape(())),
        "all_reduce_shorter_than_the_ranks": c.all_reduce(x[0, :1]),
        "all_reduce_large": c.all_reduce(rng.normal(size=100_001)),
        "maximum": c.all_reduce(x, np.maximum),
        "reduce_scatter": c.reduce_scatter(x),
        "reduce_scatter_columns": c.reduce_scatter(x, axis=-1),
        "all_gather": c.all_gather(x[: 2 * c.rank]),
        "all_gather_columns": c.all_gather(x[:, : c.rank + 1], axis=1),
        "broadcast": c.broadcast(x, root=c.size - 1),
    }
    for dtype in DTYPES:
        got[f"broadcast_{dtype}"] = c.broadcast(x.astype(dtype).T)
    parts = [np.full((c.rank, 2), 10 * c.rank + other) for other in range(c.size)]
    for other, part in enumerate(c.exchange(parts)):
        got[f"exchange_{other}"] = part
    if c.rank:
        got["received"] = c.receive(c.rank - 1)
    if c.rank < c.size - 1:
        c.send(x, c.rank + 1)
    c.barrier()
    for operation, traffic in c.sent.items():
        got[f"sent {operation}"] = np.array([traffic.messages, traffic.bytes])
    return got
