"""The exact witness: SymPy differentiates a loss of symbols."""

import numpy as np
import sympy


def symbols(letter, *shape):
    """Fill an array with real symbols, for the exact witness."""
    names = sympy.symbols(f"{letter}0:{np.prod(shape)}", real=True)
    return np.array(names, dtype=object).reshape(shape)


def assert_exact(loss, arrays, gradients):
    """Differentiate a symbolic loss and compare each entry exactly."""
    for array, gradient in zip(arrays, gradients, strict=True):
        assert array.shape == gradient.shape
        for entry, derivative in zip(array.flat, gradient.flat, strict=True):
            assert is_zero(sympy.diff(loss, entry) - derivative)


def is_zero(expression):
    """Decide exactly. Mostly expanding will do, or the numerator over the common denominator."""
    if sympy.expand(expression) == 0:
        return True
    numerator = sympy.expand(sympy.numer(sympy.together(expression)))
    return numerator == 0 or sympy.simplify(numerator) == 0
