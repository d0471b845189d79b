"""Optimisers: parameters and gradients in, better parameters out, in place."""

from transformer_core.optim.adam import Adam
from transformer_core.optim.adamw import AdamW
from transformer_core.optim.clipping import clip_by_global_norm
from transformer_core.optim.loss_scaling import LossScale, unscale
from transformer_core.optim.muon import Muon, muon_scale, orthogonalize
from transformer_core.optim.schedules import warmup_stable_decay
from transformer_core.optim.sgd import SGD
from transformer_core.optim.together import Together

__all__ = sorted(name for name, value in globals().items() if callable(value))
