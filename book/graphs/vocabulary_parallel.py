"""Cross-entropy of one word, its logits on two ranks: a sum on each, and the sum of both."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import cross_entropy, cross_entropy_backward

z = np.log(2) * np.array([2.0, 0, 1])
loss, cache = cross_entropy(z[np.newaxis], np.array([0]))
dz = cross_entropy_backward(1.0, cache)[0]
greatest = z.max()
pieces, slopes = (np.split(array, [1]) for array in (z, dz))


def sum_of(z):
    return np.exp(z - greatest).sum()


sums = [sum_of(piece) for piece in pieces]
total = sum(sums)
of_sum = [np.exp(piece - greatest) / total for piece in pieces]

graph = Graph("Cross-entropy on two ranks: the hidden word was *cats*")
for r, name in enumerate("⁰¹"):
    graph.node(f"z{r} z{name}", pieces[r], slopes[r])
for r, name in enumerate("⁰¹"):
    graph.node(f"s{r} s{name}", sums[r], 1 / total, of=f"z{r}", by=sum_of)
graph.node("s", total, 1 / total, of="s0 s1", by=np.add)
graph.node("loss ℒ", loss, 1.0, of="z0 s", by=lambda z0, s: greatest + np.log(s) - z0[0])
graph.way("z0<loss", "target", np.array([-1.0]))
graph.way("z0<s0", "sum", of_sum[0])
graph.place("z0 0 0, z1 0 1, s0 1 0, s1 1 1, s 2 1, loss 3 0.5")
graph.edge("z0", "loss", wide=0.5, narrow=0.5)

graph.narrate(f"""
z0 z1: Forward. Rank 0 has the logit of *cats*, {row(z[:1])}, rank 1 those of *chase* and *mice*,
    {row(z[1:])}. They share the maximum, {number(greatest)}.
s0 s1: Each adds up its exponentials, less the maximum: {number(sums[0])} and {number(sums[1])}.
s: The second number that they share: s = {number(total)}.
loss: The third is the logit of *cats*, from rank 0: ℒ = {number(greatest)} + ln {number(total)} −
    {number(z[0])} = {number(loss)}.
loss': Backward. The loss is the end: its cotangent is 1.
z0<loss: The rank that has the target subtracts 1.
s': The slope of ln s is 1/s = {number(1 / total)}.
s0' s1': A sum passes it to both ranks unchanged.
z0<s0 z1': Each rank multiplies by its own exponentials: {row(of_sum[0])} and {row(of_sum[1])}.
z0': z̄ = {row(dz[:1])} on rank 0 and {row(dz[1:])} on rank 1, with the sum {number(dz.sum())}.
    No rank had to send a gradient.
""")
