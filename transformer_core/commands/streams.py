"""Standard streams on which a command can rely."""

import os
import sys
from collections.abc import Callable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any


class Steady:
    """A stream of which a failing write is handed over, and all later ones go into nothing."""

    def __init__(self, stream: Any, fail: Callable[[OSError], None]):
        self.stream, self.fail = stream, fail

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        self.attempt(self.stream.write, text)

    def flush(self):
        self.attempt(self.stream.flush)

    def attempt(self, function, *arguments):
        try:
            function(*arguments)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_RDWR), self.stream.fileno())
            self.fail(error)


@contextmanager
def steady_errors():
    """Let no closed stream's number go to a file, and no error stream end the work."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    stderr = sys.stderr or open(os.devnull, "w")
    with redirect_stderr(Steady(stderr, lambda error: None)):
        yield


@contextmanager
def steady_output():
    """Write every character, if need be by its number, and all of them before the end.

    Raises
    ------
    ValueError
        If the standard output is closed.
    OSError
        If it takes no more; it says that it is the standard output.
    """
    if sys.stdout is None:
        raise ValueError("standard output: expected an open one, got a closed one")
    if hasattr(sys.stdout, "reconfigure"):  # not so in a notebook
        sys.stdout.reconfigure(errors="backslashreplace")

    failed = []

    def fail(error):
        failed.append(OSError(error.errno, error.strerror, "standard output"))
        raise failed[0] from None

    with redirect_stdout(Steady(sys.stdout, fail)):
        try:
            yield
        finally:
            sys.stdout.flush()
            if failed:  # argparse lets no error of its help through
                raise failed[0] from None
