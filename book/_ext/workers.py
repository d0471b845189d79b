"""Pages are read and written side by side, by a process for each core."""

import gc
import os
import sys

from pybtex.backends.plaintext import Backend
from pybtex.plugin import register_plugin
from sphinx_proof.domain import ProofDomain

MOST = 4  # processes: each hands back all that it knows of the book
UNDECLARED = {"sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"}


class Proofs(ProofDomain):
    """Theorems, of which the domain keeps nothing: sphinx_proof merges its list itself."""

    def merge_domaindata(self, docnames, otherdata):
        pass


def setup(app):
    # A build keeps most of what it makes: looking for cycles in it took a sixth of the time.
    gc.set_threshold(1_000_000, 20, 1_000)
    # It is looked for in all that is installed, once for each citation.
    register_plugin("pybtex.backends", "plaintext", Backend, force=True)
    if sys.platform == "linux":  # elsewhere no process with threads is safely copied
        app.parallel = min(MOST, (os.cpu_count() or 1) + 1)  # one waits most of the time
    app.add_domain(Proofs, override=True)
    app.connect("config-inited", read_in_parallel)
    app.connect("build-finished", stop_looking_for_cycles, priority=999)
    return {"parallel_read_safe": True}


def read_in_parallel(app, config):
    """Count as safe what does not say whether it is: these work on whole books, not on pages."""
    for name in UNDECLARED & app.extensions.keys():
        app.extensions[name].parallel_read_safe = True


def stop_looking_for_cycles(app, exception):
    """Look for cycles no more: at its end a process would do so for a tenth of the whole time."""
    gc.freeze()
