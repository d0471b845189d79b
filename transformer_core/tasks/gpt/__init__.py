"""Language modelling: byte pairs, and a GPT that writes what it has read in the documentation."""
