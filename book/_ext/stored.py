"""Results that are stored with the sources: with what they are computed, and what is said of it.

Whatever is stored is computed again by the tests, and has to come out the same.
"""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

PROCESSOR = Path("/proc/cpuinfo")
KERNELS = {}
if PROCESSOR.exists() and "avx2" in PROCESSOR.read_text(encoding="utf-8").split():
    KERNELS = {"OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "Haswell")}
# For whatever computes results that are stored, as in the Makefile: no progress bars, one thread,
# whose sums do not depend on the number of cores, kernels that do not depend on the processor, and
# times as they were measured once.
RECORDED = KERNELS | {
    "TQDM_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "MEASURED": os.environ.get("MEASURED", "stored"),  # for book/measured.py
}


def everything_anew():
    """Whether ``EXECUTE=all`` asks for everything, stored or not."""
    wanted = os.environ.get("EXECUTE")
    if wanted not in (None, "", "all"):
        raise ValueError(f"expected EXECUTE=all or nothing, got EXECUTE={wanted}")
    return wanted == "all"


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def computed_with(*packages):
    """Python's version, those of packages, and the machine: what is stored beside results."""
    # without the part that tells the builds of one version apart, such as 2.13.0+cpu
    versions = {name: version(name).partition("+")[0] for name in packages}
    return {"machine": machine(), "packages": versions, "python": platform.python_version()}


def sentence(results, computed):
    """Say with which versions and on what machine stored results were computed, in Markdown."""
    packages = [f"{name} {v}" for name, v in sorted(computed["packages"].items())]
    versions = ", ".join([f"Python {computed['python']}", *packages])
    return f"*{results} computed with {versions} on {computed['machine']}.*"


def machine():
    """Architecture, cores, and the library that multiplies NumPy's matrices with its kernels."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))  # some systems load it when it is first used
    found = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    blas = "a BLAS that threadpoolctl does not know"
    if found:
        kernels = found[0].get("architecture", "unknown")
        blas = f"{found[0]['internal_api']} {found[0]['version']} ({kernels} kernels)"
    return f"{platform.machine()}, {os.cpu_count()} cores, {blas}"
