"""Chapter 230: a table that is looked up and read out with."""

import numpy as np

from transformer_practice.drills.drill import Drill, Step
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
    return Drill(
        "One table, used twice",
        "230_embedding",
        "The table E has a row for each of the words 0, 1 and 2. The sequence v looks up three "
        "rows, x = E[v]; the gradient of the loss with respect to them is X̄. At the end one row "
        "h is read out with the same table, z = hEᵀ + b; the gradient of the logits is z̄.",
        {"E": table, "v": ids, "X̄": drows, "h": h, "b": b, "z̄": dz},
        (
            Step(
                "X, the three rows that are looked up",
                [table[word] for word in ids],
                "Row n of X is the row of E with the number vₙ.",
                {"This is the table as it stands.": table},
            ),
            Step(
                "what the look-up gives to Ē",
                looked_up,
                "Row w of Ē is the sum of the x̄ₙ with vₙ = w; a word that does not occur gets 0.",
                {
                    "Of a repeated word only the last gradient is kept.": [
                        rows[-1] if rows else nothing for rows in of_word
                    ],
                    "Of a repeated word only the first gradient is kept.": [
                        rows[0] if rows else nothing for rows in of_word
                    ],
                    "A mean stands where the sum belongs.": [
                        sum(rows, nothing) / max(len(rows), 1) for rows in of_word
                    ],
                    "These are the gradients in the order of the sequence.": drows,
                },
            ),
            Step(
                "z, the logits",
                h @ table.T + b,
                "z = hEᵀ + b: the inner product of h with each row of E, plus the bias.",
                {"The bias is left out.": h @ table.T},
            ),
            Step(
                "h̄, the gradient of h",
                dz @ table,
                "h̄ = z̄E: the rows of E, each times its z̄.",
                {"This is the plain sum of the rows.": sum(table)},
            ),
            Step(
                "what the read-out gives to Ē",
                read_out,
                "Row w gets z̄_w h: every word of the vocabulary, looked up or not.",
                {
                    "Only the words of the sequence get a gradient here; all do.": [
                        row if rows else nothing
                        for row, rows in zip(read_out, of_word, strict=True)
                    ]
                },
            ),
            Step(
                "Ē, the gradient of the table",
                looked_up + read_out,
                "The table is used twice, so its gradient is the sum of both parts.",
                {
                    "The read-out is left out.": looked_up,
                    "The look-up is left out.": read_out,
                    "A mean stands where the sum belongs.": (looked_up + read_out) / 2,
                },
            ),
        ),
    )
