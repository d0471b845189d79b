"""Seconds of an all-reduce as different readers count them."""

import math


class ClosedForms:
    """The three equations of the page."""

    def forward(ranks, nbytes, alpha, beta):
        rounds = math.log2(ranks)
        pieces = 2 * (ranks - 1) / ranks * nbytes * beta
        ring = 2 * (ranks - 1) * alpha + pieces
        doubling = rounds * (alpha + nbytes * beta)
        halving = 2 * rounds * alpha + pieces
        return ring, doubling, halving


class RoundByRound:
    """The messages of one rank, one after another."""

    def forward(ranks, nbytes, alpha, beta):
        def message(size):
            return alpha + size * beta

        ring = sum(message(nbytes / ranks) for half in range(2) for step in range(ranks - 1))
        doubling, halving, distance = 0.0, 0.0, 1
        while distance < ranks:
            doubling += message(nbytes)
            halving += 2 * message(nbytes * distance / ranks)
            distance *= 2
        return ring, doubling, halving


class TwoHalves:
    """A reduce-scatter and an all-gather, which take the same time."""

    def forward(ranks, nbytes, alpha, beta):
        rounds = ranks.bit_length() - 1
        others = ranks - 1
        reduce_scatter = others * (alpha + beta * nbytes / ranks)
        halving = rounds * alpha + others * beta * nbytes / ranks
        doubling = rounds * alpha + rounds * beta * nbytes
        return reduce_scatter + reduce_scatter, doubling, halving + halving


RIGHT = {"all_reduce_seconds": [ClosedForms, RoundByRound, TwoHalves]}
