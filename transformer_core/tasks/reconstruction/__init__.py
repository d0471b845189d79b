"""The reconstruction task: an encoder gives back each token's embedding."""

from transformer_core.tasks.reconstruction.data import (
    Reconstruction,
    layer_norm_floor,
    predict_mean,
    predict_zero,
)
from transformer_core.tasks.reconstruction.model import Reconstructor
from transformer_core.tasks.reconstruction.recipe import load

__all__ = [
    "Reconstruction",
    "Reconstructor",
    "layer_norm_floor",
    "load",
    "predict_mean",
    "predict_zero",
]
