"""LayerNorm of *cats*: three ways forward from x, three terms back."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops import layer_norm, layer_norm_backward

x = EMBEDDING[0]
gamma, beta = np.array([2.0, 1, 3, 1]), np.array([0.0, 1, 0, 1])
dy = np.array([3.0, 3, 1, 0])
y, cache = layer_norm(x, gamma, beta, eps=1e-300)
dx, dgamma, dbeta = layer_norm_backward(dy, cache)

mu, variance, std = x.mean(), x.var(), 1 / cache.inv_std[0]
g = dy * gamma
dvariance = -(g * cache.x_hat).sum() / (2 * variance)
dmu = -g.sum() / std
scale, mean = g / std, np.full(4, dmu / 4)
variance_term = dvariance * 2 / 4 * (x - mu)

graph = Graph("LayerNorm of *cats*, forward and backward", lanes=3)
graph.node("x", x, dx)
graph.node("mu μ", mu, dmu, of="x", by=np.mean)
graph.node("variance σ²", variance, dvariance, of="x mu", by=lambda x, mu: ((x - mu) ** 2).mean())
graph.node(
    "x_hat x̂",
    cache.x_hat,
    g,
    back="g",
    of="x mu variance",
    by=lambda x, mu, variance: (x - mu) / np.sqrt(variance),
)
graph.node("y", y, dy, of="x_hat", by=lambda x_hat: gamma * x_hat + beta)
graph.way("x<x_hat", "scale", scale, "scale-term", says="g / σ")
graph.way(
    "x<mu", "mean", mean, "mean-term", says=f"−mean(g) / σ, with mean(g) = {number(g.mean())}"
)
graph.way(
    "x<variance",
    "variance",
    variance_term,
    "variance-term",
    says=f"−x̂ mean(g ⊙ x̂) / σ, with mean(g ⊙ x̂) = {number((g * cache.x_hat).mean())}",
)
graph.place("x 0 1, mu 1 2, variance 1 0, x_hat 2 1, y 3 1")
graph.edge("x_hat", "y", label="γ")
graph.edge("mu", "variance", label="0")
graph.edge("x", "x_hat", label=f"1/{number(std)}")

graph.narrate(f"""
x: Forward. The embedding of *cats*: x = {row(x)}.
mu: The mean of the four numbers is μ = {number(mu)}.
variance: The mean square of x − μ = {row(x - mu)} is σ² = {number(variance)}. Its derivative by the
    mean is −2 times the mean of x − μ: {number(-2 * (x - mu).mean())}.
x_hat: Subtract the mean and divide by σ = {number(std)}: x̂ = {row(cache.x_hat)}. x reaches
    it along three paths.
y: Scale by γ = {row(gamma)} and shift by β = {row(beta)}: y = {row(y)}.
y': Backward. The loss gives ȳ = {row(dy)}; it does not depend on the last entry.
x_hat': Through the scale: g = ȳ ⊙ γ = {row(g)}.
x<x_hat: First path, from each x̂ to its own x: g / {number(std)} = {row(scale)}.
mu' x<mu: Second path, through the mean, on which every x̂ depends: μ̄ =
    −{number(g.sum())} / {number(std)} = {number(dmu)}, and each x gets a
    quarter, {number(mean[0])}.
variance' x<variance: Third path, through the variance, with σ̄² = {number(dvariance)}: each x gets
    ½ σ̄² (x − μ), which is {row(variance_term)}.
x': The three add up to x̄ = {row(dx)}. Its sum is {number(dx.sum())}, and the last entry is
    {number(dx[3])} although the loss does not depend on y₃.
""")
