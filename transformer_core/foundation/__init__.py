"""What every room of the package may use: checks of arguments, names of arrays, chunks of them."""
