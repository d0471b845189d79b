"""LayerNorm of *cats*: three ways forward from x, three terms back."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.ops import layer_norm, layer_norm_backward
from transformer_core.sentence import EMBEDDING

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
graph.node(
    "x",
    "x",
    x,
    dx,
    at=(0, 1),
    narrow=(0, 1),
    ways=(
        Way("x_hat", "scale", scale, "scale-term"),
        Way("mu", "mean", mean, "mean-term"),
        Way("variance", "variance", variance_term, "variance-term"),
    ),
)
graph.node("mu", "μ", mu, dmu, at=(1, 2), narrow=(1, 2), of="x", by=np.mean)
graph.node(
    "variance",
    "σ²",
    variance,
    dvariance,
    at=(1, 0),
    narrow=(1, 0),
    of="x mu",
    by=lambda x, mu: ((x - mu) ** 2).mean(),
)
graph.node(
    "x_hat",
    "x̂",
    cache.x_hat,
    g,
    back="g",
    at=(2, 1),
    narrow=(2, 1),
    of="x mu variance",
    by=lambda x, mu, variance: (x - mu) / np.sqrt(variance),
)
graph.node(
    "y",
    "y",
    y,
    dy,
    at=(3, 1),
    narrow=(3, 1),
    of="x_hat",
    by=lambda x_hat: gamma * x_hat + beta,
)
graph.edge("x_hat", "y", label="γ")
graph.edge("mu", "variance", label="0")
graph.edge("x", "x_hat", label=f"1/{number(std)}")

graph.step(f"Forward. The embedding of *cats*: x = {row(x)}.", "x")
graph.step(f"The mean of the four numbers is μ = {number(mu)}.", "mu")
graph.step(
    f"The mean square of x − μ = {row(x - mu)} is σ² = {number(variance)}. Its derivative by "
    f"the mean is −2 times the mean of x − μ: {number(-2 * (x - mu).mean())}.",
    "variance",
)
graph.step(
    f"Subtract the mean and divide by σ = {number(std)}: x̂ = {row(cache.x_hat)}. x reaches it "
    "in three ways.",
    "x_hat",
)
graph.step(
    f"Scale by γ = {row(gamma)} and shift by β = {row(beta)}: y = {row(y)}.", "y"
)
graph.step(
    f"Backward. The loss hands over ȳ = {row(dy)}. It does not read the last entry.",
    "y'",
)
graph.step(f"Through the scale: g = ȳ ⊙ γ = {row(g)}.", "x_hat'")
graph.step(
    f"First way, from each x̂ to its own x: g / {number(std)} = {row(scale)}.", "x<x_hat"
)
graph.step(
    f"Second way, through the mean. Every x̂ feels it: μ̄ = −{number(g.sum())} / {number(std)} "
    f"= {number(dmu)}, and each x gets a quarter, {number(mean[0])}.",
    "mu'",
    "x<mu",
)
graph.step(
    f"Third way, through the variance, with σ̄² = {number(dvariance)}: each x gets "
    f"½ σ̄² (x − μ), which is {row(variance_term)}.",
    "variance'",
    "x<variance",
)
graph.step(
    f"The three add up to x̄ = {row(dx)}. Its sum is {number(dx.sum())}, and the last entry "
    f"is {number(dx[3])} although the loss never reads it.",
    "x'",
)
