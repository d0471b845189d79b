"""Optimisers: parameters and gradients in, better parameters out, in place."""

from transformer_core.optim.adam import Adam

__all__ = ["Adam"]
