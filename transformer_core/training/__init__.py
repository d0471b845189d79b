"""The training loop, and runs that survive on disk."""

from transformer_core.training.accumulation import combine
from transformer_core.training.data_parallel import DataParallel
from transformer_core.training.loop import train
from transformer_core.training.run import Run

__all__ = ["DataParallel", "Run", "combine", "train"]
