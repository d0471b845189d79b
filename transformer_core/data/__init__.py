"""What the models are trained on."""

from transformer_core.data.reconstruction import (
    Reconstruction,
    layer_norm_floor,
    predict_mean,
    predict_zero,
)

__all__ = ["Reconstruction", "layer_norm_floor", "predict_mean", "predict_zero"]
