"""What becomes of the memory of arrays that are no longer needed."""

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h
LARGEST_MMAP_THRESHOLD = 2**25  # bytes: the largest that glibc accepts
TWO_HEAPS = 2**27  # bytes: the heaps of all threads but the first have 2**26


def keep_freed_memory() -> None:
    """Keep the memory of freed arrays for the next ones, instead of giving it back.

    The system clears every page that it hands out. A training step frees what it computed and
    the next one asks for as much again, so that clearing pages can take a fifth of its time. This
    function has an effect where the C library is glibc, on Linux, and from now on.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
    mallopt(M_TRIM_THRESHOLD, -1)  # the end of the first thread's heap stays
    mallopt(M_TOP_PAD, TWO_HEAPS)  # and every heap of the other threads, though empty
