"""Training with numbers of few bits, simulated: what is computed is rounded, no step is faster."""

from collections.abc import Callable
from typing import Any

import numpy as np

Rounding = Callable[[np.ndarray], np.ndarray]


def few_bits(
    model: Any, results: Rounding, factors: Rounding = lambda x: x
) -> Callable[..., tuple[float, dict[str, np.ndarray]]]:
    """Return a ``loss_and_gradients`` that computes with rounded copies of the parameters.

    The parameters themselves stay as they are: they are the master weights.

    Parameters
    ----------
    model : model
        With ``parameters``, ``set_parameters`` and ``loss_and_gradients``.
    results : callable
        Rounds what each operation of NumPy returns, the parameters included. A sum, or a matrix
        product, is one operation: it is summed in the dtype of the parameters.
    factors : callable
        Rounds both factors of each matrix product. Default: they stay as they are.

    Source: Micikevicius et al. 2018, section 3.
    """
    kind = rounded_arrays(results, factors)

    def loss_and_gradients(*batch, **options):
        masters = model.parameters()
        copies = {n: results(array).view(kind) for n, array in masters.items()}
        model.set_parameters(copies)
        try:
            loss, grads = model.loss_and_gradients(*batch, **options)
        finally:
            model.set_parameters(masters)
        return loss, {name: np.asarray(grad) for name, grad in grads.items()}

    return loss_and_gradients


def rounded_arrays(
    results: Rounding, factors: Rounding = lambda x: x
) -> type[np.ndarray]:
    """Return a class of arrays with which NumPy's operations round what they return.

    ``array.view(kind)`` is one. What is computed of one is one, too.
    """

    class Rounded(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
            inputs = [plain(x) for x in inputs]
            if ufunc is np.matmul:
                inputs = [factors(x) for x in inputs]
            result = getattr(ufunc, method)(*inputs, **options)
            if isinstance(result, tuple) or result is None:
                return result
            if result.dtype.kind == "f":
                result = results(np.asarray(result))
            for target in out:
                plain(target)[...] = result
                return target
            return result.view(Rounded) if np.ndim(result) else result[()]

    return Rounded


def plain(x):
    """Return an array as NumPy's own class, with the same memory."""
    return x.view(np.ndarray) if isinstance(x, np.ndarray) else x
