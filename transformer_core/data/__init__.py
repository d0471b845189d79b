"""What the models are trained on."""

from transformer_core.data.characters import Characters
from transformer_core.data.date_rules import DateRules
from transformer_core.data.dates import LANGUAGES, Dates, normalise, split_days
from transformer_core.data.reconstruction import (
    Reconstruction,
    layer_norm_floor,
    predict_mean,
    predict_zero,
)

__all__ = [
    "LANGUAGES",
    "Characters",
    "DateRules",
    "Dates",
    "Reconstruction",
    "layer_norm_floor",
    "normalise",
    "predict_mean",
    "predict_zero",
    "split_days",
]
