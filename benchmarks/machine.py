"""What is measured on: ``python -m benchmarks.machine`` prints it as JSON."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np


def main():
    """Print the kernels that multiply NumPy's matrices, and a description of all the rest."""
    library = blas()
    versions = [f"Python {platform.python_version()}"]
    for package in ("numpy", "jax", "torch"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            pass
    versions.append(f"{library['internal_api']} {library['version']}")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {', '.join(versions)}"
    print(json.dumps({"kernels": library["architecture"], "machine": machine}))


def blas():
    """Return what threadpoolctl knows of the library that multiplies NumPy's matrices."""
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))  # some systems load it when it is first used
    unknown = {"internal_api": "unknown BLAS", "version": "", "architecture": "unknown"}
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    return unknown | (libraries or [{}])[0]


if __name__ == "__main__":
    main()
