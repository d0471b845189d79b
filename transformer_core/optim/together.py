"""Several optimisers, each for parameters of its own, that step as one."""

from collections.abc import Callable

import numpy as np

from transformer_core.foundation.checks import check_kind
from transformer_core.foundation.names import check_fit
from transformer_core.optim.optimizer import Optimizer, Parameters


class Together(Optimizer):
    """Steps several optimisers: Muon for the matrices of hidden layers, say, AdamW for the rest.

    Gradients are measured and clipped together. The learning rate is that of the first; those of
    the others keep their ratios to it.

    Parameters
    ----------
    parameters : dict of str to ndarray, or callable
        All of them. See ``Optimizer``.
    *parts : Optimizer
        Each parameter is of one of them.
    norm, map : callable, optional
        As for ``Optimizer``.

    Raises
    ------
    ValueError
        If a part is no optimiser, or a parameter is of none of them, or of two.
    """

    def __init__(self, parameters: Parameters, *parts: Optimizer, **seams: Callable):
        for part in parts:
            check_kind("parts", part, Optimizer)
        if not parts:
            raise ValueError("parts: expected at least one optimiser, got none")
        super().__init__(parameters, parts[0].learning_rate, **seams)
        self.parts = parts
        self.ratios = [part.learning_rate / self.learning_rate for part in parts]
        owned: dict[str, np.ndarray] = {}
        for part in parts:
            twice = owned.keys() & part.parameters.keys()
            if twice:
                raise ValueError(
                    f"parts: expected each parameter in one, got {min(twice)} in two"
                )
            owned |= part.parameters
            for average, arrays in part.averages.items():
                self.averages.setdefault(average, {}).update(arrays)
        check_fit("parts", owned, self.parameters)

    def apply(self, grads: dict[str, np.ndarray], factor: float) -> None:
        """Let each part update its own parameters."""
        for part, ratio in zip(self.parts, self.ratios, strict=True):
            part.steps, part.learning_rate = self.steps, ratio * self.learning_rate
            part.apply({name: grads[name] for name in part.parameters}, factor)
