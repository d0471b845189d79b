"""The sentence that runs through the whole book: numbers small enough for paper.

The three embeddings have the means 1, 1, -1 and the standard deviations 3, 1, 3. One head of
attention has the queries and keys below, of d_k = 4 entries, so that its scores are whole multiples
of ln 2 and its weights are fractions with the denominators 4 and 7. Its values have 2 entries; all
but one entry of its output are whole numbers.
"""

import numpy as np

TOKENS = ("cats", "chase", "mice")

EMBEDDING = np.array([[4.0, 2.0, 2.0, -4.0], [2.0, 0.0, 2.0, 0.0], [0.0, -6.0, 2.0, 0.0]])

QUERY = (2 * np.log(2)) * np.array(
    [[-1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
)

KEY = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]])

VALUE = np.array([[1.0, 5.0], [-2.0, 4.0], [-1.0, 2.0]])
