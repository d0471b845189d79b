"""Write it yourself: the mistakes that people make, and who finds them."""
