"""Times of training Mini-BERT and a GPT, and of decoding, side by side with JAX and PyTorch.

``make bench`` prints the table. What a contender needs beyond NumPy is imported when it is built.
"""
