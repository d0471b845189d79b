"""The Transformer in NumPy, with hand-written backward passes.

``ops`` holds one derivation a file, ``layers`` and ``models`` compose them, ``optim`` and
``training`` make them learn, ``gradient_check`` witnesses their gradients.
"""

__version__ = "0.1.0"
