"""The outer step as different readers write it."""

import numpy as np


class Formula:
    """The equation line by line."""

    def forward(shared, velocity, ends, weights, learning_rate, momentum):
        shares = weights / weights.sum()
        delta = shared - np.tensordot(shares, ends, axes=1)
        velocity = momentum * velocity + delta
        return shared - learning_rate * (delta + momentum * velocity), velocity


class RankByRank:
    """A loop over the ways back, and the step in two parts."""

    def forward(shared, velocity, ends, weights, learning_rate, momentum):
        delta = np.zeros_like(shared)
        for end, weight in zip(ends, weights, strict=True):
            delta += weight / weights.sum() * (shared - end)
        new_velocity = momentum * velocity + delta
        new = shared - learning_rate * delta
        new -= learning_rate * momentum * new_velocity
        return new, new_velocity


RIGHT = {"outer_step": [Formula, RankByRank]}
