"""The cube of 2, as two products: the smallest graph with two paths from x."""

import numpy as np
from graphs import Graph, number

from transformer_core.gradient_check import central_difference, complex_step

x, dy = 2.0, 1.0
u = x * x
y = u * x
du = dy * x
through_u, directly = du * 2 * x, dy * u
dx = through_u + directly
h = 0.1
point = np.array(x)
central = float(central_difference(lambda x: x**3, point, h))
complex_ = float(complex_step(lambda x: x**3, point, h))

graph = Graph("The function x³ at 2, as two products")
graph.node("x", x, dx)
graph.node("u u = x·x", u, du, of="x", by=lambda x: x * x, back="ū")
graph.node("y y = u·x", y, dy, of="x u", by=lambda x, u: u * x, back="ȳ")
graph.way("x<u", "by u", through_u)
graph.way("x<y", "directly", directly)
graph.place("x 0 0, u 1 0, y 2 0", narrow="x 0 0.5, y 2 0.5")
graph.edge("x", "u", label=f"2x = {number(2 * x)}")
graph.edge("u", "y", label=f"x = {number(x)}")
graph.edge("x", "y", label=f"u = {number(u)}", wide=1)

graph.narrate(f"""
x: Forward. The point is x = {number(x)}.
u: First product: u = x · x = {number(u)}.
y: Second product: y = u · x = {number(y)}. x is a factor of both.
y': Backward. The cotangent of y itself is ȳ = {number(dy)}.
u': Through the second product: ū = ȳ · x = {number(du)}.
x<u: And from there to x: ū · 2x = {number(du)} · {number(2 * x)} = {number(through_u)}.
x<y: Directly from the second product: ȳ · u = {number(directly)}.
x': The two paths add up: {number(through_u)} + {number(directly)} = {number(dx)}.
    Measured with h = {h}: {central:.2f} by the central difference, {complex_:.2f} by the complex
    step.
""")
