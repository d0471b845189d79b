"""What all code of a process shares, and no reader's function may change."""

import builtins
import math
import os
import sys
from threading import active_count

import numpy as np

SHARED = np, np.linalg, np.random, math, builtins


class Surroundings:
    """What it is like when a process begins."""

    def __init__(self):
        self.forks = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                after_in_parent=lambda: self.forks.append(1), after_in_child=lambda: os._exit(0)
            )
        self.folder, self.threads = os.getcwd(), active_count()
        own = [m for name, m in sys.modules.items() if name.startswith("transformer_core")]
        self.modules = [
            (module, {name: value for name, value in vars(module).items() if callable(value)})
            for module in (*SHARED, *own)
        ]

    def change(self) -> str:
        """Say what was changed; nothing if all is as it was."""
        for module, before in self.modules:
            for name, value in before.items():
                if vars(module).get(name) is not value:
                    where = module.__name__.replace("numpy", "np")
                    return f"replaces {where}.{name}, which all other code uses, too"
        if self.forks:
            return "starts another process"
        if os.getcwd() != self.folder:
            return "changes the folder in which the program works"
        try:
            os.fstat(1)
            closed = sys.stdout.closed
        except (OSError, AttributeError):
            closed = True
        return "closes the standard output" if closed else ""

    def busy(self) -> bool:
        """Tell whether something runs on that could not be stopped."""
        return active_count() > self.threads
