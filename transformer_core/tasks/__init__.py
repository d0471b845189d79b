"""What the models of the book are trained on, how, and what becomes of them.

Texts, ids, shapes and numbers that no function here can use, and runs that are damaged, end in a
``ValueError`` that says what was expected and what was given.
"""
