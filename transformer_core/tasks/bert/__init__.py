"""Masked language modelling: a Mini-BERT, trained on the documentation that is installed."""
