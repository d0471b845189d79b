"""Chapter 230: a table that is looked up and read out with."""

import numpy as np

from transformer_practice.drills.exact import drawn, exact


def embedding(rng):
    """Draw a table of three words and a sequence that repeats one."""
    repeated, once = rng.sample(range(3), 2)
    ids = [repeated, once, repeated]
    table, drows = drawn(rng, 3, 2), drawn(rng, 3, 2)
    h, b, dz = drawn(rng, 2), drawn(rng, 3), drawn(rng, 3, low=-2, high=2)
    of_word = [[drows[n] for n in range(3) if ids[n] == word] for word in range(3)]
    nothing = exact([0, 0])
    looked_up = exact([sum(rows, nothing) for rows in of_word])
    read_out = np.outer(dz, h)
    return {"E": table, "v": ids, "X̄": drows, "h": h, "b": b, "z̄": dz}, [
        [[table[word] for word in ids], table],
        [
            looked_up,
            [rows[-1] if rows else nothing for rows in of_word],
            [rows[0] if rows else nothing for rows in of_word],
            [sum(rows, nothing) / max(len(rows), 1) for rows in of_word],
            drows,
        ],
        [h @ table.T + b, h @ table.T],
        [dz @ table, sum(table)],
        [read_out, [row if rows else nothing for row, rows in zip(read_out, of_word, strict=True)]],
        [looked_up + read_out, looked_up, read_out, (looked_up + read_out) / 2],
    ]
