"""Times and memory of a Mini-BERT's training step, side by side with JAX and PyTorch.

``make bench`` prints the table. What a contender needs beyond NumPy is imported when it is built.
"""
