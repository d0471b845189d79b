"""A weight in bfloat16 that takes small steps, with a master weight and without."""

import numpy as np
from graphs import Graph, number

from transformer_core.ops import round_to

STEP = 1 / 4  # for 256, what 0.001 is for 1


def rounded(w):
    return round_to(w, "bfloat16")


def stepped(w):
    return w - STEP


def stepped_alone(w):
    return rounded(w - STEP)


graph = Graph("Three steps of a weight, with a master weight and without")
master = alone = np.array([256.0])
graph.node("w0 w₀", master)
graph.node("a0 alone", alone)
for k in (1, 2, 3):
    master, alone = stepped(master), stepped_alone(alone)
    digit = "₁₂₃"[k - 1]
    graph.node(f"w{k} w{digit}", master, of=f"w{k - 1}", by=stepped)
    graph.node(f"c{k} copy {k}", rounded(master), of=f"w{k}", by=rounded)
    graph.node(f"a{k} step {k}", alone, of=f"a{k - 1}", by=stepped_alone)
graph.place(
    "w0 0 0, w1 1 0, w2 2 0, w3 3 0, c1 1 1, c2 2 1, c3 3 1, a0 0 2, a1 1 2, a2 2 2, a3 3 2",
    narrow="a0 4 0, a1 5 0, a2 6 0, a3 7 0",
)
graph.narrate(f"""
w0 a0: A weight is 256, and each step is to take {number(STEP)} away: about as much as 0.001 of 1.
w1 c1: The master weight is in float32, and becomes {number(256 - STEP)}. Its copy in bfloat16,
    with which the model computes, is still 256.
w2 w3 c2 c3: The master weight goes on. At the middle, {number(255.5)}, the copy is still the even
    neighbour; then it moves.
a1 a2 a3: Without a master weight each step begins at 256, and ends there.
""")
