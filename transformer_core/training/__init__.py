"""The training loop, and runs that survive on disk."""

from transformer_core.training.accumulation import combine
from transformer_core.training.few_bits import few_bits, rounded_arrays
from transformer_core.training.loop import train
from transformer_core.training.on_disk import train_on_disk
from transformer_core.training.recipe import Recipe, Training, load_settings
from transformer_core.training.run import Run

__all__ = sorted(name for name, value in globals().items() if callable(value))
