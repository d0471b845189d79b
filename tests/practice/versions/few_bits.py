"""Few bits as different readers write them."""

import numpy as np


class RoundSpacing:
    """Whole numbers of spacings."""

    def forward(x):
        _, exponent = np.frexp(x)
        spacing = np.ldexp(1.0, exponent - 8)
        return np.rint(x / spacing) * spacing


class RoundMantissa:
    """Whole numbers of 8 bits, and an exponent."""

    def forward(x):
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.rint(256 * mantissa), exponent - 8)


class RoundNeighbours:
    """The nearer of two neighbours, one entry after the other."""

    def forward(x):
        y = np.zeros_like(x)
        for at, value in np.ndenumerate(x):
            if value == 0:
                y[at] = value
                continue
            spacing = 2.0 ** (np.floor(np.log2(abs(value))) - 7)
            low = np.floor(value / spacing)
            up = value / spacing - low
            if up > 0.5 or up == 0.5 and low % 2:
                low += 1
            y[at] = low * spacing
        return y


class RandomFloor:
    """The number is added, and the sum goes down."""

    def forward(x, numbers):
        _, exponent = np.frexp(x)
        spacing = np.ldexp(1.0, exponent - 8)
        return np.floor(x / spacing + numbers) * spacing


class RandomChoice:
    """Up with the probability of the fraction."""

    def forward(x, numbers):
        _, exponent = np.frexp(x)
        spacing = np.ldexp(1.0, exponent - 8)
        low = np.floor(x / spacing)
        goes_up = numbers >= 1 - (x / spacing - low)
        return (low + goes_up) * spacing


class StepCases:
    """The bad case first."""

    def forward(parameter, grad, scale, streak, max_norm):
        if not np.isfinite(grad).all():
            return parameter, scale / 2, 0
        grad = grad / scale
        grad = grad * (max_norm / max(np.linalg.norm(grad), max_norm))
        streak += 1
        if streak == 5:
            scale, streak = 2 * scale, 0
        return parameter - grad, scale, streak


class StepNorm:
    """One norm tells whether the gradient is finite, and how long it is."""

    def forward(parameter, grad, scale, streak, max_norm):
        norm = np.sqrt((grad**2).sum()) / scale
        if not np.isfinite(norm):
            return parameter, scale / 2, 0
        step = grad / scale
        if norm > max_norm:
            step *= max_norm / norm
        if streak == 4:
            return parameter - step, scale * 2, 0
        return parameter - step, scale, streak + 1


class RowsDivided:
    """All rows at once."""

    def forward(matrix):
        scales = (np.abs(matrix).max(axis=1, keepdims=True) / 127).astype(np.float32)
        whole = np.rint(matrix / np.where(scales == 0, 1, scales))
        return whole.clip(-127, 127).astype(np.int8), scales


class RowsLoop:
    """One row after the other."""

    def forward(matrix):
        whole = np.zeros(matrix.shape, np.int8)
        scales = np.zeros((len(matrix), 1), np.float32)
        for row, (numbers, to) in enumerate(zip(matrix, whole, strict=True)):
            scales[row] = max(numbers.max(), -numbers.min()) / 127
            if scales[row] > 0:
                to[:] = np.rint(numbers / scales[row])
        return whole, scales


class RowsOfFloat32:
    """By the scale that is returned, and without a case for zeros."""

    def forward(matrix):
        largest = np.max(np.abs(matrix), axis=-1)[:, None]
        scales = np.float32(largest / 127)
        inverse = np.divide(1, scales, out=np.zeros_like(scales, float), where=scales > 0)
        return np.round(matrix * inverse).astype(np.int8), scales


RIGHT = {
    "to_bfloat16": [RoundSpacing, RoundMantissa, RoundNeighbours],
    "to_bfloat16_at_random": [RandomFloor, RandomChoice],
    "scaled_step": [StepCases, StepNorm],
    "round_rows": [RowsDivided, RowsLoop, RowsOfFloat32],
}
