"""The training loop, and runs that survive on disk."""

from transformer_core.training.accumulation import combine
from transformer_core.training.data_parallel import DataParallel
from transformer_core.training.loop import train
from transformer_core.training.on_disk import (
    Recipe,
    Training,
    load_settings,
    train_on_disk,
)
from transformer_core.training.run import Run

__all__ = [
    "DataParallel",
    "Recipe",
    "Run",
    "Training",
    "combine",
    "load_settings",
    "train",
    "train_on_disk",
]
