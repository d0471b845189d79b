"""One vector for *cats chase mice*, padded: the mean of three rows, and its length."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import l2_normalize, l2_normalize_backward, mean_pool, mean_pool_backward

h = np.array([[1.0, 5], [5, 3], [3, 4], [7, 7]])
keep = np.array([True, True, True, False])
rows, pooling = mean_pool(h[np.newaxis], keep[np.newaxis])
mean = rows[0]
y, cache = l2_normalize(mean)
dy = np.array([15.0, 0])
dmean = l2_normalize_backward(dy, cache)
dh = mean_pool_backward(dmean[np.newaxis], pooling)[0]
length = np.linalg.norm(mean)
dlength = -(dy @ mean) / length**2

graph = Graph("One vector for *cats chase mice*, forward and backward")
graph.node("h", h, dh)
graph.node("x", mean, dmean, of="h", by=lambda h: h[keep].mean(axis=0))
graph.node("l ‖x‖", length, dlength, of="x", by=np.linalg.norm)
graph.node("y", y, dy, of="x l", by=lambda x, length: x / length)
graph.way("x<y", "direct", dy / length, "scale-term", says="ȳ / ‖x‖")
graph.way("x<l", "length", dlength * y, "variance-term", says="−y ⟨y, ȳ⟩ / ‖x‖")
graph.place("h 0 0, x 1 0, l 2 1, y 3 0")

graph.narrate(f"""
h: Forward. The encoder's rows for *cats*, *chase* and *mice*, and one for padding.
x: The mean of the three words is x = {row(mean)}. The padded position has no part in it.
l: Its length is {number(length)}.
y: Divided by it: y = {row(y)}, a vector of length 1.
y': Backward. The loss gives ȳ = {row(dy)}.
x<y: First path, from each y to its own x: ȳ / ‖x‖ = {row(dy / length)}.
l' x<l: Second path, through the length: its cotangent is {number(dlength)}, and its slope is y.
x': The two add up to x̄ = {row(dmean)}. Its inner product with x is {number(abs(dmean @ mean))}.
h': Each word gets a third of it, {row(dh[0])}, and padding gets 0.
""")
