"""What the models of the book are trained on, how, and what becomes of them."""
