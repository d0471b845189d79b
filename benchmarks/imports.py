"""How long it takes to import: ``python -m benchmarks.imports`` prints the seconds as JSON."""

import json
from importlib import import_module
from time import perf_counter

PARTS = ("models", "optim", "training")


def main():
    """Print what NumPy's own import takes, and what that of the package takes after it."""
    seconds = {}
    for what, modules in (
        ("numpy", ["numpy"]),
        ("this package", [f"transformer_core.{part}" for part in PARTS]),
    ):
        start = perf_counter()
        for module in modules:
            import_module(module)
        seconds[what] = perf_counter() - start
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
