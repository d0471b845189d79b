"""The Transformer in NumPy, with hand-written backward passes.

``ops`` holds one derivation a file, ``layers`` and ``models`` compose them, ``optim`` and
``training`` make them learn, ``gradient_check`` witnesses their gradients. Equations (eq:...) are
those of the book; text 000 to text 004 are the five texts of its notes on the sources.
"""

__version__ = "0.1.0"
