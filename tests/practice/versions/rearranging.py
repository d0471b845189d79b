"""Heads, masks and positions as different readers write them."""

import math

import numpy as np


class SplitLoops:
    """One head after the other."""

    def forward(x, heads):
        B, T, D = x.shape
        K = D // heads
        y = np.zeros((B, heads, T, K))
        for h in range(heads):
            for k in range(K):
                y[:, h, :, k] = x[:, :, h * K + k]
        return y


class SplitStack:
    """Slices on a new axis."""

    def forward(x, heads):
        return np.stack(np.split(x, heads, axis=-1), axis=1)


class SplitAxes:
    """Four axes, then another order."""

    def forward(x, heads):
        batch, length, width = x.shape
        parts = x.reshape(batch, length, heads, width // heads)
        return np.transpose(parts, (0, 2, 1, 3))


class MergeLoops:
    """One head after the other."""

    def forward(x):
        B, H, T, K = x.shape
        y = np.zeros((B, T, H * K))
        for h in range(H):
            for k in range(K):
                y[:, :, h * K + k] = x[:, h, :, k]
        return y


class MergeConcatenate:
    """The heads side by side."""

    def forward(x):
        return np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1)


class MergeAxes:
    """Another order of the axes, then three of them."""

    def forward(x):
        x = np.einsum("bhtk->bthk", x)
        return x.reshape(x.shape[0], x.shape[1], -1)


class CausalLoops:
    """One pair after the other."""

    def forward(length):
        keep = np.zeros((length, length), bool)
        for t in range(length):
            for s in range(t + 1):
                keep[t, s] = True
        return keep


class CausalCompare:
    """Numbers of positions."""

    def forward(length):
        positions = np.arange(length)
        return positions[None, :] <= positions[:, None]


class CausalTriangle:
    """A triangle of ones."""

    def forward(length):
        return np.tril(np.ones((length, length))) == 1


class PaddingLoops:
    """One sequence after the other."""

    def forward(lengths, length):
        keep = np.zeros((len(lengths), 1, 1, length), bool)
        for b, n in enumerate(lengths):
            keep[b, 0, 0, :n] = True
        return keep


class PaddingCompare:
    """Numbers of positions."""

    def forward(lengths, length):
        return np.arange(length) < lengths.reshape(-1, 1, 1, 1)


class PaddingOuter:
    """An outer comparison."""

    def forward(lengths, length):
        keep = np.greater.outer(lengths, np.arange(length))
        return np.expand_dims(keep, (1, 2))


class PositionLoops:
    """One entry after the other."""

    def forward(length, width, dtype=np.float64):
        table = np.zeros((length, width), dtype)
        for t in range(length):
            for i in range(width // 2):
                angle = t / 10000 ** (2 * i / width)
                table[t, 2 * i] = math.sin(angle)
                table[t, 2 * i + 1] = math.cos(angle)
        return table


class PositionColumns:
    """Even and odd columns, with an exponential for the frequencies."""

    def forward(length, width, dtype=np.float64):
        t = np.arange(length)[:, None]
        frequency = np.exp(np.arange(0, width, 2) * -(np.log(10000.0) / width))
        table = np.empty((length, width))
        table[:, 0::2] = np.sin(t * frequency)
        table[:, 1::2] = np.cos(t * frequency)
        return table.astype(dtype)


class PositionWaves:
    """Sines and cosines are the imaginary and the real part of one wave."""

    def forward(length, width, dtype=np.float64):
        i = np.arange(width // 2)
        wave = np.exp(1j * np.arange(length)[:, None] * 10000.0 ** (-2 * i / width))
        pairs = np.stack((wave.imag, wave.real), axis=2)
        return pairs.reshape(length, width).astype(dtype)


RIGHT = {
    "split_heads": [SplitLoops, SplitStack, SplitAxes],
    "merge_heads": [MergeLoops, MergeConcatenate, MergeAxes],
    "causal_keep": [CausalLoops, CausalCompare, CausalTriangle],
    "padding_keep": [PaddingLoops, PaddingCompare, PaddingOuter],
    "sinusoidal_positions": [PositionLoops, PositionColumns, PositionWaves],
}
