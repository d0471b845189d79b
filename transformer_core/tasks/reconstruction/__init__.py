"""The reconstruction task: an encoder gives back each token's embedding."""

from transformer_core.tasks.reconstruction.data import (
    Reconstruction,
    layer_norm_floor,
    predict_mean,
    predict_zero,
)
from transformer_core.tasks.reconstruction.model import Reconstructor
from transformer_core.tasks.reconstruction.recipe import load

__all__ = sorted(name for name, value in globals().items() if callable(value))
