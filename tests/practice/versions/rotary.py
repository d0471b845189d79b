"""Rotary positions as different readers write them."""

import math

import numpy as np

from transformer_core import ops


class RotaryLoops:
    """One pair after the other, by its formula."""

    def forward(x, positions, frequencies, halves=False):
        d = x.shape[-1]
        where = np.broadcast_to(positions, x.shape[:-1])
        y = np.zeros(x.shape)
        for at in np.ndindex(x.shape[:-1]):
            for i in range(d // 2):
                a, b = (i, i + d // 2) if halves else (2 * i, 2 * i + 1)
                angle = where[at] * frequencies[i]
                c, s = math.cos(angle), math.sin(angle)
                y[at][a] = x[at][a] * c - x[at][b] * s
                y[at][b] = x[at][a] * s + x[at][b] * c
        return y, (where, frequencies, halves)

    def backward(dy, cache):
        where, frequencies, halves = cache
        d = dy.shape[-1]
        dx = np.zeros(dy.shape)
        for at in np.ndindex(dy.shape[:-1]):
            for i in range(d // 2):
                a, b = (i, i + d // 2) if halves else (2 * i, 2 * i + 1)
                angle = where[at] * frequencies[i]
                c, s = math.cos(angle), math.sin(angle)
                dx[at][a] = dy[at][a] * c + dy[at][b] * s
                dx[at][b] = dy[at][b] * c - dy[at][a] * s
        return dx


class RotaryComplex:
    """Every pair is a complex number, and its rotation a product."""

    def forward(x, positions, frequencies, halves=False):
        waves = np.exp(1j * np.asarray(positions)[..., None] * frequencies)
        n = x.shape[-1] // 2
        if halves:
            z = (x[..., :n] + 1j * x[..., n:]) * waves
            y = np.concatenate([z.real, z.imag], axis=-1)
        else:
            z = (x[..., 0::2] + 1j * x[..., 1::2]) * waves
            y = np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
        return y, (waves, halves)

    def backward(dy, cache):
        waves, halves = cache
        n = dy.shape[-1] // 2
        if halves:
            dz = (dy[..., :n] + 1j * dy[..., n:]) * waves.conj()
            return np.concatenate([dz.real, dz.imag], axis=-1)
        dz = (dy[..., 0::2] + 1j * dy[..., 1::2]) * waves.conj()
        return np.stack([dz.real, dz.imag], axis=-1).reshape(dy.shape)


class RotaryMatrix:
    """A matrix of blocks for every position; the backward pass has its transpose."""

    def forward(x, positions, frequencies, halves=False):
        d = x.shape[-1]
        angles = np.asarray(positions)[..., None] * frequencies
        R = np.zeros((*angles.shape[:-1], d, d))
        for i in range(d // 2):
            a, b = (i, i + d // 2) if halves else (2 * i, 2 * i + 1)
            R[..., a, a] = R[..., b, b] = np.cos(angles[..., i])
            R[..., a, b] = np.sin(angles[..., i])
            R[..., b, a] = -np.sin(angles[..., i])
        return (x[..., None, :] @ R)[..., 0, :], R

    def backward(dy, R):
        return (dy[..., None, :] @ R.swapaxes(-1, -2))[..., 0, :]


class RotaryHalf:
    """As files have it: x cos + rotated x sin, with cosines and sines that are there twice."""

    def forward(x, positions, frequencies, halves=False):
        angles = np.asarray(positions)[..., None] * frequencies
        n = x.shape[-1] // 2
        if halves:
            angles = np.concatenate([angles, angles], axis=-1)
            rotated = np.concatenate([-x[..., n:], x[..., :n]], axis=-1)
        else:
            angles = np.repeat(angles, 2, axis=-1)
            rotated = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
        cos, sin = np.cos(angles), np.sin(angles)
        return x * cos + rotated * sin, (cos, sin, halves)

    def backward(dy, cache):
        cos, sin, halves = cache
        n = dy.shape[-1] // 2
        if halves:
            rotated = np.concatenate([-dy[..., n:], dy[..., :n]], axis=-1)
        else:
            rotated = np.stack([-dy[..., 1::2], dy[..., ::2]], axis=-1).reshape(dy.shape)
        return dy * cos - rotated * sin


class FrequencyLoops:
    """One pair after the other."""

    def forward(width, base=10000.0, scaling=None):
        found = []
        for i in range(width // 2):
            w = 1 / base ** (2 * i / width)
            if scaling and scaling["rope_type"] == "linear":
                w /= scaling["factor"]
            elif scaling:
                low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
                turns = scaling["original_max_position_embeddings"] * w / (2 * math.pi)
                if turns <= low:
                    w = w / scaling["factor"]
                elif turns < high:
                    g = (turns - low) / (high - low)
                    w = (1 - g) * w / scaling["factor"] + g * w
            found.append(w)
        return np.array(found)


class FrequencyWaves:
    """By wavelengths, as the files have it."""

    def forward(width, base=10000.0, scaling=None):
        w = np.exp(-math.log(base) * np.linspace(0, 1, width // 2, endpoint=False))
        if scaling is None:
            return w
        factor = scaling["factor"]
        if scaling["rope_type"] == "linear":
            return w / factor
        length = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        wavelength = 2 * np.pi / w
        smooth = (length / wavelength - low) / (high - low)
        mixed = (1 - smooth) * w / factor + smooth * w
        scaled = np.where(wavelength > length / low, w / factor, mixed)
        return np.where(wavelength < length / high, w, scaled)


class FrequencyClip:
    """A share that is clipped."""

    def forward(width, base=10000.0, scaling=None):
        w = np.power(float(base), -np.arange(0, width, 2) / width)
        kept = 0 * w
        if scaling is None:
            return w
        if scaling["rope_type"] == "llama3":
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            turns = scaling["original_max_position_embeddings"] / (2 * np.pi / w)
            kept = np.clip((turns - low) / (high - low), 0, 1)
        return w * (kept + (1 - kept) / scaling["factor"])


class OrderSlices:
    """The even numbers, then the odd ones."""

    def forward(width):
        return np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])


class OrderLoops:
    """One place after the other."""

    def forward(width):
        order = np.zeros(width, int)
        for i in range(width // 2):
            order[i] = 2 * i
            order[i + width // 2] = 2 * i + 1
        return order


class OrderSort:
    """A stable sort by what is left after division by 2."""

    def forward(width):
        return np.argsort(np.arange(width) % 2, kind="stable")


class LayerOps:
    """The operations of the package."""

    def forward(self, x, first=0):
        where = first + np.arange(x.shape[2])
        return ops.rotary(x, where, self.frequencies, self.halves)

    def backward(self, dy, cache):
        return ops.rotary_backward(dy, cache), {}


class LayerComplex:
    """Complex numbers."""

    def forward(self, x, first=0):
        n = x.shape[-1] // 2
        a, b = (x[..., :n], x[..., n:]) if self.halves else (x[..., ::2], x[..., 1::2])
        t = np.arange(first, first + x.shape[2])
        waves = np.exp(1j * np.outer(t, self.frequencies))
        z = (a + 1j * b) * waves
        y = np.empty(x.shape)
        if self.halves:
            y[..., :n], y[..., n:] = z.real, z.imag
        else:
            y[..., ::2], y[..., 1::2] = z.real, z.imag
        return y, waves

    def backward(self, dy, waves):
        n = dy.shape[-1] // 2
        a, b = (dy[..., :n], dy[..., n:]) if self.halves else (dy[..., ::2], dy[..., 1::2])
        z = (a + 1j * b) * np.conj(waves)
        dx = np.empty(dy.shape)
        if self.halves:
            dx[..., :n], dx[..., n:] = z.real, z.imag
        else:
            dx[..., ::2], dx[..., 1::2] = z.real, z.imag
        return dx, {}


RIGHT = {
    "rotary": [RotaryLoops, RotaryComplex, RotaryMatrix, RotaryHalf],
    "rotary_frequencies": [FrequencyLoops, FrequencyWaves, FrequencyClip],
    "pairs_to_halves": [OrderSlices, OrderLoops, OrderSort],
    "Rotary": [LayerOps, LayerComplex],
}
