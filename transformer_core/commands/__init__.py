"""One file a command of ``python -m transformer_core``."""
