import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import threading

import numpy as np

from transformer_core.distributed.memory import keep_freed_memory

pages = []


def work():
    for _ in range(4):
        arrays = [np.ones(400_000) for _ in range(60)]  # several heaps of a thread
        while arrays:
            arrays.pop()
        pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)


{call}
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(pages[-1] - pages[0])
"""


def pages_asked_for(call):
    """Return how many pages a thread asks the system for after its first round of arrays."""
    program = PROGRAM.format(call=call)
    return int(subprocess.check_output([sys.executable, "-c", program]))


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="works with glibc alone")
def test_arrays_get_the_memory_of_those_before_them():
    kept = pages_asked_for("keep_freed_memory()")
    assert 10 * kept < pages_asked_for("")  # whatever the size of a page
